//! The client's side of RFC 6455.
//!
//! It is our own because a load generator wants what a library for all uses cannot give: an idle connection that
//! keeps no buffer, answers that can be held back, and to know what exactly a server did wrong. [`reader`] and
//! [`writer`] know frames, [`Socket`] a stream, [`upgrade`] how one becomes the other.

mod end;
mod fault;
mod handshake;
mod head;
mod reader;
mod socket;
#[cfg(test)]
mod tests;
mod writer;

pub use end::End;
pub(crate) use end::NO_CLOSE_FRAME;
pub(crate) use fault::Fault;
pub(crate) use handshake::{request_bytes, upgrade};
pub(crate) use head::Opcode;
pub(crate) use reader::Incoming;
pub(crate) use socket::Socket;
pub(crate) use writer::{write_fragment, write_frame};
