//! Connections at rest, which have no task. Other tests run on them, too: `ENCKE_TESTS_PARK=0` has every connection of every server rest at
//! once, and without it they do so after `parking.after`.

use encke_tests::raw::{Dial, PING, PONG, RawClient, TEXT, masked};
use encke_tests::waiting::{MAX_LATENESS, let_pass, until};
use encke_tests::{Client, Hello, Launch, RunningServer};

// Polls that are held.
mod polls;
// Every connection does anything at any time.
mod random;
// What is sent at rest.
mod sending;
// Streams of events.
mod streams;
// How a rest ends, and what comes then.
mod waking;

/// Every connection rests whenever it can.
const AT_ONCE: &str = "parking.after=0";

fn at_rest(server: &RunningServer) -> f64 {
    server.admin.metrics().total("encke_connections_parked")
}

fn woken(server: &RunningServer) -> f64 {
    server.admin.metrics().total("encke_connections_unparked_total")
}

/// Waits until so many connections rest.
#[track_caller]
fn await_rest(server: &RunningServer, connections: usize) {
    until(format!("{connections} at rest"), || at_rest(server) == connections as f64);
}

/// Seq and offset of a message.
#[track_caller]
fn seq_and_offset(object: &serde_json::Value) -> (u64, u64) {
    let number = |name: &str| object["message"][name].as_u64().unwrap_or_else(|| panic!("{object}"));
    (number("seq"), number("offset"))
}
