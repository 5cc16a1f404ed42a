//! Sessions of the server: the pure state machine of `encke-core` behind a lock, its timer on the wheel, and
//! the mailbox of its connection.
//!
//! All changes to a session go through [`Sessions`], and within it through one function, [`step`](Sessions).
//! A session reaches its connection by posting [`Signals`] to its [`Mailbox`]. Lifecycle events go to the
//! [`EventSink`].

mod attach;
mod cell;
mod command_source;
mod delivery;
mod direct_messages;
mod ended_sessions;
mod id;
mod join_leave;
mod mailbox;
mod panics;
mod parked;
mod record;
mod registry;
mod restored_credentials;
mod server_subscriptions;
mod sessions;
mod snapshot;
mod step;
mod subscriptions;
mod suspended_sessions;
mod timeline;
mod users;
mod view;

pub(crate) use attach::{AttachRefusal, AttachRequest, Attached};
pub(crate) use cell::{SessionCell, SessionHandle, SessionLookup, SessionRef, Transport};
pub(crate) use command_source::{ClientInput, CommandSource};
pub(crate) use delivery::{Backlog, DeliveryBatch, DeliveryWriter, SessionOutbox, take_batch};
pub(crate) use direct_messages::DirectMessageError;
#[cfg(feature = "fuzzing")]
pub(crate) use id::ResumeToken;
pub use id::SessionId;
pub(crate) use id::{ExposedToken, InvalidSessionId};
pub(crate) use mailbox::{Mailbox, ParkedMailbox, Signals};
pub(crate) use parked::{DeliveryOutcome, ParkedConnection, PendingWork, ReadOutcome};
pub(crate) use record::{StoredEnd, StoredNotice, StoredSession};
pub(crate) use sessions::{EventSink, SessionLimits, SessionLogs, Sessions};
pub(crate) use snapshot::RestoredSessions;
pub(crate) use subscriptions::{SubscribeError, SubscribeOutcome};
pub(crate) use view::SessionView;

#[cfg(test)]
mod join_leave_tests;

/// The channels, with sessions as subscribers.
pub(crate) type Channels = crate::channel::Channels<SessionRef>;
/// A channel with sessions as subscribers.
pub(crate) type Channel = crate::channel::Channel<SessionRef>;
