//! HTTP for both listeners: accepting connections, reading bodies, making replies, files of the binary.

mod accept;
pub(crate) mod body;
mod embedded;
mod error_code;
mod lent;
pub(crate) mod reply;
mod rewound;
mod timed_writes;

pub(crate) use accept::{Acceptor, Listener, Serve, SocketOptions};
pub(crate) use embedded::Embedded;
pub(crate) use error_code::ApiErrorCode;
pub(crate) use lent::{Lent, Peer};
pub(crate) use reply::{ApiError, Reply};
pub(crate) use rewound::Rewound;
pub(crate) use timed_writes::TimedWrites;

/// The longest head of a request: what is longer gets 431. hyper would buffer up to 400 KiB of it.
pub(crate) const MAX_HEAD_BYTES: usize = 16 * 1024;
