//! Bytes to and from a server: TCP from a chosen source address, then a WebSocket or a stream of server-sent events.
//!
//! What is read here has a form, but no meaning yet: that is for [`crate::client`].

mod error;
pub(crate) mod event_stream;
mod http_head;
mod read_buffer;
mod source;
pub(crate) mod websocket;

pub(crate) use self::error::ConnectError;
pub(crate) use self::http_head::ResponseHead;
pub use self::source::{ADDRESSES, Sources};
