//! Parked connections, which have no task. Other tests cover them as well: with `ENCKE_TESTS_PARK=0`, every
//! server parks its connections immediately; otherwise they are parked after `parking.after`.

use encke_tests::raw::{Dial, PING, PONG, RawClient, TEXT, masked};
use encke_tests::waiting::{MAX_LATENESS, let_pass, until};
use encke_tests::{Client, Hello, Launch, RunningServer};

// Held polls.
mod polls;
// Random activity on all connections.
mod random;
// Output of parked connections.
mod sending;
// Event streams.
mod streams;
// Events that unpark a connection.
mod unparking;

/// Parks every connection as soon as possible.
const PARK_AT_ONCE: &str = "parking.after=0";

fn parked(server: &RunningServer) -> f64 {
    server.admin.metrics().total("encke_connections_parked")
}

fn unparked(server: &RunningServer) -> f64 {
    server.admin.metrics().total("encke_connections_unparked_total")
}

/// Waits until exactly this many connections are parked.
#[track_caller]
fn await_parked(server: &RunningServer, connections: usize) {
    until(format!("{connections} parked connections"), || parked(server) == connections as f64);
}

/// Returns the seq and the offset of a message.
#[track_caller]
fn seq_and_offset(object: &serde_json::Value) -> (u64, u64) {
    let number = |name: &str| object["message"][name].as_u64().unwrap_or_else(|| panic!("{object}"));
    (number("seq"), number("offset"))
}
