//! HTTP for both listeners: accepting connections, reading bodies, creating responses, and serving embedded
//! files; addresses of clients behind proxies.

mod accept;
pub(crate) mod body;
mod common_headers;
mod embedded;
mod error_bodies;
mod error_code;
mod forwarded_reply;
pub mod proxies;
pub(crate) mod public_url;
pub(crate) mod reply;
pub(crate) mod request;
mod timed_heads;
mod timed_writes;

pub(crate) use accept::{Acceptor, ConnectionHandler, Listener, SocketOptions};
pub(crate) use common_headers::{add_common_headers, elements, http_date, keep_alive_value, keeps_alive};
pub(crate) use embedded::EmbeddedFile;
pub(crate) use error_bodies::ErrorBodies;
pub use error_code::ApiErrorCode;
pub(crate) use forwarded_reply::ForwardedReply;
pub(crate) use reply::{ApiError, Reply};
pub(crate) use timed_heads::{RequestState, TimedHeads};
pub(crate) use timed_writes::TimedWrites;

/// Maximum size of a request's head. A request with a longer head gets 431. By default, hyper would buffer up
/// to 400 KiB.
pub(crate) const MAX_HEAD_BYTES: usize = 16 * 1024;
