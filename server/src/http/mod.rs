//! HTTP for both listeners: accepting connections, reading bodies, making replies.

mod accept;
pub(crate) mod body;
pub(crate) mod reply;

pub(crate) use accept::{Acceptor, Listener};
pub(crate) use reply::{ApiError, Reply};
