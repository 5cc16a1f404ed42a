//! Parked connections: they have a session and a socket, but no task.
//!
//! Most connections are silent most of the time. A task that only waits costs memory, and a wake-up for each
//! ping and each message. Therefore a connection that has been idle for a while gives up its task. The
//! session keeps the socket, and the holder of the session's lock writes to it. A thread, or several on
//! machines with many processors, watches the sockets of all parked connections for input. Anything that
//! needs more unparks the connection: it gets a new task, which continues as if the connection had never been
//! parked.
//!
//! This module depends on neither sessions nor dialects. It contains the owner of a connection
//! ([`Handover`]), the sockets with input ([`Poller`], and [`Pollers`] for several threads), the delay before
//! a connection is parked ([`ParkBackoff`]), and the connections that are waiting for that delay
//! ([`IdleQueue`]).

mod handover;
mod idle_queue;
mod park_backoff;
mod poller;
mod poller_thread;
mod pollers;
#[cfg(feature = "simulation")]
mod simulated_poller;
mod sync;

use std::io;
use std::time::Duration;

use encke_core::Timestamp;

pub use handover::{ConnectionOwner, Handover};
pub use idle_queue::IdleQueue;
pub use park_backoff::{ParkBackoff, ParkedSince};
pub use poller::Poller;
pub use poller_thread::PollerThread;
pub use pollers::Pollers;
#[cfg(feature = "simulation")]
pub use simulated_poller::SimulatedPoller;

use crate::executor::Runtime;

/// Shared state for parking connections.
#[derive(Debug)]
pub struct Parking<L> {
    /// How long a connection must be idle before it is parked.
    pub idle_time: Duration,
    /// Connections that have a task and will be parked if they stay idle.
    pub idle_queue: IdleQueue<L>,
    pub poller: AnyPoller,
    /// Runs the tasks of unparked connections.
    pub runtime: Runtime,
}

/// Reports which sockets have input.
#[derive(Debug)]
pub enum AnyPoller {
    /// Reports input on sockets of the kernel.
    Kernel(Pollers),
    /// Reports input on the in-memory sockets of a simulation.
    #[cfg(feature = "simulation")]
    Simulated(std::sync::Arc<SimulatedPoller>),
}

impl AnyPoller {
    /// Returns the pollers of kernel sockets. `None` in a simulation, which has no kernel sockets.
    pub fn kernel(&self) -> Option<&Pollers> {
        match self {
            Self::Kernel(pollers) => Some(pollers),
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => None,
        }
    }

    /// Returns the poller of the kernel socket with this number.
    ///
    /// # Errors
    /// Fails in a simulation.
    pub fn kernel_poller(&self, number: u64) -> io::Result<&Poller> {
        let pollers = self.kernel().ok_or(io::ErrorKind::Unsupported)?;
        Ok(pollers.poller_of(number))
    }

    /// Returns when the events being handled were reported; if several threads are busy, the earliest of
    /// these times. `None` if all threads are waiting for events.
    pub fn busy_since(&self) -> Option<Timestamp> {
        self.kernel()?.busy_since()
    }
}
