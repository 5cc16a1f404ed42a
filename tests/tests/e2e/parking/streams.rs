use std::time::{Duration, Instant};

use encke_tests::crowd;
use encke_tests::network::NetworkLink;
use encke_tests::waiting::{MAX_LATENESS, TIMEOUT};
use encke_tests::{EventStream, Launch, Script};

use super::*;
use crate::restart::RestartableServer;

/// Opens a stream of one channel. Returns the stream and its hello.
#[track_caller]
fn open_stream(server: &RunningServer, channel: &str) -> (EventStream, Hello) {
    let mut events = EventStream::open(server.public, &format!("channels={channel}"));
    let hello = events.hello();
    (events, hello)
}

/// Returns the seq and the offset of the next message.
#[track_caller]
fn next_message(events: &mut EventStream) -> (u64, u64) {
    seq_and_offset(&events.object().1)
}

/// The only acknowledgement of a heartbeat is the one from the peer's kernel, so the server also checks for
/// TCP acknowledgements while the stream is parked.
#[test]
fn heartbeats_are_sent_while_parked() {
    let server =
        RunningServer::with(&[PARK_AT_ONCE, "session.ping_interval=500ms", "session.pong_timeout=200ms"]);
    let (mut events, hello) = open_stream(&server, "news");
    await_parked(&server, 1);
    for _ in 0..5 {
        assert_eq!(events.block().as_deref(), Some(":"));
    }
    let metrics = server.admin.metrics();
    assert_eq!(metrics.value("encke_connections_parked{transport=\"sse\"}"), 1.0);
    assert_eq!(unparked(&server), 0.0);
    let last_heard_ms = server.admin.session(&hello.session)["last_heard_ms"].as_f64();
    assert!(last_heard_ms.is_some_and(|ms| ms < 2_900.0), "{last_heard_ms:?}");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn a_vanished_peer_is_detected_while_parked() {
    let link = NetworkLink::new();
    let server = Launch::listening_on(&std::net::SocketAddr::new(link.near_address(), 0).to_string())
        .argument("--insecure")
        .set(PARK_AT_ONCE)
        .set("session.ping_interval=1s")
        .set("session.pong_timeout=500ms")
        .start();
    let mut events = EventStream::over(link.connect(server.public), "channels=news", "");
    let hello = events.hello();
    await_parked(&server, 1);
    assert_eq!(events.block().as_deref(), Some(":"));
    let last_heartbeat = Instant::now();
    link.cut();
    drop(events);
    link.forget_connections();
    server.await_phase(&hello.session, "suspended");
    let after = last_heartbeat.elapsed();
    assert!(after >= Duration::from_millis(1_400), "suspended after {after:?}");
    assert!(after <= Duration::from_millis(1_500) + MAX_LATENESS, "suspended after {after:?}");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "pong_timeout")]);
    await_parked(&server, 0);
}

#[test]
fn thousands_of_parked_streams_receive_every_event_once_and_in_order() {
    const CLIENTS: usize = 2_000;
    const MESSAGES: u64 = 20;
    crowd::require_descriptors(CLIENTS);
    let server = RunningServer::with(&["parking.after=50ms"]);
    let mut streams: Vec<_> = (0..CLIENTS).map(|_| open_stream(&server, "news").0).collect();
    await_parked(&server, CLIENTS);
    let before = unparked(&server);
    for number in 1..=MESSAGES {
        assert_eq!(server.admin.publish("news", number)["offset"], number);
    }
    for events in &mut streams {
        for number in 1..=MESSAGES {
            let (id, object) = events.object();
            assert_eq!(seq_and_offset(&object), (number, number));
            assert!(
                id.is_some_and(|id| id.ends_with(&format!(":{number}"))),
                "the event id contains the offset"
            );
        }
    }
    assert_eq!(unparked(&server), before, "output does not unpark");
    assert_eq!(parked(&server), CLIENTS as f64);
    drop(streams);
    crowd::await_sessions(&server, "suspended", CLIENTS);
    await_parked(&server, 0);
    assert!(unparked(&server) < before + 2.0 * CLIENTS as f64);
}

/// The connection's task sends the output that the kernel does not accept while the connection is parked:
/// nothing is lost or duplicated.
#[test]
fn a_paused_reader_receives_everything() {
    const MESSAGES: u64 = 60;
    let server = RunningServer::with(&[PARK_AT_ONCE, "limits.send_buffer=4KiB"]);
    let dial = Dial { receive_buffer: Some(4096), ..Dial::default() };
    let mut slow = EventStream::over(dial.connect(server.public), "channels=news", "");
    let hello = slow.hello();
    let (mut quick, _) = open_stream(&server, "news");
    await_parked(&server, 2);
    let before = unparked(&server);
    let data = "x".repeat(8_000);
    for number in 1..=MESSAGES {
        server.admin.publish("news", format!("{number} {data}"));
        assert_eq!(next_message(&mut quick), (number, number), "other clients are not delayed");
    }
    until("the connection is unparked", || unparked(&server) > before);
    for number in 1..=MESSAGES {
        let (_, object) = slow.object();
        assert_eq!(seq_and_offset(&object), (number, number));
        assert_eq!(object["message"]["data"], format!("{number} {data}"));
    }
    await_parked(&server, 2);
    server.admin.publish("news", "last");
    assert_eq!(next_message(&mut slow), (MESSAGES + 1, MESSAGES + 1));
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn a_reader_that_never_reads_is_suspended() {
    let server = RunningServer::with(&[PARK_AT_ONCE, "limits.send_buffer=4KiB", "session.write_timeout=1s"]);
    let dial = Dial { receive_buffer: Some(4096), ..Dial::default() };
    let mut slow = EventStream::over(dial.connect(server.public), "channels=news", "");
    let hello = slow.hello();
    await_parked(&server, 1);
    for _ in 0..60 {
        server.admin.publish("news", "x".repeat(8_000));
    }
    server.await_phase(&hello.session, "suspended");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "slow_consumer")]);
    await_parked(&server, 0);
}

