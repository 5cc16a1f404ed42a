//! `loadgen` loads a session server and breaks its sessions on purpose. One thread, one task a connection.
//!
//! Its rooms, from the ground up. Each may use those before it in this list, and none of those after it; a test holds them to it. The benchmark uses the client.
//!
//! - `result`: numbers with names, distributions and series; the document that they make, and assertions on it.
//! - `transport`: WebSocket and server-sent events over TCP.
//! - `record`: what is counted and timed while a scenario runs, sampled each second.
//! - `progress`: what the user sees meanwhile.
//! - `target`: what kinds of servers there are, what each can do, and their URLs.
//! - `client`: a connection of one of these kinds; calls to the admin API; why either fails.
//! - `process`: what the kernel says of a process; this one's descriptors, what it takes, its signals.
//! - `cost`: what the server takes.
//! - `page`: results as HTML.
//! - `report`: where results go; `loadgen compare`.
//! - `args`: the command line.
//! - `scenario`: what is done to the server.
//! - `workers`: one run, spread over several processes.
//! - `run`: one run, from its options to its document.
//! - `selftest`: all of it, against a server that is known to be broken.
//! - `commands`: the subcommands, and their exit codes.

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
