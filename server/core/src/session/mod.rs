//! The session: what a client has with the server. It outlives connections.
//!
//! ```text
//!            open                 connection lost, cut, or dead              window over
//!   (none) ───────▶ Attached(c) ───────────────────────────▶ Suspended ─────────────────▶ Closed
//!                     │  ▲  │ ▲                               ▲   │                         ▲
//!           take-over │  │  │ └───────── resumed ─────────────┼───┘                         │
//!                     └──┘  ├──── close command, kicked, ... ─┼─────────────────────────────┤
//!                           │  poll answered                  │ no poll follows             │
//!                           └────────────▶ BetweenPolls ──────┴─────────────────────────────┘
//! ```
//!
//! From any phase but the last, a session can go on in another process: it is `Moved` here, is written down
//! ([`Session::snapshot`]), and restored there, `Suspended`.
//!
//! With the next poll, a session between two is attached again. To others it is attached all the time, and no event tells of it.
//!
//! [`Session`] is a pure state machine. Its owner reports what happened ([`Session::handle`]) or calls
//! [`Session::handle_timeout`] when [`Session::next_deadline`] has passed, then carries out the [outputs](Step::outputs), and reads
//! the next deadline again. Calls that come early, late, or twice are harmless.

mod deadline;
mod input;
mod machine;
pub mod outbox;
mod output;
mod record;

pub use deadline::{Deadline, SessionTimeouts};
pub use input::{Attach, ConnectionId, ConnectionInput, ConnectionKind, Delivery, Heartbeat, Input, Request};
pub use machine::{Phase, Session};
pub use outbox::{MOST_OFFSETS, Outbox, WhenFull};
pub use output::{LifecycleEvent, Output, Outputs, ResumeKind, Step, Transition};
pub use record::{BadRecord, OutboxRecord, RingRun, SentBefore, SessionRecord, SubscriptionRecord};

#[cfg(test)]
mod driven;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod replay_tests;
#[cfg(test)]
mod seeds;
#[cfg(test)]
mod snapshot_tests;
#[cfg(test)]
mod tests;
