//! Transports: moving bytes between a socket and a session.
//!
//! A new transport is a folder in this directory, over any [`Socket`]. Its requests are read in `public/`.
//! `session/` knows its name (`Transport` in `cell.rs`) and what a session can do over it (`ConnectionKind`,
//! in `attach.rs`), and `metrics/connections.rs` lists it.

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
