use std::time::{Duration, Instant};

use encke_tests::raw::{PING, PONG, masked};
use encke_tests::waiting::{MAX_LATENESS, let_pass, until};
use encke_tests::{RawClient, RunningServer};

#[track_caller]
fn assert_after(from: Instant, expected: Duration) {
    let after = from.elapsed();
    assert!(after >= expected, "early: {after:?} instead of {expected:?}");
    assert!(after <= expected + MAX_LATENESS, "late: {after:?} instead of {expected:?}");
}

#[test]
fn the_close_command_ends_the_session_at_once() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    client.send(r#"{"close":{}}"#);
    assert_eq!(client.close_code(), Some(1000));
    server.await_removal(&client.hello.session);
    server.logs.await_lifecycle(&client.hello.session, &[("opened", "connect"), ("closed", "client")]);
    let again = server.resume(&client.hello.resume);
    assert!(!again.hello.recovered);
    assert_ne!(again.hello.session, client.hello.session);
    let metrics = server.admin.metrics();
    assert_eq!(metrics.events("closed", "client"), 1.0);
    assert_eq!(metrics.sessions("suspended"), 0.0);
}

#[test]
fn a_close_command_with_an_id_is_answered_first() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    assert_eq!(client.request(r#"{"id":1,"close":{}}"#), serde_json::json!({"id": 1, "ok": {}}));
    assert_eq!(client.close_code(), Some(1000));
}

#[test]
fn no_session_outlives_its_lifetime() {
    let server = RunningServer::with(&["session.lifetime=1s"]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    assert_eq!(client.close_code(), 4006);
    assert_after(client.started_at, Duration::from_secs(1));
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("closed", "lifetime")]);
    assert!(!server.resume(&hello.resume).hello.recovered);
}

#[test]
fn no_suspended_session_outlives_its_lifetime() {
    let server = RunningServer::with(&["session.lifetime=1s"]);
    let from = Instant::now();
    let hello = server.suspended_session();
    server.await_removal(&hello.session);
    assert_after(from, Duration::from_secs(1));
    let events = [("opened", "connect"), ("suspended", "connection_lost"), ("closed", "lifetime")];
    server.logs.await_lifecycle(&hello.session, &events);
}

#[test]
fn pongs_and_acks_do_not_keep_an_idle_session_alive() {
    let server = RunningServer::with(&[
        "session.idle=2s",
        "session.ping_interval=300ms",
        "session.pong_timeout=300ms",
    ]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    let mut pings = 0;
    let code = loop {
        let frame = client.frame();
        match frame.first {
            PING => {
                pings += 1;
                assert!(
                    client.started_at.elapsed() < Duration::from_secs(2) + MAX_LATENESS,
                    "the session is not closed"
                );
                client.send(&masked(PONG, &frame.payload));
                client.text(r#"{"ack":{"seq":0}}"#);
                client.text(r#"{"pong":{"seq":0}}"#);
            }
            _ => break u16::from_be_bytes(*frame.payload.first_chunk().expect("a code")),
        }
    };
    assert_eq!(code, 4004);
    assert_after(client.started_at, Duration::from_secs(2));
    assert!(pings >= 2, "the client answered {pings} pings");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("closed", "idle")]);
    assert!(!server.resume(&hello.resume).hello.recovered);
}

#[test]
fn commands_keep_a_session_alive() {
    let idle = Duration::from_secs(1);
    let server = RunningServer::with(&["session.idle=1s"]);
    let (mut client, _) = RawClient::greeted(server.public, "");
    let mut last_command = client.started_at;
    while client.started_at.elapsed() < idle * 2 {
        last_command = Instant::now();
        // Any command counts as activity, even one that is refused.
        client.text(r#"{"id":1,"dance":{}}"#);
        assert_eq!(client.object()["reply"]["id"], 1);
        let pause = client.frame_within(idle / 10).expect("the connection is open");
        assert!(pause.is_none(), "{pause:?}");
    }
    assert_eq!(client.close_code(), 4004);
    assert_after(last_command, idle);
}

#[test]
fn client_that_stays_after_the_close_is_disconnected() {
    let server = RunningServer::with(&["session.close_timeout=500ms"]);
    // Count before any client connects. Descriptors from the startup may be closed later, hence the `<=`
    // below.
    let open = server.open_descriptors();
    let (mut stays, hello) = RawClient::greeted(server.public, "");
    let from = Instant::now();
    stays.text(r#"{"close":{}}"#);
    assert_eq!(stays.close_code(), 1000);
    stays.await_end();
    server.await_removal(&hello.session);
    until("its descriptor is closed", || server.open_descriptors() <= open);
    assert_after(from, Duration::from_millis(500));
}

#[test]
fn client_that_keeps_sending_after_the_close_is_disconnected() {
    let server = RunningServer::with(&["session.close_timeout=500ms"]);
    let (mut talks, _) = RawClient::greeted(server.public, "");
    let from = Instant::now();
    talks.text(r#"{"close":{}}"#);
    while talks.try_send(&masked(PONG, &[0; 8])).is_ok() {
        assert!(from.elapsed() < Duration::from_millis(500) + MAX_LATENESS, "the client can still send");
        let_pass(Duration::from_millis(5));
    }
    server.assert_healthy();
}
