//! `loadgen` loads a session server and breaks its sessions on purpose. It runs on a few threads, with one
//! task per connection.
//!
//! The modules are listed below; `tests/rooms.toml` has their order, and a test enforces it.
//!
//! - `args`: the command line.
//! - `commands`: the subcommands and their exit codes.
//! - `cost`: CPU and memory that the server and loadgen itself use.
//! - `failures`: failures of a run, counted by kind.
//! - `page`: results as HTML.
//! - `process`: kernel statistics about a process; descriptors, CPU and memory of loadgen itself; signals.
//! - `progress`: output while a scenario runs.
//! - `record`: counters, gauges and timings of a running scenario, sampled every second.
//! - `report`: result files.
//! - `result`: named numbers, distributions and series; the result document, and assertions on it.
//! - `run`: one run, from its options to its document, on several threads or in several processes.
//! - `scenario`: the scenarios.
//! - `selftest`: runs the scenarios against a server with known faults. The tests of this crate use the server,
//!   too.

mod args;
mod commands;
mod cost;
mod failures;
mod page;
mod process;
mod progress;
mod record;
mod report;
mod result;
mod run;
mod scenario;
mod selftest;

pub use self::commands::main;
#[doc(hidden)]
pub use self::selftest::behaviour;
#[doc(hidden)]
pub use self::selftest::server::{FaultyServer, Seen};
