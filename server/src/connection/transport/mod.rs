//! Transports: how each interprets the bytes of its clients, and writes the messages of a session.
//!
//! Each transport has a directory, and implements [`Protocol`](crate::connection::Protocol). ARCHITECTURE.md
//! describes how to add one.

mod bayeux_arrays;
mod pattern_origin;
pub(crate) mod poll;
pub(crate) mod sse;
pub(crate) mod websocket;
