use std::time::{Duration, Instant};

use encke_tests::raw::{PING, PONG, TEXT, masked};
use encke_tests::waiting::MAX_LATENESS;
use encke_tests::{RawClient, RunningServer};
use serde_json::json;

const INTERVAL: Duration = Duration::from_secs(1);
/// Value of `timers.ping_slack`: how long after its deadline a ping may be sent.
const SLACK: Duration = Duration::from_millis(100);
/// Allowance for the time between the kernel's send and the client's receive.
const TRANSIT: Duration = Duration::from_millis(20);

fn server() -> RunningServer {
    RunningServer::with(&["session.ping_interval=1s", "session.pong_timeout=800ms"])
}

/// Asserts that `by` is at least `earliest` after `from`, and not much more than `latest` after it.
#[track_caller]
fn assert_between(from: Instant, by: Instant, earliest: Duration, latest: Duration) {
    let after = by - from;
    assert!(after >= earliest, "early: {after:?} instead of {earliest:?}");
    assert!(after <= latest + SLACK + MAX_LATENESS, "late: {after:?} instead of {latest:?}");
}

#[test]
fn first_ping_comes_after_half_to_one_interval() {
    let server = server();
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                let (mut client, _) = RawClient::greeted(server.public, "");
                let ping = client.frame_of(PING);
                assert_eq!(ping.payload, [0; 8], "seq 0, eight bytes, big-endian");
                assert_between(client.started_at, ping.not_after, INTERVAL / 2, INTERVAL);
            });
        }
    });
}

#[test]
fn next_ping_comes_one_interval_after_the_pong() {
    let server = server();
    let (mut client, _) = RawClient::greeted(server.public, "");
    for _ in 0..3 {
        client.frame_of(PING);
        let answered = Instant::now();
        client.send(&masked(PONG, &[0; 8]));
        let ping = client
            .frame_within(INTERVAL * 3 + MAX_LATENESS)
            .expect("the connection is open")
            .expect("a ping");
        assert_eq!(ping.first, PING);
        assert_between(answered, ping.not_after, INTERVAL, INTERVAL);
        client.send(&masked(PONG, &ping.payload));
    }
    let metrics = server.admin.metrics();
    assert!(metrics.value("encke_ping_rtt_seconds_count") >= 3.0);
}

#[test]
fn traffic_postpones_frame_pings() {
    let server = server();
    let (mut client, _) = RawClient::greeted(server.public, "");
    let mut last_sent = Instant::now();
    for _ in 0..25 {
        last_sent = Instant::now();
        client.text(r#"{"ack":{"seq":0}}"#);
        if client.frame_within(INTERVAL / 10).expect("the connection is open").is_some() {
            // A ping is correct if the machine delayed this test for too long.
            assert!(last_sent.elapsed() > INTERVAL / 4, "a ping while there is traffic");
        }
    }
    let ping = client.frame_of(PING);
    assert_between(last_sent, ping.not_after, INTERVAL / 2, INTERVAL);
}

#[test]
fn message_pings_are_text_and_come_at_fixed_intervals() {
    let server = server();
    let (mut client, _) = RawClient::greeted(server.public, "heartbeat=message");
    let mut last = client.started_at;
    let mut earliest = INTERVAL / 2;
    for _ in 0..3 {
        // Traffic does not postpone message pings.
        client.text(r#"{"ack":{"seq":0}}"#);
        let ping = client.frame_of(TEXT);
        assert_eq!(ping.payload, br#"{"ping":{"seq":0}}"#);
        assert_between(last, ping.not_after, earliest, INTERVAL);
        client.text(r#"{"pong":{"seq":0}}"#);
        (last, earliest) = (ping.not_before, INTERVAL - TRANSIT);
    }
}

#[test]
fn unanswered_message_ping_ends_the_connection() {
    let server = server();
    let (mut client, hello) = RawClient::greeted(server.public, "heartbeat=message");
    client.frame_of(TEXT);
    assert_eq!(client.close_code(), 4000);
    server.await_phase(&hello.session, "suspended");
}

#[test]
fn any_traffic_answers_a_ping() {
    let server = server();
    let (mut client, hello) = RawClient::greeted(server.public, "");
    for answer in [
        masked(TEXT, br#"{"ack":{"seq":0}}"#),
        masked(TEXT, b"no JSON"),
        // A pong that matches no ping from the server, and an empty pong.
        masked(PONG, b"whatever"),
        masked(PONG, &[]),
        // The start of a frame that is never completed.
        vec![0x01],
    ] {
        client.skip_to(PING);
        client.send(&answer);
    }
    client.skip_to(PING);
    client.send(&[0x80]);
    client.skip_to(PING);
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn pings_of_the_client_are_answered() {
    let server = RunningServer::with(&[]);
    let (mut client, _) = RawClient::greeted(server.public, "");
    client.send(&masked(PING, b"are you there?"));
    assert_eq!(client.frame_of(PONG).payload, b"are you there?");
    client.send(&masked(PING, &[7; 125]));
    assert_eq!(client.frame_of(PONG).payload, [7; 125]);
}

#[test]
fn stock_client_stays_connected() {
    let server = server();
    let client = server.client().into_background();
    client.await_more_pings(4);
    assert!(!client.has_ended());
    let metrics = server.admin.metrics();
    assert_eq!(metrics.events("suspended", "pong_timeout"), 0.0);
    assert_eq!(server.admin.session(&client.hello.session)["phase"], json!("attached"));
}
