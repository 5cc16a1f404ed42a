//! Bytes to and from a server: TCP from a chosen source address, and on top of it a WebSocket, a stream of
//! server-sent events, or HTTP requests and their responses.
//!
//! This module parses framing. [`crate::client`] interprets the messages.

mod body;
mod error;
pub(crate) mod event_stream;
mod http_client;
mod http_connection;
mod http_head;
mod read_buffer;
mod source;
pub(crate) mod websocket;

pub(crate) use self::error::ConnectError;
pub(crate) use self::http_client::HttpClient;
pub(crate) use self::http_connection::CompleteResponse;
pub(crate) use self::http_head::ResponseHead;
pub use self::source::{ADDRESSES, Sources};
