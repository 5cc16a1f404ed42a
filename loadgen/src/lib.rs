//! `loadgen` loads a session server and breaks its sessions on purpose. It runs on one thread, with one task
//! per connection.
//!
//! The modules are listed below; `tests/rooms.toml` has their order, and a test enforces it. The benchmark
//! in `tests/bench` uses `client`.
//!
//! - `args`: the command line.
//! - `client`: a connection to any supported target, calls to the admin API, and their failures.
//! - `commands`: the subcommands and their exit codes.
//! - `cost`: CPU and memory that the server and loadgen itself use.
//! - `page`: results as HTML.
//! - `process`: kernel statistics about a process; descriptors, CPU and memory of loadgen itself; signals.
//! - `progress`: output while a scenario runs.
//! - `record`: counters, gauges and timings of a running scenario, sampled every second.
//! - `report`: result files; `loadgen compare`.
//! - `result`: named numbers, distributions and series; the result document, and assertions on it.
//! - `run`: one run, from its options to its document.
//! - `scenario`: the scenarios.
//! - `selftest`: runs the scenarios against a server with known faults.
//! - `target`: the kinds of servers, what each supports, and their URLs.
//! - `transport`: WebSocket, server-sent events and requests over TCP.
//! - `workers`: one run spread over several processes.

mod args;
mod client;
mod commands;
mod cost;
mod page;
mod process;
mod progress;
mod record;
mod report;
mod result;
mod run;
mod scenario;
mod selftest;
mod target;
mod transport;
mod workers;

pub use self::client::{
    AdminClient, ChannelReader, ClientConnection, ClientEvent, ClientFailure, DialOptions, Dialer, Greeting,
    Received, Ticket, TokenSource,
};
pub use self::commands::main;
pub use self::record::Traffic;
pub use self::target::{AdminUrl, ServerUrl, Target};
pub use self::transport::websocket::ConnectionEnd;
pub use self::transport::{ADDRESSES, Sources};
