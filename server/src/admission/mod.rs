//! What lets a client in and what holds it back: permits for connections and sockets, the rate of commands, and the
//! tasks that a shutdown waits for.

mod permits;
mod rate;
mod tasks;

pub(crate) use permits::{Permit, Permits};
pub(crate) use rate::{CommandRate, Pace};
pub(crate) use tasks::{OpenConnection, OpenConnections};
