//! Stock clients on bad links: when each is back, and what it has lost. README.md says how to run it.
//!
//! Each [`Cell`] of the table has a server, a network namespace and a client of its own, so cells run side by side.

mod cell;
mod client;
mod condition;
mod ledger;
mod outcome;
mod pace;
pub mod table;

pub use cell::Cell;
pub use client::Client;
pub use condition::Condition;
pub use ledger::Ledger;
pub use outcome::Outcome;
pub use pace::Pace;
