//! Ownership of sessions on several nodes.
//!
//! The nodes share a **directory**, which has a record of each session: its owner, its [`Term`], and the state
//! from which another node can continue it. The directory executes one operation at a time and compares terms, so
//! an operation of a former owner has no effect: it is *fenced*.
//!
//! ```text
//!          opened                 released, or suspended               claimed by a node with the client
//!  (none) ───────▶ owned, attached ───────────────────▶ may be claimed ─────────────────────────▶ owned, attached
//!                     │     ▲                               │    │                                  (term + 1)
//!    the owner's lease│     │claimed back                   │    └ the owner claims it again: same term
//!    has ended        ▼     │(term + 1)                     ▼
//!                  adopted: may be claimed (term + 1) ──▶ ended, exactly once
//! ```
//!
//! - [`Ownership`] is the owner's side: which operation it must send next, and whether it may serve the client.
//! - [`Claim`] is the side of a node to which the client of another node's session has connected.
//! - [`Lease`] tells a node whether the other nodes may regard it as dead.
//!
//! All three are pure state machines: the caller sends the operations, and reports the outcomes. The outcome of an
//! operation may be unknown, because its reply was lost; it is then sent again, and the directory recognises it.

mod claim;
mod lease;
mod owner;
mod term;

pub use claim::{Claim, ClaimOutcome, ClaimStep, GRANT_TIMEOUT};
pub use lease::Lease;
pub use owner::{Loss, Operation, Outcome, Ownership};
pub use term::Term;
