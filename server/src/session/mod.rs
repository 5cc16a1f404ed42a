//! Sessions of the server: the pure state machine of `encke-core` behind a lock, its timer on the wheel, and
//! the mailbox of its connection.
//!
//! - `table/` stores the sessions and finds them.
//! - `subscriptions/` subscribes them to channels, reads messages for them, and unsubscribes them.
//! - `lifecycle/` changes their phases and deadlines, from the first connection to the end of the session. All
//!   of these changes are made by one function, `step`.
//!
//! A session reaches its connection by posting [`Signals`] to its [`Mailbox`]. Lifecycle events go to the
//! [`EventSink`].

mod arrival;
mod channels;
mod id;
mod lifecycle;
mod panics;
mod reported_positions;
mod session_ref;
mod sharing;
mod subscriptions;
mod table;
mod transport;

pub(crate) use arrival::Arrival;
pub(crate) use channels::{Channel, Channels, SessionLogs, SessionOutbox};
pub use id::SessionId;
pub(crate) use id::{ExposedToken, InvalidSessionId, ResumeToken};
pub(crate) use lifecycle::{
    AttachRefusal, AttachRequest, Attached, EventSink, OnlineUsers, RestoredSessions, SessionRequest,
    Sessions, UserSink,
};
pub(crate) use reported_positions::{ChannelKey, ReportedPositions};
pub(crate) use session_ref::SessionRef;
pub(crate) use sharing::{
    AcquiredSession, ClaimedSession, ForwardedRequests, NotForwarded, RequestKind, SharedSessions,
};
pub(crate) use subscriptions::{
    Backlog, ClientInput, CommandSource, DeliveryBatch, DeliveryWriter, DirectMessageError, JoinAuthoriser,
    SessionLimits, SubscribeError, SubscribeOutcome, take_batch,
};
pub(crate) use table::{
    DeliveryOutcome, Mailbox, ParkedConnection, ParkedMailbox, PendingWork, ReadOutcome, Rename, SessionCell,
    SessionHandle, SessionTable, SessionView, Signals, StoredEnd, StoredNotice, StoredSession, TableLimits,
};
pub(crate) use transport::Transport;
