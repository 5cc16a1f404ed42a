use std::time::Duration;

use encke_tests::raw::PING;
use encke_tests::waiting::MAX_LATENESS;
use encke_tests::{RawClient, RunningServer};

const PONG_TIMEOUT: Duration = Duration::from_millis(500);
const WINDOW: Duration = Duration::from_secs(2);
/// Allowance for the time between the kernel's send and the client's receive: the server measures from when
/// the ping was sent.
const TRANSIT: Duration = Duration::from_millis(20);

fn server() -> RunningServer {
    RunningServer::with(&[
        "session.ping_interval=1s",
        "session.pong_timeout=500ms",
        "session.reconnect_window=2s",
    ])
}

#[test]
fn a_mute_client_is_closed_on_time() {
    let server = server();
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                let (mut client, _) = RawClient::greeted(server.public, "");
                let ping = client.frame_of(PING);
                let (code, reason, close) = client.close_frame();
                assert_eq!((code, &*reason), (4000, "pong_timeout"));
                let at_least = close.not_after - ping.not_before;
                assert!(at_least + TRANSIT >= PONG_TIMEOUT, "early: {at_least:?}");
                assert!(at_least <= PONG_TIMEOUT + MAX_LATENESS, "late: {at_least:?}");
            });
        }
    });
    assert_eq!(server.admin.metrics().events("suspended", "pong_timeout"), 5.0);
}

#[test]
fn session_of_a_mute_client_is_suspended_and_expires_once() {
    let server = server();
    let (mut client, hello) = RawClient::greeted(server.public, "");
    client.frame_of(PING);
    assert_eq!(client.close_code(), 4000);

    let session = server.admin.session(&hello.session);
    assert_eq!(session["phase"], "suspended", "{session}");
    let deadlines = session["deadlines"].as_array().expect("an array");
    let reconnect = deadlines.iter().find(|deadline| deadline["deadline"] == "reconnect");
    let remaining =
        reconnect.and_then(|deadline| deadline["remaining_ms"].as_f64()).expect("the deadline is armed");
    assert!(remaining <= WINDOW.as_secs_f64() * 1e3, "{remaining}");
    assert!(deadlines.iter().all(|deadline| deadline["deadline"] != "ping"), "{session}");
    assert_eq!(server.admin.metrics().sessions("suspended"), 1.0);

    server.await_removal(&hello.session);
    let events = [("opened", "connect"), ("suspended", "pong_timeout"), ("expired", "reconnect_window")];
    server.logs.await_lifecycle(&hello.session, &events);
    let metrics = server.admin.metrics();
    assert_eq!(metrics.events("suspended", "pong_timeout"), 1.0);
    assert_eq!(metrics.events("expired", "reconnect_window"), 1.0);
    assert_eq!(metrics.sessions("suspended"), 0.0);
    assert_eq!(metrics.value("encke_timer_expiries_total{deadline=\"pong\"}"), 1.0);
    assert_eq!(metrics.value("encke_timer_expiries_total{deadline=\"reconnect\"}"), 1.0);
}

#[test]
fn reconnect_window_is_not_shortened() {
    let server = server();
    let (mut client, hello) = RawClient::greeted(server.public, "");
    let ping = client.frame_of(PING);
    assert_eq!(client.close_code(), 4000);
    server.await_removal(&hello.session);
    let after = ping.not_before.elapsed();
    assert!(after + TRANSIT >= PONG_TIMEOUT + WINDOW, "expired after {after:?}");
    assert!(after <= PONG_TIMEOUT + WINDOW + MAX_LATENESS, "expired after {after:?}");
}

#[test]
fn mute_client_can_resume() {
    let server = server();
    let (mut client, hello) = RawClient::greeted(server.public, "");
    client.frame_of(PING);
    assert_eq!(client.close_code(), 4000);
    let again = server.resume(&hello.resume);
    assert!(again.hello.recovered);
    assert_eq!(again.hello.session, hello.session);
}

#[test]
fn resumed_client_that_falls_silent_again_is_detected() {
    let server = server();
    let (mut client, hello) = RawClient::greeted(server.public, "");
    assert_eq!(client.close_code(), 4000);
    let (mut again, resumed) = RawClient::greeted(server.public, &format!("resume={}", hello.resume));
    assert!(resumed.recovered);
    again.frame_of(PING);
    assert_eq!(again.close_code(), 4000);
    server.await_removal(&hello.session);
    let silent = ("suspended", "pong_timeout");
    let events =
        [("opened", "connect"), silent, ("resumed", "reconnect"), silent, ("expired", "reconnect_window")];
    server.logs.await_lifecycle(&hello.session, &events);
}
