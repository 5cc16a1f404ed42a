use std::time::{Duration, Instant};

use encke_tests::raw::{PING, PONG, TEXT, masked};
use encke_tests::server::FREQUENT_PINGS;
use encke_tests::waiting::{MAX_LATENESS, let_pass, until};
use encke_tests::{Launch, RawClient, RunningServer};

#[track_caller]
fn assert_after(from: Instant, expected: Duration) {
    let after = from.elapsed();
    assert!(after >= expected, "early: {after:?} instead of {expected:?}");
    assert!(after <= expected + MAX_LATENESS, "late: {after:?} instead of {expected:?}");
}

/// A close command with an id is answered first.
#[test]
fn the_close_command_ends_the_session_at_once() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    assert_eq!(client.request(r#"{"id":1,"close":{}}"#), serde_json::json!({"id": 1, "ok": {}}));
    assert_eq!(client.close_code(), Some(1000));
    server.await_removal(&client.hello.session);
    server.await_lifecycle(&client.hello.session, "opened connect, closed client");
    let again = server.resume(&client.hello.resume);
    assert!(!again.hello.recovered);
    assert_ne!(again.hello.session, client.hello.session);
    assert_eq!(server.admin.metrics().events("closed", "client"), 1.0);
}

#[test]
fn no_session_outlives_its_lifetime() {
    let server = RunningServer::with(&["session.lifetime=2s"]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    let suspended = server.suspended_session();
    assert_eq!(client.close_code(), 4006);
    assert_after(client.started_at, Duration::from_secs(2));
    server.await_lifecycle(&hello.session, "opened connect, closed lifetime");
    assert!(!server.resume(&hello.resume).hello.recovered);
    server.await_lifecycle(&suspended.session, "opened connect, suspended connection_lost, closed lifetime");
}

#[test]
fn only_commands_keep_an_idle_session_alive() {
    let idle = Duration::from_secs(14);
    let server = Launch::with(&FREQUENT_PINGS).set("session.idle=14s").start();
    let (mut client, hello) = RawClient::greeted(server.public, "");
    let_pass(Duration::from_secs(1));
    let last_command = Instant::now();
    // Any command counts as activity, even one that is refused.
    client.text(r#"{"id":1,"dance":{}}"#);
    let mut pings = 0;
    let code = loop {
        let frame = client.frame();
        match frame.first {
            PING => {
                pings += 1;
                assert!(last_command.elapsed() < idle + MAX_LATENESS, "the session is not closed");
                client.send(masked(PONG, &frame.payload));
                client.text(r#"{"ack":{"seq":0}}"#);
                client.text(r#"{"pong":{"seq":0}}"#);
            }
            TEXT => {}
            _ => break u16::from_be_bytes(*frame.payload.first_chunk().expect("a code")),
        }
    };
    assert_eq!(code, 4004);
    assert_after(last_command, idle);
    assert!(pings >= 2, "the client answered {pings} pings");
    server.await_lifecycle(&hello.session, "opened connect, closed idle");
    assert!(!server.resume(&hello.resume).hello.recovered);
}

/// One client stays after the close, the other one keeps sending.
#[test]
fn clients_that_stay_after_the_close_are_disconnected() {
    let server = RunningServer::with(&["session.close_timeout=500ms"]);
    // Count before any client connects. Descriptors from the startup may be closed later, hence the `<=`
    // below.
    let open = server.open_descriptors();
    let (mut stays, _) = RawClient::greeted(server.public, "");
    let (mut talks, _) = RawClient::greeted(server.public, "");
    let from = Instant::now();
    stays.text(r#"{"close":{}}"#);
    talks.text(r#"{"close":{}}"#);
    while talks.try_send(masked(PONG, &[0; 8])).is_ok() {
        assert!(from.elapsed() < Duration::from_millis(500) + MAX_LATENESS, "the client can still send");
        let_pass(Duration::from_millis(5));
    }
    assert_eq!(stays.close_code(), 1000);
    stays.await_end();
    until("the descriptors are closed", || server.open_descriptors() <= open);
    assert_after(from, Duration::from_millis(500));
    server.assert_healthy();
}
