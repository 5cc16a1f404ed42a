use std::time::{Duration, Instant};

use encke_tests::raw::{PING, PONG, TEXT, masked};
use encke_tests::server::FREQUENT_PINGS;
use encke_tests::waiting::MAX_LATENESS;
use encke_tests::{RawClient, RunningServer};

/// Ping interval of [`FREQUENT_PINGS`].
const INTERVAL: Duration = Duration::from_secs(6);

/// Traffic does not postpone these pings, but it answers them. The client that sends nothing is disconnected.
#[test]
fn message_pings_are_text_and_come_at_fixed_intervals() {
    let server = RunningServer::with(&FREQUENT_PINGS);
    let (mut client, hello) = RawClient::greeted(server.public, "heartbeat=message");
    let mut last = Instant::now();
    for _ in 0..2 {
        client.text(r#"{"ack":{"seq":0}}"#);
        let ping = client.frame_of(TEXT);
        assert_eq!(ping.payload, br#"{"ping":{"seq":0}}"#);
        let after = ping.not_before.saturating_duration_since(last);
        assert!(after <= INTERVAL + MAX_LATENESS, "late: {after:?}");
        client.text(r#"{"pong":{"seq":0}}"#);
        last = ping.not_after;
    }
    client.frame_of(TEXT);
    assert_eq!(client.close_code(), 4000);
    server.await_phase(&hello.session, "suspended");
}

#[test]
fn any_traffic_answers_a_ping() {
    let server = RunningServer::with(&FREQUENT_PINGS);
    let mut clients = [
        masked(TEXT, br#"{"ack":{"seq":0}}"#),
        masked(TEXT, b"no JSON"),
        // A pong that matches no ping from the server, and an empty pong.
        masked(PONG, b"whatever"),
        masked(PONG, &[]),
        // The start of a frame that is never completed.
        vec![0x01],
    ]
    .map(|answer| (RawClient::greeted(server.public, ""), answer));
    for ((client, _), answer) in &mut clients {
        assert_eq!(client.skip_to(PING).payload, [0; 8], "seq 0, eight bytes, big-endian");
        client.send(answer);
    }
    for ((client, hello), _) in &mut clients {
        client.skip_to(PING);
        server.await_lifecycle(&hello.session, "opened connect");
    }
}
