//! HTTP/1.1: requests over one connection at a time, and their responses.

mod body;
mod client;
mod head;

pub(super) use self::body::Framing;
pub(crate) use self::client::{HttpClient, Request};
pub use self::head::ResponseHead;
