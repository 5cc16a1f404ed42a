//! What lets a client in and what holds it back: permits for connections, sockets in the handshake, the rate of commands, what
//! is told of those that stay outside, and the tasks that a shutdown waits for.

mod handshakes;
mod holders;
mod log_throttle;
mod permits;
mod rate;
mod refusals;
mod tasks;

pub(crate) use handshakes::{Handshake, Handshakes};
pub(crate) use holders::{Holder, Holders};
pub(crate) use log_throttle::LogThrottle;
pub(crate) use permits::{Permit, Permits, network};
pub(crate) use rate::{CommandRate, FrameRate, Pace, Rates};
pub(crate) use refusals::{RefusalReason, Refusals};
pub(crate) use tasks::{OpenConnection, OpenConnections};
