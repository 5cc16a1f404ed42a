//! The pure core of Encke: the session state machine and the dialects.
//!
//! This crate reads no clock, opens no socket, takes no lock and starts no thread. Callers pass the time as
//! an argument, and carry out the side effects that are returned as values. Because it is a separate crate,
//! it cannot depend on code that does any of this.
//!
//! A module may import only from those listed before it:
//!
//! - [`close`]: why connections and sessions end, and the close code that tells the client.
//! - [`ownership`]: which of several nodes owns a session.
//! - [`session`]: the state of a client on the server, with all of its timeouts.
//! - [`message`]: messages of channels.
//! - [`dialect`]: how the bytes on a connection are interpreted.
//! - [`frame`]: decodes WebSocket frames.

#![deny(missing_docs)]

pub mod close;
pub mod dialect;
pub mod frame;
pub mod message;
pub mod ownership;
pub mod session;
mod timestamp;

pub use timestamp::Timestamp;
