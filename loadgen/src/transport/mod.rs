//! Bytes to and from a server: TCP from a chosen source address, then a WebSocket, a stream of server-sent
//! events, or HTTP requests and their responses.
//!
//! This module parses framing. The meaning of messages is up to [`crate::client`].

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
