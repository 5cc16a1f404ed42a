//! Stock clients on bad links: when each recovers, and what it loses. README.md says how to run the tests.
//!
//! Each [`FaultCell`] of the table has its own server, network namespace and client, so cells run
//! concurrently.

mod cell;
mod client;
mod condition;
mod ledger;
mod outcome;
pub mod table;
mod traffic_plan;

pub use cell::FaultCell;
pub use client::FaultClient;
pub use condition::LinkCondition;
pub use ledger::Ledger;
pub use outcome::CellOutcome;
pub use traffic_plan::TrafficPlan;
