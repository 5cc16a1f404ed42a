use std::time::{Duration, Instant};

use encke_tests::waiting::{MAX_LATENESS, let_pass};
use encke_tests::{PollClient, RunningServer};
use serde_json::json;

use super::{await_held, command_query, message, open, poll_query};

const ACK: &str = r#"{"ack":{"seq":0}}"#;

#[test]
fn a_client_that_stops_polling_is_suspended_and_expires() {
    let (gap, window) = (Duration::from_secs(1), Duration::from_secs(3));
    let server = RunningServer::with(&["session.poll_gap=1s", "session.reconnect_window=3s"]);
    let from = Instant::now();
    let (_requests, hello) = open(&server, "news");
    let answered = Instant::now();
    server.await_phase(&hello.session, "suspended");
    assert!(from.elapsed() >= gap && answered.elapsed() < gap + MAX_LATENESS, "{:?}", answered.elapsed());
    server.await_removal(&hello.session);
    assert!(from.elapsed() >= window, "{:?}", from.elapsed());
    // The reconnect window starts at the response, not at the suspension.
    assert!(answered.elapsed() < gap + window, "{:?}", answered.elapsed());
    let events = [("opened", "connect"), ("suspended", "poll_gap"), ("expired", "reconnect_window")];
    server.logs.await_lifecycle(&hello.session, &events);
}

#[test]
fn commands_postpone_the_suspension() {
    let server = RunningServer::with(&["session.poll_gap=2s", "session.reconnect_window=4s"]);
    let (_requests, hello) = open(&server, "news");
    let mut separate = PollClient::connect(server.public);
    // Continue for three times the gap without a poll.
    for _ in 0..6 {
        let_pass(Duration::from_millis(500));
        assert_eq!(separate.post(&command_query(&hello), ACK).status, 200);
    }
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
    server.await_phase(&hello.session, "suspended");
    // A suspended session accepts commands as well.
    assert_eq!(separate.post(&command_query(&hello), ACK).status, 200);
    server.admin.publish("news", 1);
    assert_eq!(separate.get(&poll_query(&hello, 0)).json(), json!([message(1, 1, 1)]));
    let events = [("opened", "connect"), ("suspended", "poll_gap"), ("resumed", "reconnect")];
    server.logs.await_lifecycle(&hello.session, &events);
}

/// A client cannot keep its session alive with commands alone: without a poll, the session lasts at most two
/// windows.
#[test]
fn commands_postpone_expiry_by_one_window_at_most() {
    let server = RunningServer::with(&["session.poll_gap=500ms", "session.reconnect_window=1s"]);
    let (_requests, hello) = open(&server, "news");
    let answered = Instant::now();
    let mut separate = PollClient::connect(server.public);
    loop {
        let sent_after = answered.elapsed();
        if separate.post(&command_query(&hello), ACK).status == 410 {
            assert!(answered.elapsed() >= Duration::from_millis(1900), "{sent_after:?}");
            break;
        }
        assert!(sent_after < Duration::from_secs(2) + MAX_LATENESS, "{sent_after:?}");
        let_pass(Duration::from_millis(50));
    }
    server.await_removal(&hello.session);
}

/// The time between requests is bounded on connections with and without a session. The duration of a held
/// poll is not.
#[test]
fn the_pause_between_requests_is_bounded() {
    let limit = Duration::from_secs(1);
    let server = RunningServer::with(&["limits.handshake_timeout=1s"]);
    let (mut polled, hello) = open(&server, "news");
    let from = Instant::now();
    polled.await_end();
    assert!(from.elapsed() < limit + MAX_LATENESS, "{:?}", from.elapsed());
    let mut commanded = PollClient::connect(server.public);
    // Each request restarts the time limit.
    let from = Instant::now();
    for _ in 0..4 {
        assert_eq!(commanded.post(&command_query(&hello), ACK).status, 200);
        let_pass(limit / 2);
    }
    assert!(from.elapsed() >= 2 * limit);
    commanded.await_end();
    let mut held = PollClient::connect(server.public);
    held.send_get(&poll_query(&hello, 0));
    let_pass(3 * limit);
    server.admin.publish("news", 1);
    assert_eq!(held.response().json(), json!([message(1, 1, 1)]));
    // The time limit restarts after the response.
    let_pass(limit / 2);
    server.admin.publish("news", 2);
    assert_eq!(held.get(&poll_query(&hello, 1)).json(), json!([message(2, 2, 2)]));
    assert_eq!(
        server.admin.metrics().refusals("handshake_timeout"),
        0.0,
        "all of these connections had made requests"
    );
}

#[test]
fn a_partial_body_times_out() {
    let server = RunningServer::with(&["limits.handshake_timeout=1s"]);
    let (_requests, hello) = open(&server, "news");
    let mut half = PollClient::connect(server.public);
    let from = Instant::now();
    half.send(&format!(
        "POST /poll?{} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n[",
        command_query(&hello)
    ));
    let answer = half.try_response();
    assert!(answer.as_ref().is_none_or(|answer| answer.status == 408), "{answer:?}");
    assert!(from.elapsed() < Duration::from_secs(1) + MAX_LATENESS, "{:?}", from.elapsed());
    server.assert_healthy();
}

/// Time during which the server is stopped does not count against its clients.
#[test]
fn a_stopped_server_suspends_no_session() {
    let server = RunningServer::with(&["session.poll_hold=1s", "session.poll_gap=5s"]);
    let (mut requests, held) = open(&server, "news");
    let (mut between, other) = open(&server, "news");
    requests.send_get(&poll_query(&held, 0));
    await_held(&server, &held);
    server.freeze(Duration::from_secs(6));
    assert_eq!(requests.response().body, "[]");
    server.admin.publish("news", 1);
    for (requests, hello) in [(&mut requests, &held), (&mut between, &other)] {
        assert_eq!(requests.get(&poll_query(hello, 0)).json(), json!([message(1, 1, 1)]));
        server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
    }
}
