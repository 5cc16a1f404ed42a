//! The session: what a client has with the server. It outlives connections.
//!
//! ```text
//!            open                 connection lost, cut, or dead              window over
//!   (none) ───────▶ Attached(c) ───────────────────────────▶ Suspended ─────────────────▶ Closed
//!                    │  ▲  │ ▲                                   │                          ▲
//!          take-over │  │  │ └────────────── resumed ────────────┘                          │
//!                    └──┘  └──────────── close command, kicked, lifetime, ... ──────────────┘
//! ```
//!
//! [`Session`] is a pure state machine. Whoever owns one gives it what happened ([`Session::handle`]) or calls
//! [`Session::handle_timeout`] when [`Session::next_deadline`] has passed, then takes what is to be done from
//! [`Session::poll_output`] until there is nothing left, and looks at the next deadline again. Calls that come
//! early, late, or twice are harmless.

mod deadline;
mod input;
mod machine;
pub mod outbox;
mod output;

pub use deadline::{Deadline, Timeouts};
pub use input::{Attach, Carrier, ConnectionId, ConnectionInput, Input};
pub use machine::{Phase, Session};
pub use outbox::{Outbox, WhenFull};
pub use output::{Event, Output, ResumeKind, Transition};

#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod replay_tests;
#[cfg(test)]
mod tests;
