//! Thousands of simultaneous clients.

use std::time::Duration;

use crate::raw::{Dial, RawClient};
use crate::waiting::eventually_within;
use crate::{Hello, RunningServer};

const CLIENTS_PER_SOURCE: usize = 1_000;
/// Number of handshakes in progress at a time. The server needs an 8 KB buffer for each, so with a larger
/// number its peak memory, and the part of it that the allocator retains, would vary between runs.
const WAVE_SIZE: usize = 100;
/// How long an operation on ten thousand clients may take in a debug build.
pub const CROWD_TIMEOUT: Duration = Duration::from_secs(60);

/// Asserts that this process may open a socket for each of `clients`.
pub fn require_descriptors(clients: usize) {
    let descriptors = rlimit::increase_nofile_limit(u64::MAX).expect("the limit can be read");
    assert!(
        descriptors > clients as u64 + 500,
        "the limit of {descriptors} descriptors is too low for this test"
    );
}

/// Connects a client for each query, in waves.
pub fn connect(server: &RunningServer, queries: &[String]) -> Vec<(RawClient, Hello)> {
    let mut greeted = Vec::with_capacity(queries.len());
    for (wave, queries) in queries.chunks(WAVE_SIZE).enumerate() {
        let first = wave * WAVE_SIZE;
        let pending: Vec<_> = (first..)
            .zip(queries)
            .map(|(number, query)| {
                let host = u8::try_from(2 + number / CLIENTS_PER_SOURCE).expect("few sources");
                let dial = Dial::from(&format!("127.0.0.{host}"));
                let mut client = RawClient::over(dial.connect(server.public));
                client.request_upgrade(query);
                client
            })
            .collect();
        greeted.extend(pending.into_iter().map(|mut client| {
            client.await_upgrade();
            let hello = client.hello();
            (client, hello)
        }));
    }
    greeted
}

/// Waits until `count` sessions are in this phase.
pub fn await_sessions(server: &RunningServer, phase: &str, count: usize) {
    eventually_within(CROWD_TIMEOUT, format!("{count} sessions are {phase}"), || {
        (server.admin.metrics().sessions(phase) == count as f64).then_some(())
    });
}
