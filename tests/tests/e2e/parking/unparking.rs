use std::time::{Duration, Instant};

use encke_tests::crowd;
use encke_tests::waiting::{TIMEOUT, let_pass, until};
use encke_tests::{Certificate, Launch, RawClient, RunningServer, ServerOutput, TlsClient, raw};
use serde_json::json;

use super::*;
use crate::restart::{RestartableServer, next_message, resume_session};

/// Input is processed regardless of how it is split.
#[test]
fn any_input_unparks() {
    let server = RunningServer::with(&[PARK_AT_ONCE]);
    let (mut client, _) = RawClient::greeted(server.public, "");
    await_parked(&server, 1);
    let whole = masked(TEXT, br#"{"id":1,"publish":{"channel":"news","data":1}}"#);
    client.send(&whole);
    assert_eq!(client.object()["reply"]["ok"]["offset"], 1);
    await_parked(&server, 1);
    let before = unparked(&server);
    assert!(before >= 1.0);
    for byte in &whole {
        client.send(&[*byte]);
    }
    assert_eq!(client.object()["reply"]["ok"]["offset"], 2);
    await_parked(&server, 1);
    assert!(unparked(&server) > before);
    // This message is longer than the read buffer for parked connections.
    let long = format!(r#"{{"id":2,"publish":{{"channel":"news","data":"{}"}}}}"#, "x".repeat(5_000));
    for _ in 0..3 {
        await_parked(&server, 1);
        client.text(&long);
        client.object();
    }
    client.send(&masked(PING, b"hello"));
    assert_eq!(client.frame_of(PONG).payload, b"hello");
    await_parked(&server, 1);
    // Send pongs that answer no ping, and one pong followed by part of a frame.
    client.send(&masked(PONG, b"whatever"));
    client.send(&[masked(PONG, &[0; 8]), whole[..3].to_vec()].concat());
    client.send(&whole[3..]);
    assert_eq!(client.object()["reply"]["ok"]["offset"], 6);
    await_parked(&server, 1);
    client.send(&masked(raw::CLOSE, &[]));
    assert_eq!(client.frame_of(raw::CLOSE).payload, b"");
    await_parked(&server, 0);
    server.assert_healthy();
}

/// Frames that do not change the session still count as input, even if the connection is parked before the
/// time of the last input is queried.
#[test]
fn time_of_last_input_is_kept_while_parked() {
    let server = RunningServer::with(&["parking.after=300ms"]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    await_parked(&server, 1);
    let mut ping = || {
        let sent = Instant::now();
        client.send(&masked(PING, b"hello"));
        assert_eq!(client.frame_of(PONG).payload, b"hello");
        sent
    };
    // The ping unparks the connection, which updates the session.
    ping();
    let_pass(Duration::from_millis(200));
    let last = ping();
    await_parked(&server, 1);
    let heard_ms = server.admin.session(&hello.session)["last_heard_ms"].as_f64().expect("a number");
    let since_ms = last.elapsed().as_secs_f64() * 1000.0;
    assert!(
        heard_ms <= since_ms,
        "last input {heard_ms} ms ago, although the client sent something {since_ms} ms ago"
    );
}

/// The connections are divided among the threads.
#[test]
fn several_threads_poll_with_many_processors() {
    const CLIENTS: usize = 9;
    let server = Launch::with(&[PARK_AT_ONCE]).environment("TOKIO_WORKER_THREADS", "12").start();
    let polling_threads = || server.thread_names().iter().filter(|name| *name == "encke-poll").count();
    // A thread sets its name when it starts to run.
    until("one polling thread for each four runtime threads", || polling_threads() == 3);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| RawClient::greeted(server.public, "").0).collect();
    for offset in 1..=3 * CLIENTS {
        await_parked(&server, CLIENTS);
        let client = &mut clients[offset % CLIENTS];
        client.text(r#"{"id":1,"publish":{"channel":"news","data":1}}"#);
        assert_eq!(client.object()["reply"]["ok"]["offset"], offset);
    }
    await_parked(&server, CLIENTS);
    for left in (0..CLIENTS).rev() {
        drop(clients.pop());
        await_parked(&server, left);
    }
    server.assert_healthy();
}

/// A connection with a partial message stays active, regardless of what arrives in between.
#[test]
fn a_connection_with_a_partial_message_is_not_parked() {
    const FIRST_FRAGMENT: u8 = 0x01;
    const LAST_FRAGMENT: u8 = 0x80;
    let server = RunningServer::with(&[PARK_AT_ONCE]);
    let (mut client, _) = RawClient::greeted(server.public, "");
    for first in ["", r#"{"id":1,"#] {
        await_parked(&server, 1);
        client.send(&masked(FIRST_FRAGMENT, first.as_bytes()));
        until("the connection is unparked", || parked(&server) == 0.0);
        client.send(&masked(PING, b""));
        client.frame_of(PONG);
        assert_eq!(parked(&server), 0.0);
        let text = r#"{"id":1,"publish":{"channel":"news","data":1}}"#;
        client.send(&masked(LAST_FRAGMENT, &text.as_bytes()[first.len()..]));
        assert_eq!(client.object()["reply"]["id"], 1);
    }
}

#[test]
fn connections_park_only_after_silence_and_if_enabled() {
    let server = RunningServer::with(&["parking.after=1m"]);
    let _client = server.client();
    let_pass(Duration::from_millis(300));
    assert_eq!(parked(&server), 0.0);
    let server = RunningServer::with(&["parking.after=off"]);
    let _client = server.client();
    let_pass(Duration::from_millis(300));
    assert_eq!(parked(&server), 0.0);
    let server = RunningServer::with(&[]);
    let client = server.client();
    await_parked(&server, 1);
    drop(client);
    await_parked(&server, 0);
    until("the connection is not counted any more", || server.admin.metrics().connections() == 0.0);
}

/// Pongs do not count as client activity, however frequent they are.
#[test]
fn a_client_that_only_answers_pings_is_parked() {
    let server = RunningServer::with(&[
        "parking.after=1s",
        "session.ping_interval=300ms",
        "session.pong_timeout=300ms",
        "timers.ping_slack=20ms",
    ]);
    let client = server.client().into_background();
    await_parked(&server, 1);
    client.await_more_pings(3);
    assert_eq!((parked(&server), unparked(&server)), (1.0, 0.0));
}

#[test]
fn tls_connections_are_not_parked() {
    let directory = tempfile::tempdir().expect("a temporary directory can be created");
    let certificate = Certificate::generate();
    let (chain, key) = certificate.write(directory.path());
    let server = Launch::with(&[PARK_AT_ONCE])
        .set(&format!("tls.certificate={}", chain.display()))
        .set(&format!("tls.key={}", key.display()))
        .start();
    let _client = TlsClient::connect(server.public, &certificate);
    let_pass(Duration::from_millis(300));
    assert_eq!(parked(&server), 0.0);
}

#[test]
fn a_disconnect_is_detected_while_parked() {
    let server = RunningServer::with(&[PARK_AT_ONCE]);
    let (closing, closed) = RawClient::greeted(server.public, "");
    let (resetting, reset) = RawClient::greeted(server.public, "");
    await_parked(&server, 2);
    let open = server.open_descriptors();
    drop(closing);
    server.await_phase(&closed.session, "suspended");
    resetting.reset();
    server.await_phase(&reset.session, "suspended");
    for session in [&closed.session, &reset.session] {
        server.logs.await_lifecycle(session, &[("opened", "connect"), ("suspended", "connection_lost")]);
    }
    await_parked(&server, 0);
    until("their sockets are closed", || server.open_descriptors() <= open - 2);
}

#[test]
fn a_take_over_closes_the_parked_connection() {
    let server = RunningServer::with(&[PARK_AT_ONCE]);
    let mut first = server.client();
    first.subscribe("news");
    await_parked(&server, 1);
    let mut second = server.resume(&first.hello.resume);
    assert!(second.hello.recovered);
    assert_eq!(first.close_code(), Some(4100));
    await_parked(&server, 1);
    server.admin.publish("news", 1);
    assert_eq!(seq_and_offset(&second.object()), (1, 1));
    let taken = [("opened", "connect"), ("resumed", "take_over")];
    server.logs.await_lifecycle(&second.hello.session, &taken);
}

#[test]
fn admin_actions_reach_parked_connections() {
    let server = RunningServer::with(&[PARK_AT_ONCE]);
    let mut client = server.client();
    await_parked(&server, 1);
    let session = client.hello.session.clone();
    assert_eq!(server.admin.phase(&session).as_deref(), Some("attached"));
    assert_eq!(server.admin.session(&session)["transport"], "websocket");
    assert_eq!(server.admin.metrics().connections(), 1.0);
    assert_eq!(server.admin.disconnect(&session).status, 204);
    assert_eq!(client.close_code(), Some(4007));
    let mut client = server.resume(&client.hello.resume);
    await_parked(&server, 1);
    assert_eq!(server.admin.kick(&session).status, 204);
    assert_eq!(client.close_code(), Some(4101));
    await_parked(&server, 0);
}

/// The commands arrive in separate requests.
#[test]
fn posted_commands_reach_parked_connections() {
    let server = RunningServer::with(&[PARK_AT_ONCE]);
    let mut client = server.client();
    await_parked(&server, 1);
    let path = format!("/poll?resume={}", client.hello.resume);
    let commands = r#"[{"id":1,"publish":{"channel":"news","data":1}},{"id":2,"subscribe":{"channel":"news","since":{"epoch":"","offset":0}}}]"#;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{commands}",
        commands.len()
    );
    let answer = encke_tests::admin::send_request(server.public, &head);
    assert_eq!(answer.status, 200, "{answer:?}");
    server.admin.publish("news", 2);
    // The given epoch is not the channel's, so a gap comes first.
    loop {
        let object = client.object();
        if object["message"]["offset"] == 2 {
            break;
        }
    }
    let close = "[{\"close\":{}}]";
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{close}",
        close.len()
    );
    assert_eq!(encke_tests::admin::send_request(server.public, &head).status, 200);
    assert_eq!(client.close_code(), Some(1000));
}

#[test]
fn a_drain_closes_parked_connections() {
    let mut server = RunningServer::with(&[PARK_AT_ONCE, "shutdown.drain=15s"]);
    let mut clients: Vec<_> = (0..50).map(|_| server.client()).collect();
    await_parked(&server, 50);
    let from = Instant::now();
    server.terminate();
    for client in &mut clients {
        assert_eq!(client.object()["goaway"]["reason"], "draining");
        assert_eq!(client.next_within(TIMEOUT), Some(ServerOutput::Close(4002, "draining".into())));
        assert_eq!(client.close_code(), None);
    }
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
    assert!(from.elapsed() < Duration::from_secs(15), "the drain took too long after all clients had left");
}

#[test]
fn parked_sessions_continue_after_a_restart() {
    let mut restarts = RestartableServer::with(&[PARK_AT_ONCE]);
    let mut client = restarts.server.client();
    let hello = client.hello.clone();
    client.subscribe("news");
    await_parked(&restarts.server, 1);
    restarts.server.admin.publish("news", 1);
    restarts.restart();
    assert_eq!(next_message(&mut client), (1, 1, json!(1)));
    assert_eq!(client.object()["goaway"]["reason"], "moved");
    assert_eq!(client.close_code(), Some(4008));
    restarts.server.admin.publish("news", 2);
    let mut client = resume_session(&restarts, &hello, 1);
    assert_eq!(next_message(&mut client), (2, 2, json!(2)));
}

#[test]
fn lifetimes_end_on_time_while_parked() {
    let server = RunningServer::with(&[PARK_AT_ONCE, "session.lifetime=1s"]);
    let from = Instant::now();
    let mut client = server.client();
    assert_eq!(client.close_code(), Some(4006));
    let after = from.elapsed();
    assert!(after >= Duration::from_secs(1) && after <= Duration::from_secs(1) + MAX_LATENESS, "{after:?}");
    await_parked(&server, 0);
}

/// The clients all disconnect together, and each disconnect unparks a connection.
#[test]
fn the_disconnect_of_a_crowd_is_detected() {
    const CLIENTS: usize = 2_000;
    crowd::require_descriptors(CLIENTS);
    let server = RunningServer::with(&[PARK_AT_ONCE]);
    let clients = crowd::connect(&server, &vec![String::new(); CLIENTS]);
    await_parked(&server, CLIENTS);
    drop(clients);
    crowd::await_sessions(&server, "suspended", CLIENTS);
    await_parked(&server, 0);
    assert!(
        unparked(&server) < 2.0 * CLIENTS as f64,
        "a disconnect does not unpark its connection repeatedly"
    );
}
