//! When connections are parked, and what unparks them. `tests/run` repeats the tests of other modules with
//! `ENCKE_TESTS_PARK=0`, so that every server parks its connections immediately: those tests check that parked
//! connections behave like others.

use encke_tests::waiting::until;
use encke_tests::{Client, EventStream, PollClient, RawClient, RunningServer};

use crate::poll::{open, poll_query};

// Many parked connections.
mod crowds;
// Random activity on all connections.
mod random;
// Output of parked connections.
mod sending;
// Input and other events that unpark a connection.
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
pub(crate) fn await_parked(server: &RunningServer, connections: usize) {
    until(format!("{connections} parked connections"), || parked(server) == connections as f64);
}

/// Returns the seq and the offset of a message.
#[track_caller]
fn seq_and_offset(object: &serde_json::Value) -> (u64, u64) {
    let number = |name: &str| object["message"][name].as_u64().unwrap_or_else(|| panic!("{object}"));
    (number("seq"), number("offset"))
}
