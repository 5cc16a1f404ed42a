use std::time::{Duration, Instant};

use encke_tests::raw::{PING, PONG, TEXT, masked};
use encke_tests::waiting::LATE;
use encke_tests::{RawClient, RunningServer};
use serde_json::json;

const INTERVAL: Duration = Duration::from_secs(1);
/// `timers.ping_slack`: how much later than due a ping may leave.
const SLACK: Duration = Duration::from_millis(100);
/// For the way from the kernel's send to our receive.
const WAY: Duration = Duration::from_millis(20);

fn server() -> RunningServer {
    RunningServer::with(&["session.ping_interval=1s", "session.pong_timeout=800ms"])
}

/// What comes after `from` may come neither before `earliest` nor much after `latest`.
#[track_caller]
fn assert_between(from: Instant, by: Instant, earliest: Duration, latest: Duration) {
    let after = by - from;
    assert!(after >= earliest, "early: {after:?} instead of {earliest:?}");
    assert!(after <= latest + SLACK + LATE, "late: {after:?} instead of {latest:?}");
}

#[test]
fn the_first_ping_comes_after_half_to_the_whole_interval() {
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
fn the_next_one_comes_an_interval_after_the_pong() {
    let server = server();
    let (mut client, _) = RawClient::greeted(server.public, "");
    for _ in 0..3 {
        client.frame_of(PING);
        let answered = Instant::now();
        client.send(&masked(PONG, &[0; 8]));
        let ping = client.frame_within(INTERVAL * 3 + LATE).expect("it is not closed").expect("a ping");
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
    let mut spoke = Instant::now();
    for _ in 0..25 {
        spoke = Instant::now();
        client.text(r#"{"ack":{"seq":0}}"#);
        if client.frame_within(INTERVAL / 10).expect("it is not closed").is_some() {
            // On a machine that lets this test sleep for too long, a ping is right.
            assert!(spoke.elapsed() > INTERVAL / 4, "a ping while there is traffic");
        }
    }
    let ping = client.frame_of(PING);
    assert_between(spoke, ping.not_after, INTERVAL / 2, INTERVAL);
}

#[test]
fn message_pings_are_text_and_have_a_steady_beat() {
    let server = server();
    let (mut client, _) = RawClient::greeted(server.public, "heartbeat=message");
    let mut last = client.started_at;
    let mut earliest = INTERVAL / 2;
    for _ in 0..3 {
        // Traffic does not postpone them.
        client.text(r#"{"ack":{"seq":0}}"#);
        let ping = client.frame_of(TEXT);
        assert_eq!(ping.payload, br#"{"ping":{"seq":0}}"#);
        assert_between(last, ping.not_after, earliest, INTERVAL);
        client.text(r#"{"pong":{"seq":0}}"#);
        (last, earliest) = (ping.not_before, INTERVAL - WAY);
    }
}

#[test]
fn message_pings_that_nobody_answers_are_missed() {
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
        // A pong that answers no ping of ours, and one of another length.
        masked(PONG, b"whatever"),
        masked(PONG, &[]),
        // A frame that is never finished.
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
fn a_stock_client_lives_on() {
    let server = server();
    let client = server.client().into_background();
    client.await_more_pings(4);
    assert!(!client.has_ended());
    let metrics = server.admin.metrics();
    assert_eq!(metrics.events("suspended", "pong_timeout"), 0.0);
    assert_eq!(server.admin.session(&client.hello.session)["phase"], json!("attached"));
}
