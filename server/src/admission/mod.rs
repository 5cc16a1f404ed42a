//! What lets a client in and what holds it back: permits for connections, sockets in the handshake, rates, unfinished messages, what
//! is told of those that stay outside, and the tasks that a shutdown waits for.

mod browsers;
mod descriptors;
mod handshakes;
mod holders;
mod log_throttle;
mod permits;
mod rate;
mod refusals;
mod tasks;
mod unfinished;

pub(crate) use browsers::{BrowserId, BrowserPoll, Browsers};
pub(crate) use descriptors::Descriptors;
pub(crate) use handshakes::{Handshake, Handshakes};
pub(crate) use holders::{Holder, Holders};
pub(crate) use log_throttle::LogThrottle;
pub(crate) use permits::{Permit, Permits, network};
pub(crate) use rate::{Pace, Rate, Rates};
pub(crate) use refusals::{RefusalReason, Refusals};
pub(crate) use tasks::{OpenConnection, OpenConnections, QuietConnection};
pub(crate) use unfinished::{Unfinished, UnfinishedMessage};
