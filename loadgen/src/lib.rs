//! `loadgen` loads a session server and breaks its sessions on purpose. One thread, one task a connection.
//!
//! What is in its rooms. `tests/rooms.toml` has their order, and a test holds them to it. The benchmark uses the client.
//!
//! - `args`: the command line.
//! - `client`: a connection of one of these kinds; calls to the admin API; why either fails.
//! - `commands`: the subcommands, and their exit codes.
//! - `cost`: what the server takes.
//! - `page`: results as HTML.
//! - `process`: what the kernel says of a process; this one's descriptors, what it takes, its signals.
//! - `progress`: what the user sees meanwhile.
//! - `record`: what is counted and timed while a scenario runs, sampled each second.
//! - `report`: where results go; `loadgen compare`.
//! - `result`: numbers with names, distributions and series; the document that they make, and assertions on it.
//! - `run`: one run, from its options to its document.
//! - `scenario`: what is done to the server.
//! - `selftest`: all of it, against a server that is known to be broken.
//! - `target`: what kinds of servers there are, what each can do, and their URLs.
//! - `transport`: WebSocket, server-sent events and requests over TCP.
//! - `workers`: one run, spread over several processes.

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
    Admin, ChannelReader, Connection, DialOptions, Dialer, Event, Failure, Greeting, Received, Secret,
    Ticket, TokenSource,
};
pub use self::commands::main;
pub use self::record::Traffic;
pub use self::target::{AdminUrl, ServerUrl, Target};
pub use self::transport::websocket::End;
pub use self::transport::{ADDRESSES, Sources};
