//! Client side of RFC 6455.
//!
//! It is not a general-purpose library, because a load generator has other needs: an idle connection keeps no
//! buffer, answers can be held back, and the exact fault of a server is known.

mod end;
mod frame;
mod handshake;
mod reader;
#[cfg(test)]
mod reader_tests;
mod socket;
#[cfg(test)]
mod socket_tests;

pub use self::end::{ConnectionEnd, NO_CLOSE_FRAME, ProtocolFault};
pub use self::frame::{FrameHead, Opcode, write_fragment, write_frame, write_masked};
pub use self::handshake::{request_bytes, upgrade};
pub use self::reader::Incoming;
pub use self::socket::WebSocket;
