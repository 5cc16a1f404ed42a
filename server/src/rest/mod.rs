//! Connections at rest: they have a session and a socket, and no task.
//!
//! Most connections are silent most of the time. A task that only waits costs memory, and a wake-up for each ping and each message. So a
//! connection that has been silent for a while gives its task up: the session keeps the socket, whoever has the session's lock writes to
//! it, and a thread looks whether there is anything to read, for all of them, or several where there are many processors. Whatever needs more than that wakes it: then it has a task
//! again, which does not know that it was ever gone.
//!
//! What is here knows neither sessions nor dialects: who may have the connection ([`Handover`]), which sockets have something to read
//! ([`Poller`]; of several threads [`Pollers`]), how soon a connection goes to rest ([`Pace`]), and which have waited for that ([`Line`]).

mod handover;
mod line;
mod pace;
mod poller;
mod pollers;
#[cfg(feature = "simulation")]
mod simulated;
mod thread;

/// What `handover.rs` is made of. The test `loom` puts loom's in its place.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU32, Ordering};
}

use std::time::Duration;

use encke_core::Timestamp;

pub(crate) use handover::{Handover, Holder};
pub(crate) use line::Line;
pub(crate) use pace::{Began, Pace};
pub(crate) use poller::Poller;
pub(crate) use pollers::Pollers;
#[cfg(feature = "simulation")]
pub(crate) use simulated::SimulatedPoller;
pub(crate) use thread::PollerThread;

use crate::executor::Runtime;

/// What connections need in order to rest.
#[derive(Debug)]
pub(crate) struct Rest<L> {
    /// How long a connection is silent before.
    pub(crate) after: Duration,
    /// The connections that have a task, and would have none if they were silent for long enough.
    pub(crate) line: Line<L>,
    pub(crate) poller: AnyPoller,
    /// Where tasks begin anew.
    pub(crate) runtime: Runtime,
}

/// What finds out that there is something to read.
#[derive(Debug)]
pub(crate) enum AnyPoller {
    /// On sockets of the kernel.
    Kernel(Pollers),
    /// On those in the memory of a simulation.
    #[cfg(feature = "simulation")]
    Simulated(std::sync::Arc<SimulatedPoller>),
}

impl AnyPoller {
    /// Since when a thread acts on what it was told at a time, if there is one that does not wait for more.
    pub(crate) fn acting_since(&self) -> Option<Timestamp> {
        match self {
            Self::Kernel(pollers) => pollers.acting_since(),
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => None,
        }
    }
}
