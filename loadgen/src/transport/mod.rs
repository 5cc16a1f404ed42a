//! Bytes to and from a server: TCP from a chosen source address, then a WebSocket, a stream of server-sent events, or requests and
//! their answers.
//!
//! What is read here has a form, but no meaning yet: that is for [`crate::client`].

mod body;
mod error;
pub(crate) mod event_stream;
mod http_head;
mod line;
mod read_buffer;
mod requests;
mod source;
pub(crate) mod websocket;

pub(crate) use self::error::ConnectError;
pub(crate) use self::http_head::ResponseHead;
pub(crate) use self::line::Line;
pub(crate) use self::requests::Answer;
pub use self::source::{ADDRESSES, Sources};
