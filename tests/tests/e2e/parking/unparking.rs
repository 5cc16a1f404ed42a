use std::time::{Duration, Instant};

use encke_tests::bayeux::{BayeuxPolling, connect, events};
use encke_tests::poll::get;
use encke_tests::raw::{CLOSE, PING, PONG, TEXT, masked};
use encke_tests::tls;
use encke_tests::waiting::let_pass;

use super::*;
use crate::poll::over_tls;

const PUBLISH: &str = r#"{"id":1,"publish":{"channel":"news","data":1}}"#;

#[test]
fn connections_park_only_after_silence_and_if_enabled() {
    let active = ["parking.after=1m", "parking.after=off"].map(|parking| RunningServer::with(&[parking]));
    let _clients = active.each_ref().map(RunningServer::client);
    let (with_tls, certificate) = over_tls(&[PARK_AT_ONCE]);
    let _client = tls::client(with_tls.public, &certificate);
    let server = RunningServer::with(&[]);
    let client = server.client();
    await_parked(&server, 1);
    for server in active.iter().chain([&with_tls]) {
        assert_eq!(parked(server), 0.0);
    }
    drop(client);
    await_parked(&server, 0);
    until("the connection is not counted any more", || server.admin.metrics().connections() == 0.0);
}

/// Input is processed regardless of how it is split.
#[test]
fn any_input_unparks() {
    let server = RunningServer::with(&[PARK_AT_ONCE]);
    let (mut client, _) = RawClient::greeted(server.public, "");
    await_parked(&server, 1);
    let whole = masked(TEXT, PUBLISH.as_bytes());
    client.send(&whole);
    assert_eq!(client.object()["reply"]["ok"]["offset"], 1);
    await_parked(&server, 1);
    let before = unparked(&server);
    assert!(before >= 1.0);
    for byte in &whole {
        client.send([*byte]);
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
    client.send(masked(PING, b"hello"));
    assert_eq!(client.frame_of(PONG).payload, b"hello");
    await_parked(&server, 1);
    // Send pongs that answer no ping, and one pong followed by part of a frame.
    client.send(masked(PONG, b"whatever"));
    client.send([masked(PONG, &[0; 8]), whole[..3].to_vec()].concat());
    client.send(&whole[3..]);
    assert_eq!(client.object()["reply"]["ok"]["offset"], 6);
    await_parked(&server, 1);
    client.send(masked(CLOSE, &[]));
    assert_eq!(client.frame_of(CLOSE).payload, b"");
    await_parked(&server, 0);
    // A client has nothing to send on an event stream. The connection's task discards any input.
    let (mut events, _) = EventStream::greeted(server.public, "channels=news");
    await_parked(&server, 1);
    let before = unparked(&server);
    events.send(b"GET / HTTP/1.1\r\n\r\n");
    until("the connection is unparked", || unparked(&server) > before);
    await_parked(&server, 1);
    server.admin.publish("news", 1);
    assert_eq!(seq_and_offset(&events.object().1), (1, 7));
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
        client.send(masked(PING, b"hello"));
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
    assert!(heard_ms <= since_ms, "{heard_ms} ms ago, although the client sent a ping {since_ms} ms ago");
}

/// Each answer unparks its poll. Input that belongs to the next request keeps the connection active and is not
/// lost.
#[test]
fn successive_polls_are_parked_and_answered() {
    let server = RunningServer::with(&[PARK_AT_ONCE]);
    let (mut requests, hello) = open(&server, "news");
    let assert_polls = |dialect: &str| {
        let metrics = server.admin.metrics();
        assert_eq!(metrics.value("encke_connections_parked{transport=\"poll\"}"), 1.0);
        let open = format!("encke_connections{{transport=\"poll\",dialect=\"{dialect}\"}}");
        assert_eq!(metrics.value(&open), 1.0);
    };
    for seq in 0..3 {
        requests.send_get(&poll_query(&hello, seq));
        await_parked(&server, 1);
        assert_polls("json");
        server.admin.publish("news", seq);
        assert_eq!(seq_and_offset(&requests.response().json()[0]), (seq + 1, seq + 1));
        assert_eq!(unparked(&server), (seq + 1) as f64);
    }
    for seq in [3, 5] {
        requests.send_get(&poll_query(&hello, seq));
        await_parked(&server, 1);
        let next = get(&poll_query(&hello, seq + 1));
        let (some, others) = next.split_at(if seq == 3 { next.len() } else { 10 });
        requests.send(some);
        await_parked(&server, 0);
        server.admin.publish("news", seq);
        assert_eq!(seq_and_offset(&requests.response().json()[0]), (seq + 1, seq + 1));
        requests.send(others);
        await_parked(&server, 1);
        server.admin.publish("news", seq + 1);
        assert_eq!(seq_and_offset(&requests.response().json()[0]), (seq + 2, seq + 2));
    }
    let (mut polls, id) = BayeuxPolling::opened(server.public, &["/news"]);
    let before = unparked(&server);
    for number in 1..=3 {
        polls.send(&connect(&id));
        await_parked(&server, 1);
        assert_polls("bayeux");
        server.admin.publish("/news", number);
        assert_eq!(events(&polls.response()), [number]);
    }
    assert_eq!(unparked(&server), before + 3.0);
}

/// Parking costs more than it saves if the response follows soon. The connection remembers from poll to poll
/// whether that was the case.
#[test]
fn frequently_answered_polls_are_not_parked() {
    let server = RunningServer::with(&["parking.after=1500ms"]);
    let (mut requests, hello) = open(&server, "news");
    requests.send_get(&poll_query(&hello, 0));
    await_parked(&server, 1);
    server.admin.publish("news", 1);
    requests.response();
    let sent = Instant::now();
    requests.send_get(&poll_query(&hello, 1));
    await_parked(&server, 1);
    assert!(sent.elapsed() >= Duration::from_millis(2500), "{:?}", sent.elapsed());
}

/// The sockets are closed, too.
#[test]
fn a_disconnect_is_detected_while_parked() {
    let server = RunningServer::with(&[PARK_AT_ONCE, "session.poll_gap=300ms"]);
    let (closing, closed) = RawClient::greeted(server.public, "");
    let (resetting, reset) = RawClient::greeted(server.public, "");
    let (events, streamed) = EventStream::greeted(server.public, "channels=news");
    let (mut requests, polled) = open(&server, "news");
    requests.send_get(&poll_query(&polled, 0));
    await_parked(&server, 4);
    let open = server.open_descriptors();
    resetting.reset();
    drop((closing, events, requests));
    for (hello, reason) in [
        (&closed, "connection_lost"),
        (&reset, "connection_lost"),
        (&streamed, "connection_lost"),
        (&polled, "poll_gap"),
    ] {
        server.await_lifecycle(&hello.session, &format!("opened connect, suspended {reason}"));
    }
    await_parked(&server, 0);
    until("their sockets are closed", || server.open_descriptors() <= open - 4);
    let connections = || server.admin.metrics().total("encke_connections");
    until("the connections are not counted any more", || connections() == 0.0);
    server.admin.publish("news", 1);
    let mut again = PollClient::connect(server.public);
    assert_eq!(seq_and_offset(&again.get(&poll_query(&polled, 0)).json()[0]), (1, 1));
}
