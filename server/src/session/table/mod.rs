//! The sessions, and the ways to find one: by its slot, its id, its user, or its resume token.

mod cell;
mod mailbox;
mod pending_work;
mod rare_state;
mod record;
mod registry;
mod restored_credentials;
mod session_table;
mod shared_state;
mod signals;
mod state;
mod users;
mod view;

pub(crate) use cell::{ParkedConnection, PollAdvice, SessionCell, SessionHandle, SessionState, StateGuard};
pub(crate) use mailbox::{Mailbox, ParkedMailbox, Posted};
pub(crate) use pending_work::{DeliveryOutcome, PendingWork, ReadOutcome};
pub(crate) use rare_state::{EvictionPosition, Rename};
pub(crate) use record::{
    DIALECTS, MovedLog, MovedSession, NotRestored, StoredEnd, StoredNotice, StoredRename, StoredSession,
    TRANSPORTS, index_of, value_at,
};
pub(crate) use session_table::{SessionLifecycle, SessionTable, TableLimits};
pub(crate) use shared_state::{DirectoryWrites, SharedState};
pub(crate) use signals::Signals;
pub(crate) use state::{Unparked, token_deadline};
pub(crate) use view::SessionView;
