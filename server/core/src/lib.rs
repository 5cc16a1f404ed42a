//! The pure parts of Encke: the session state machine and the dialects.
//!
//! Nothing here reads a clock, opens a socket, takes a lock or starts a thread: time is an argument, and what is
//! to be done comes back as values. The crate border keeps it so.
//!
//! Each room may import only those before it:
//!
//! - [`close`]: why connections and sessions end, and the code that tells the client.
//! - [`session`]: what a client has with the server, and every timeout of it.
//! - [`message`]: what a channel carries.
//! - [`dialect`]: what the bytes on a connection mean.
//! - [`encodings`]: a message in each dialect.
//! - [`frame_walk`]: where the frames of a WebSocket end.

#![deny(missing_docs)]

pub mod close;
pub mod dialect;
pub mod encodings;
pub mod frame_walk;
pub mod message;
pub mod session;
mod timestamp;

pub use timestamp::Timestamp;
