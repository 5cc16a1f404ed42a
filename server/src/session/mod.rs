//! Sessions as the server keeps them: the pure machine of `encke-core` behind a lock, its timer on the wheel, and the
//! link to its connection.
//!
//! [`Sessions`] is the one way to change a session, and [`step`](Sessions) the one function that does it. What the session
//! wants of its connection goes over the [`Link`]: a few [`Notes`], and a waker. What happens in a session's life goes to
//! the [`EventSink`].

mod at_rest;
mod attach;
mod by_server;
mod cell;
mod delivery;
mod direct;
mod id;
mod join_leave;
mod link;
mod record;
mod registry;
mod sessions;
mod snapshot;
mod step;
mod subscriptions;
mod suspended;
mod timeline;
mod unclaimed;
mod untold;
mod users;
mod via;
mod view;

pub(crate) use at_rest::{AtRest, Delivered, Heard, Remains};
pub(crate) use attach::{AttachRequest, Attached, Refusal};
pub(crate) use cell::{Cells, SessionCell, SessionHandle, SessionRef, Transport};
pub(crate) use delivery::{Backlog, Outgoing, SessionOutbox, Share, take_share};
pub(crate) use direct::NotSaid;
#[cfg(feature = "fuzzing")]
pub(crate) use id::ResumeToken;
pub use id::SessionId;
pub(crate) use id::{BadSessionId, ExposedToken};
pub(crate) use link::{Link, LinkAtRest, Notes};
pub(crate) use record::{StoredEnd, StoredSession, StoredTelling};
pub(crate) use sessions::{EventSink, Logs, SessionLimits, Sessions};
pub(crate) use snapshot::RestoredSessions;
pub(crate) use subscriptions::{NotSubscribed, Subscribed};
pub(crate) use via::{Said, Via};
pub(crate) use view::SessionView;

#[cfg(test)]
mod join_leave_tests;

/// The channels that sessions follow.
pub(crate) type Channels = crate::channel::Channels<SessionRef>;
/// A channel that sessions follow.
pub(crate) type Channel = crate::channel::Channel<SessionRef>;