/// A client has nothing to send on an event stream. The connection's task discards any input.
#[test]
fn input_on_a_parked_stream_is_discarded() {
    let server = RunningServer::with(&[PARK_AT_ONCE]);
    let (mut events, hello) = open_stream(&server, "news");
    await_parked(&server, 1);
    events.send(b"GET / HTTP/1.1\r\n\r\n");
    until("the connection is unparked", || unparked(&server) >= 1.0);
    await_parked(&server, 1);
    server.admin.publish("news", 1);
    assert_eq!(next_message(&mut events), (1, 1));
    drop(events);
    server.await_phase(&hello.session, "suspended");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "connection_lost")]);
    await_parked(&server, 0);
    let open = || server.admin.metrics().value("encke_connections{transport=\"sse\",dialect=\"json\"}");
    until("the connection is not counted any more", || open() == 0.0);
}

#[test]
fn close_reasons_are_sent_to_parked_streams() {
    let server = RunningServer::with(&[PARK_AT_ONCE]);
    let (events, hello) = open_stream(&server, "news");
    await_parked(&server, 1);
    assert_eq!(server.admin.session(&hello.session)["transport"], "sse");
    let id = format!("{}:0", hello.resume);
    let mut second = EventStream::reconnect(server.public, "channels=news", &id);
    assert!(second.hello().recovered);
    let output = events.to_end();
    assert!(output.iter().any(|event| event.contains(r#""reason":"replaced""#)), "{output:?}");
    await_parked(&server, 1);
    assert_eq!(server.admin.disconnect(&hello.session).status, 204);
    let output = second.to_end();
    assert!(output.iter().any(|event| event.contains(r#""reason":"disconnected""#)), "{output:?}");
    let mut third = EventStream::reconnect(server.public, "channels=news", &id);
    assert!(third.hello().recovered);
    await_parked(&server, 1);
    assert_eq!(server.admin.kick(&hello.session).status, 204);
    let output = third.to_end();
    assert!(output.iter().any(|event| event.contains(r#""reason":"kicked""#)), "{output:?}");
    await_parked(&server, 0);
}

#[test]
fn a_drain_closes_parked_streams() {
    let mut server = RunningServer::with(&[PARK_AT_ONCE, "shutdown.drain=15s"]);
    let streams: Vec<_> = (0..50).map(|_| open_stream(&server, "news").0).collect();
    await_parked(&server, 50);
    let from = Instant::now();
    server.terminate();
    for events in streams {
        let output = events.to_end();
        assert!(output.iter().any(|event| event.contains(r#""reason":"draining""#)), "{output:?}");
    }
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
    assert!(from.elapsed() < Duration::from_secs(15), "the drain took too long after all clients had left");
}

#[test]
fn parked_streams_continue_after_a_restart() {
    let mut restarts = RestartableServer::with(&[PARK_AT_ONCE]);
    let (mut events, hello) = open_stream(&restarts.server, "news");
    await_parked(&restarts.server, 1);
    restarts.server.admin.publish("news", 1);
    let (id, object) = events.object();
    assert_eq!(seq_and_offset(&object), (1, 1));
    restarts.restart();
    let output = events.to_end();
    assert!(output.iter().any(|event| event.contains(r#""reason":"moved""#)), "{output:?}");
    restarts.server.admin.publish("news", 2);
    let id = id.expect("every message has an id");
    let mut again = EventStream::reconnect(restarts.server.public, "channels=news", &id);
    let greeting = again.hello();
    assert!(greeting.recovered);
    assert_eq!(greeting.session, hello.session);
    assert_eq!(next_message(&mut again), (2, 2));
}

/// The client is npm's `eventsource`.
#[test]
fn an_event_source_receives_everything_while_parked() {
    let server =
        RunningServer::with(&[PARK_AT_ONCE, "session.ping_interval=300ms", "session.pong_timeout=200ms"]);
    let source = Script::start("event_source.mjs", &[&server.public.to_string(), "news"]);
    source.await_object("hello", 1);
    let (mut separate, _) = open_stream(&server, "news");
    await_parked(&server, 2);
    for number in 1..=3_u16 {
        for _ in 0..3 {
            assert_eq!(separate.block().as_deref(), Some(":"));
        }
        server.admin.publish("news", number);
        assert_eq!(next_message(&mut separate), (number.into(), number.into()));
        assert_eq!(source.await_value("message", number.into())["data"], number);
    }
    assert_eq!((source.count("hello"), source.count("error")), (1, 0));
    assert_eq!((parked(&server), unparked(&server)), (2.0, 0.0));
}
