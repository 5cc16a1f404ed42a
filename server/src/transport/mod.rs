//! Transports: moving bytes between a socket and a session.

mod end_of_stream;
mod metered;
mod socket;
pub(crate) mod sse;
mod steps;
mod unwritten;
pub(crate) mod websocket;
mod write_hold;

pub(crate) use socket::Socket;
