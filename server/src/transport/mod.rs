//! Transports: moving bytes between a socket and a session.

mod attachment;
mod caller;
mod end_of_stream;
mod greeting;
mod metered;
mod places;
mod rate;
mod retry;
mod socket;
pub(crate) mod sse;
mod steps;
mod tcp;
mod unwritten;
pub(crate) mod websocket;
mod write_hold;

pub(crate) use caller::Caller;
pub(crate) use places::{Place, Places};
pub(crate) use socket::Socket;
pub(crate) use tcp::TcpSocket;
