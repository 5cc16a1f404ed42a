//! The session: a client's state on the server. It outlives connections.
//!
//! ```text
//!            open             connection lost, closed, or dead           window elapsed
//!   (none) ───────▶ Attached(c) ───────────────────────────▶ Suspended ─────────────────▶ Closed
//!                     │  ▲  │ ▲                               ▲   │                         ▲
//!           take-over │  │  │ └───────── resumed ─────────────┼───┘                         │
//!                     └──┘  ├──── close command, kicked, ... ─┼─────────────────────────────┤
//!                           │  poll answered                  │ no further poll             │
//!                           └────────────▶ BetweenPolls ──────┴─────────────────────────────┘
//! ```
//!
//! From any phase except `Closed`, a session can move to another process. Its phase becomes `Moved`, its
//! state is saved as a record ([`Session::snapshot`]), and the other process restores it as `Suspended`.
//!
//! When the next poll arrives, a session between polls becomes attached again. Outside this module it counts
//! as attached throughout, so these changes emit no events.
//!
//! [`Session`] is a pure state machine. Its owner reports what happened ([`Session::handle`]), or calls
//! [`Session::handle_timeout`] when [`Session::next_deadline`] has passed. After either call, the owner
//! carries out the [outputs](StepContext::outputs) and reads the next deadline. Early, late and repeated
//! calls are harmless.

mod deadline;
mod input;
mod machine;
pub mod outbox;
mod output;
mod record;

pub use deadline::{Deadline, SessionTimeouts};
pub use input::{
    Attach, ConnectionId, ConnectionInput, ConnectionKind, DeliveryMode, Heartbeat, Input, RequestInput,
};
pub use machine::{Phase, Session};
pub use outbox::{ClientPosition, MAX_OFFSET, Outbox, WhenFull};
pub use output::{LifecycleEvent, Output, Outputs, ResumeKind, StepContext, Transition};
pub use record::{BadRecord, OutboxRecord, RingRun, SentRange, SessionRecord, SubscriptionRecord};

#[cfg(test)]
mod harness;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod replay_tests;
#[cfg(test)]
mod snapshot_tests;
#[cfg(test)]
mod tests;
