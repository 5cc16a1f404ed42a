//! Client side of RFC 6455.
//!
//! loadgen has its own implementation because a load generator has needs that a general-purpose library does
//! not meet: an idle connection keeps no buffer, answers can be held back, and the exact fault of a server is
//! known. [`reader`] and [`writer`] handle frames, [`WebSocket`] a stream, and [`upgrade`] the handshake.

mod end;
mod fault;
mod handshake;
mod head;
mod reader;
mod socket;
#[cfg(test)]
mod tests;
mod writer;

pub use end::ConnectionEnd;
pub(crate) use end::NO_CLOSE_FRAME;
pub(crate) use fault::ProtocolFault;
pub(crate) use handshake::{request_bytes, upgrade};
pub(crate) use head::Opcode;
pub(crate) use reader::Incoming;
pub(crate) use socket::WebSocket;
pub(crate) use writer::{write_fragment, write_frame};
