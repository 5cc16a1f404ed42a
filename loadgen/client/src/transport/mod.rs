//! Bytes to and from a server: TCP from a chosen source address, TLS, and on top of it a WebSocket, a stream
//! of server-sent events, or HTTP requests and their responses.

mod endpoint;
mod error;
mod event_parser;
mod event_stream;
mod http;
mod source;
mod stream;
pub mod websocket;

pub(crate) use self::endpoint::Endpoint;
pub use self::endpoint::TlsOptions;
pub use self::error::ConnectError;
pub(crate) use self::event_stream::EventStream;
pub use self::http::ResponseHead;
pub(crate) use self::http::{HttpClient, Request};
pub use self::source::{ADDRESSES, Sources};
pub use self::stream::Stream;
