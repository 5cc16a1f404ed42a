//! Users that are online on any of the servers that share a Redis.
//!
//! Each server reports which users are online on it; Redis counts the servers of each user and creates the
//! events (`scripts/users.lua`). A server that dies loses its lease, and the others then report its users as
//! offline. While Redis is unreachable, changes wait.

mod calls;
mod event;
mod registration;
pub(super) mod shared_users;

pub use event::{UserEvent, UserEventSink};
pub use shared_users::SharedUsers;
