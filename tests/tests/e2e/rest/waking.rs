use std::time::{Duration, Instant};

use encke_tests::crowd;
use encke_tests::waiting::{TIMEOUT, let_pass, until};
use encke_tests::{Certificate, Launch, RawClient, RunningServer, ServerOutput, TlsClient, raw};
use serde_json::json;

use super::*;
use crate::restart::{Restarts, back, message};

/// In whatever pieces.
#[test]
fn whatever_a_client_says_wakes_it() {
    let server = RunningServer::with(&[AT_ONCE]);
    let (mut client, _) = RawClient::greeted(server.public, "");
    await_rest(&server, 1);
    let whole = masked(TEXT, br#"{"id":1,"publish":{"channel":"news","data":1}}"#);
    client.send(&whole);
    assert_eq!(client.object()["reply"]["ok"]["offset"], 1);
    await_rest(&server, 1);
    let before = woken(&server);
    assert!(before >= 1.0);
    for byte in &whole {
        client.send(&[*byte]);
    }
    assert_eq!(client.object()["reply"]["ok"]["offset"], 2);
    await_rest(&server, 1);
    assert!(woken(&server) > before);
    // Longer than what is read at rest.
    let long = format!(r#"{{"id":2,"publish":{{"channel":"news","data":"{}"}}}}"#, "x".repeat(5_000));
    for _ in 0..3 {
        await_rest(&server, 1);
        client.text(&long);
        client.object();
    }
    client.send(&masked(PING, b"hello"));
    assert_eq!(client.frame_of(PONG).payload, b"hello");
    await_rest(&server, 1);
    // No answer to any ping, and one and a half.
    client.send(&masked(PONG, b"whatever"));
    client.send(&[masked(PONG, &[0; 8]), whole[..3].to_vec()].concat());
    client.send(&whole[3..]);
    assert_eq!(client.object()["reply"]["ok"]["offset"], 6);
    await_rest(&server, 1);
    client.send(&masked(raw::CLOSE, &[]));
    assert_eq!(client.frame_of(raw::CLOSE).payload, b"");
    await_rest(&server, 0);
    server.assert_healthy();
}

/// Frames that change nothing in the session are a sign of life all the same, also when the connection rests before anyone looks.
#[test]
fn what_was_heard_last_is_remembered_at_rest() {
    let server = RunningServer::with(&["parking.after=300ms"]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    await_rest(&server, 1);
    let mut ping = || {
        let sent = Instant::now();
        client.send(&masked(PING, b"hello"));
        assert_eq!(client.frame_of(PONG).payload, b"hello");
        sent
    };
    // It wakes the connection, which tells its session.
    ping();
    let_pass(Duration::from_millis(200));
    let last = ping();
    await_rest(&server, 1);
    let heard_ms = server.admin.session(&hello.session)["last_heard_ms"].as_f64().expect("a number");
    let since_ms = last.elapsed().as_secs_f64() * 1000.0;
    assert!(heard_ms <= since_ms, "heard {heard_ms} ms ago, though it spoke {since_ms} ms ago");
}

/// Each has a part of the connections.
#[test]
fn with_many_processors_several_threads_look() {
    const CLIENTS: usize = 9;
    let server = Launch::with(&[AT_ONCE]).environment("TOKIO_WORKER_THREADS", "12").start();
    let looking = || server.thread_names().iter().filter(|name| *name == "encke-rest").count();
    // A thread gives itself its name once it runs.
    until("one looks for four of the runtime's", || looking() == 3);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| RawClient::greeted(server.public, "").0).collect();
    for offset in 1..=3 * CLIENTS {
        await_rest(&server, CLIENTS);
        let client = &mut clients[offset % CLIENTS];
        client.text(r#"{"id":1,"publish":{"channel":"news","data":1}}"#);
        assert_eq!(client.object()["reply"]["ok"]["offset"], offset);
    }
    await_rest(&server, CLIENTS);
    for left in (0..CLIENTS).rev() {
        drop(clients.pop());
        await_rest(&server, left);
    }
    server.assert_healthy();
}

/// While a message has begun, the connection keeps its task, whatever comes between.
#[test]
fn nobody_rests_within_a_message() {
    const FIRST_FRAGMENT: u8 = 0x01;
    const LAST_FRAGMENT: u8 = 0x80;
    let server = RunningServer::with(&[AT_ONCE]);
    let (mut client, _) = RawClient::greeted(server.public, "");
    for first in ["", r#"{"id":1,"#] {
        await_rest(&server, 1);
        client.send(&masked(FIRST_FRAGMENT, first.as_bytes()));
        until("it has woken", || at_rest(&server) == 0.0);
        client.send(&masked(PING, b""));
        client.frame_of(PONG);
        assert_eq!(at_rest(&server), 0.0);
        let text = r#"{"id":1,"publish":{"channel":"news","data":1}}"#;
        client.send(&masked(LAST_FRAGMENT, &text.as_bytes()[first.len()..]));
        assert_eq!(client.object()["reply"]["id"], 1);
    }
}

#[test]
fn nobody_rests_before_a_silence_and_never_if_it_is_off() {
    let server = RunningServer::with(&["parking.after=1m"]);
    let _client = server.client();
    let_pass(Duration::from_millis(300));
    assert_eq!(at_rest(&server), 0.0);
    let server = RunningServer::with(&["parking.after=off"]);
    let _client = server.client();
    let_pass(Duration::from_millis(300));
    assert_eq!(at_rest(&server), 0.0);
    let server = RunningServer::with(&[]);
    let client = server.client();
    await_rest(&server, 1);
    drop(client);
    await_rest(&server, 0);
    until("its connection is counted no more", || server.admin.metrics().connections() == 0.0);
}

/// Answers to pings are no speech, however often they come.
#[test]
fn who_does_nothing_but_answer_pings_rests() {
    let server = RunningServer::with(&[
        "parking.after=1s",
        "session.ping_interval=300ms",
        "session.pong_timeout=300ms",
        "timers.ping_slack=20ms",
    ]);
    let client = server.client().into_background();
    await_rest(&server, 1);
    client.await_more_pings(3);
    assert_eq!((at_rest(&server), woken(&server)), (1.0, 0.0));
}

#[test]
fn with_tls_nobody_rests() {
    let directory = tempfile::tempdir().expect("there is room for files");
    let certificate = Certificate::generate();
    let (chain, key) = certificate.write(directory.path());
    let server = Launch::with(&[AT_ONCE])
        .set(&format!("tls.certificate={}", chain.display()))
        .set(&format!("tls.key={}", key.display()))
        .start();
    let _client = TlsClient::connect(server.public, &certificate);
    let_pass(Duration::from_millis(300));
    assert_eq!(at_rest(&server), 0.0);
}

#[test]
fn a_client_that_leaves_is_noticed() {
    let server = RunningServer::with(&[AT_ONCE]);
    let (leaves, left) = RawClient::greeted(server.public, "");
    let (resets, reset) = RawClient::greeted(server.public, "");
    await_rest(&server, 2);
    let open = server.open_descriptors();
    drop(leaves);
    server.await_phase(&left.session, "suspended");
    resets.reset();
    server.await_phase(&reset.session, "suspended");
    for session in [&left.session, &reset.session] {
        server.logs.await_lifecycle(session, &[("opened", "connect"), ("suspended", "connection_lost")]);
    }
    await_rest(&server, 0);
    until("their sockets are closed", || server.open_descriptors() <= open - 2);
}

#[test]
fn a_take_over_at_rest_tells_the_first_why() {
    let server = RunningServer::with(&[AT_ONCE]);
    let mut first = server.client();
    first.subscribe("news");
    await_rest(&server, 1);
    let mut second = server.resume(&first.hello.resume);
    assert!(second.hello.recovered);
    assert_eq!(first.close_code(), Some(4100));
    await_rest(&server, 1);
    server.admin.publish("news", 1);
    assert_eq!(seq_and_offset(&second.object()), (1, 1));
    let taken = [("opened", "connect"), ("resumed", "take_over")];
    server.logs.await_lifecycle(&second.hello.session, &taken);
}

#[test]
fn what_the_admin_api_does_reaches_those_at_rest() {
    let server = RunningServer::with(&[AT_ONCE]);
    let mut client = server.client();
    await_rest(&server, 1);
    let session = client.hello.session.clone();
    assert_eq!(server.admin.phase(&session).as_deref(), Some("attached"));
    assert_eq!(server.admin.session(&session)["transport"], "websocket");
    assert_eq!(server.admin.metrics().connections(), 1.0);
    assert_eq!(server.admin.disconnect(&session).status, 204);
    assert_eq!(client.close_code(), Some(4007));
    let mut client = server.resume(&client.hello.resume);
    await_rest(&server, 1);
    assert_eq!(server.admin.kick(&session).status, 204);
    assert_eq!(client.close_code(), Some(4101));
    await_rest(&server, 0);
}

/// What comes by requests beside the connection reaches it.
#[test]
fn a_request_beside_it_reaches_it() {
    let server = RunningServer::with(&[AT_ONCE]);
    let mut client = server.client();
    await_rest(&server, 1);
    let path = format!("/poll?resume={}", client.hello.resume);
    let commands = r#"[{"id":1,"publish":{"channel":"news","data":1}},{"id":2,"subscribe":{"channel":"news","since":{"epoch":"","offset":0}}}]"#;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{commands}",
        commands.len()
    );
    let answer = encke_tests::admin::send_request(server.public, &head);
    assert_eq!(answer.status, 200, "{answer:?}");
    server.admin.publish("news", 2);
    // The epoch is not that of the channel: what is to be said of that comes first.
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
fn a_drain_says_goodbye_at_rest() {
    let mut server = RunningServer::with(&[AT_ONCE, "shutdown.drain=15s"]);
    let mut clients: Vec<_> = (0..50).map(|_| server.client()).collect();
    await_rest(&server, 50);
    let from = Instant::now();
    server.terminate();
    for client in &mut clients {
        assert_eq!(client.object()["goaway"]["reason"], "draining");
        assert_eq!(client.next_within(TIMEOUT), Some(ServerOutput::Close(4002, "draining".into())));
        assert_eq!(client.close_code(), None);
    }
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
    assert!(from.elapsed() < Duration::from_secs(15), "everyone had left, and it waited on");
}

#[test]
fn sessions_at_rest_go_on_in_the_next_process() {
    let mut restarts = Restarts::with(&[AT_ONCE]);
    let mut client = restarts.server.client();
    let hello = client.hello.clone();
    client.subscribe("news");
    await_rest(&restarts.server, 1);
    restarts.server.admin.publish("news", 1);
    restarts.restart();
    assert_eq!(message(&mut client), (1, 1, json!(1)));
    assert_eq!(client.object()["goaway"]["reason"], "moved");
    assert_eq!(client.close_code(), Some(4008));
    restarts.server.admin.publish("news", 2);
    let mut client = back(&restarts, &hello, 1);
    assert_eq!(message(&mut client), (2, 2, json!(2)));
}

/// A lifetime, and a window after it.
#[test]
fn sessions_end_on_time_at_rest() {
    let server = RunningServer::with(&[AT_ONCE, "session.lifetime=1s"]);
    let from = Instant::now();
    let mut client = server.client();
    assert_eq!(client.close_code(), Some(4006));
    let after = from.elapsed();
    assert!(after >= Duration::from_secs(1) && after <= Duration::from_secs(1) + MAX_LATENESS, "{after:?}");
    await_rest(&server, 0);
}

/// Each end wakes a task of its own, all at once.
#[test]
fn a_crowd_that_leaves_is_noticed() {
    const CLIENTS: usize = 2_000;
    crowd::require_descriptors(CLIENTS);
    let server = RunningServer::with(&[AT_ONCE]);
    let clients = crowd::connect(&server, &vec![String::new(); CLIENTS]);
    await_rest(&server, CLIENTS);
    drop(clients);
    crowd::await_sessions(&server, "suspended", CLIENTS);
    await_rest(&server, 0);
    assert!(woken(&server) < 2.0 * CLIENTS as f64, "no end wakes its connection again and again");
}
