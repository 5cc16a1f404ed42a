//! Sessions as the server keeps them: the pure machine of `encke-core` behind a lock, its name on the wheel, and
//! the link to its connection.

mod cell;
mod delivery;
mod hooks;
mod id;
mod link;
mod store;
mod subscriptions;

pub(crate) use cell::{SessionCell, SessionView, Transport};
pub(crate) use delivery::{Left, Outgoing};
pub use hooks::{Hooks, NoHooks};
pub use id::{BadSessionId, SessionId};
pub(crate) use link::{Link, Notes};
pub(crate) use store::{AttachRequest, Attached, Refusal, SessionLimits, Sessions};
pub(crate) use subscriptions::NotSubscribed;
