//! Transports: how each interprets the bytes of its clients, and writes the messages of a session.
//!
//! Each transport has a directory, and implements [`Protocol`](crate::connection::Protocol). To add one, parse
//! its requests in `public/`, name it in `session/` (`Transport` in `cell.rs`), define what a session can do
//! over it (`ConnectionKind` in `attach.rs`), and list it in `metrics/connections.rs`.

mod bayeux_arrays;
mod pattern_origin;
pub(crate) mod poll;
pub(crate) mod sse;
pub(crate) mod websocket;
