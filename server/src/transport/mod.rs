//! Transports: moving bytes between a socket and a session.

mod end_of_stream;
mod metered;
mod progress;
mod socket;
pub(crate) mod sse;
mod steps;
mod tcp;
mod unwritten;
pub(crate) mod websocket;
mod write_hold;

pub(crate) use socket::Socket;
pub(crate) use tcp::TcpSocket;
