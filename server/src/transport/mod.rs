//! Transports, which move bytes between a socket and a session.
//!
//! Each transport has a subdirectory and works over any [`Socket`]. To add one, parse its requests in
//! `public/`, name it in `session/` (`Transport` in `cell.rs`), define what a session can do over it
//! (`ConnectionKind` in `attach.rs`), and list it in `metrics/connections.rs`.

mod bayeux_arrays;
mod end_of_stream;
mod liveness_socket;
mod park_timer;
mod parked;
mod pattern_origin;
mod pending_subscriptions;
mod pending_write;
pub(crate) mod poll;
mod progress;
mod socket;
pub(crate) mod sse;
mod steps;
mod tcp;
pub(crate) mod websocket;
mod write_hold;

pub(crate) use socket::{ParkedSocket, Socket};
pub(crate) use tcp::TcpSocket;
