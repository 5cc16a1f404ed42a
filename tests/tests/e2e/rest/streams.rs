use std::time::{Duration, Instant};

use encke_tests::crowd;
use encke_tests::network::NetworkLink;
use encke_tests::waiting::{MAX_LATENESS, TIMEOUT};
use encke_tests::{EventStream, Launch, Script};

use super::*;
use crate::restart::Restarts;

/// A stream of one channel, greeted, and its hello.
#[track_caller]
fn follow(server: &RunningServer, channel: &str) -> (EventStream, Hello) {
    let mut events = EventStream::open(server.public, &format!("channels={channel}"));
    let hello = events.hello();
    (events, hello)
}

/// Seq and offset of the next message.
#[track_caller]
fn next(events: &mut EventStream) -> (u64, u64) {
    seq_and_offset(&events.object().1)
}

/// Nothing answers a heartbeat but the peer's machine, which is asked at rest as well.
#[test]
fn heartbeats_leave_and_count_at_rest() {
    let server = RunningServer::with(&[AT_ONCE, "session.ping_interval=500ms", "session.pong_timeout=200ms"]);
    let (mut events, hello) = follow(&server, "news");
    await_rest(&server, 1);
    for _ in 0..5 {
        assert_eq!(events.block().as_deref(), Some(":"));
    }
    let metrics = server.admin.metrics();
    assert_eq!(metrics.value("encke_connections_parked{transport=\"sse\"}"), 1.0);
    assert_eq!(woken(&server), 0.0);
    let heard = server.admin.session(&hello.session)["last_heard_ms"].as_f64();
    assert!(heard.is_some_and(|ms| ms < 2_900.0), "{heard:?}");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn one_that_vanished_is_noticed_at_rest() {
    let link = NetworkLink::new();
    let server = Launch::listening_on(&std::net::SocketAddr::new(link.near_address(), 0).to_string())
        .argument("--insecure")
        .set(AT_ONCE)
        .set("session.ping_interval=1s")
        .set("session.pong_timeout=500ms")
        .start();
    let mut events = EventStream::over(link.connect(server.public), "channels=news", "");
    let hello = events.hello();
    await_rest(&server, 1);
    assert_eq!(events.block().as_deref(), Some(":"));
    let heard = Instant::now();
    link.cut();
    drop(events);
    link.forget_connections();
    server.await_phase(&hello.session, "suspended");
    let after = heard.elapsed();
    assert!(after >= Duration::from_millis(1_400), "suspended after {after:?}");
    assert!(after <= Duration::from_millis(1_500) + MAX_LATENESS, "suspended after {after:?}");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "pong_timeout")]);
    await_rest(&server, 0);
}

#[test]
fn thousands_at_rest_get_every_event_once_and_in_order() {
    const CLIENTS: usize = 2_000;
    const MESSAGES: u64 = 20;
    crowd::require_descriptors(CLIENTS);
    let server = RunningServer::with(&["parking.after=50ms"]);
    let mut streams: Vec<_> = (0..CLIENTS).map(|_| follow(&server, "news").0).collect();
    await_rest(&server, CLIENTS);
    let before = woken(&server);
    for number in 1..=MESSAGES {
        assert_eq!(server.admin.publish("news", number)["offset"], number);
    }
    for events in &mut streams {
        for number in 1..=MESSAGES {
            let (id, object) = events.object();
            assert_eq!(seq_and_offset(&object), (number, number));
            assert!(
                id.is_some_and(|id| id.ends_with(&format!(":{number}"))),
                "its position is that of its message"
            );
        }
    }
    assert_eq!(woken(&server), before, "nobody was woken by what was sent");
    assert_eq!(at_rest(&server), CLIENTS as f64);
    drop(streams);
    crowd::await_sessions(&server, "suspended", CLIENTS);
    await_rest(&server, 0);
    assert!(woken(&server) < before + 2.0 * CLIENTS as f64);
}

/// What its kernel does not take at rest is for its task: nothing is lost, and nothing comes twice.
#[test]
fn a_reader_that_pauses_gets_everything() {
    const MESSAGES: u64 = 60;
    let server = RunningServer::with(&[AT_ONCE, "limits.send_buffer=4KiB"]);
    let dial = Dial { receive_buffer: Some(4096), ..Dial::default() };
    let mut slow = EventStream::over(dial.connect(server.public), "channels=news", "");
    let hello = slow.hello();
    let (mut quick, _) = follow(&server, "news");
    await_rest(&server, 2);
    let before = woken(&server);
    let data = "x".repeat(8_000);
    for number in 1..=MESSAGES {
        server.admin.publish("news", format!("{number} {data}"));
        assert_eq!(next(&mut quick), (number, number), "others are not held up");
    }
    until("it has woken", || woken(&server) > before);
    for number in 1..=MESSAGES {
        let (_, object) = slow.object();
        assert_eq!(seq_and_offset(&object), (number, number));
        assert_eq!(object["message"]["data"], format!("{number} {data}"));
    }
    await_rest(&server, 2);
    server.admin.publish("news", "last");
    assert_eq!(next(&mut slow), (MESSAGES + 1, MESSAGES + 1));
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn a_reader_that_never_reads_is_given_up() {
    let server = RunningServer::with(&[AT_ONCE, "limits.send_buffer=4KiB", "session.write_timeout=1s"]);
    let dial = Dial { receive_buffer: Some(4096), ..Dial::default() };
    let mut slow = EventStream::over(dial.connect(server.public), "channels=news", "");
    let hello = slow.hello();
    await_rest(&server, 1);
    for _ in 0..60 {
        server.admin.publish("news", "x".repeat(8_000));
    }
    server.await_phase(&hello.session, "suspended");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "slow_consumer")]);
    await_rest(&server, 0);
}

/// There is nothing that it could say; what it says all the same is thrown away by its task.
#[test]
fn what_a_reader_says_wakes_it_and_is_nothing() {
    let server = RunningServer::with(&[AT_ONCE]);
    let (mut events, hello) = follow(&server, "news");
    await_rest(&server, 1);
    events.send(b"GET / HTTP/1.1\r\n\r\n");
    until("it has woken", || woken(&server) >= 1.0);
    await_rest(&server, 1);
    server.admin.publish("news", 1);
    assert_eq!(next(&mut events), (1, 1));
    drop(events);
    server.await_phase(&hello.session, "suspended");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "connection_lost")]);
    await_rest(&server, 0);
    let open = || server.admin.metrics().value("encke_connections{transport=\"sse\",dialect=\"json\"}");
    until("its connection is counted no more", || open() == 0.0);
}

#[test]
fn each_end_is_told_at_rest() {
    let server = RunningServer::with(&[AT_ONCE]);
    let (events, hello) = follow(&server, "news");
    await_rest(&server, 1);
    assert_eq!(server.admin.session(&hello.session)["transport"], "sse");
    let id = format!("{}:0", hello.resume);
    let mut second = EventStream::reconnect(server.public, "channels=news", &id);
    assert!(second.hello().recovered);
    let said = events.to_end();
    assert!(said.iter().any(|event| event.contains(r#""reason":"replaced""#)), "{said:?}");
    await_rest(&server, 1);
    assert_eq!(server.admin.disconnect(&hello.session).status, 204);
    let said = second.to_end();
    assert!(said.iter().any(|event| event.contains(r#""reason":"disconnected""#)), "{said:?}");
    let mut third = EventStream::reconnect(server.public, "channels=news", &id);
    assert!(third.hello().recovered);
    await_rest(&server, 1);
    assert_eq!(server.admin.kick(&hello.session).status, 204);
    let said = third.to_end();
    assert!(said.iter().any(|event| event.contains(r#""reason":"kicked""#)), "{said:?}");
    await_rest(&server, 0);
}

#[test]
fn a_drain_says_goodbye_to_streams_at_rest() {
    let mut server = RunningServer::with(&[AT_ONCE, "shutdown.drain=15s"]);
    let streams: Vec<_> = (0..50).map(|_| follow(&server, "news").0).collect();
    await_rest(&server, 50);
    let from = Instant::now();
    server.terminate();
    for events in streams {
        let said = events.to_end();
        assert!(said.iter().any(|event| event.contains(r#""reason":"draining""#)), "{said:?}");
    }
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
    assert!(from.elapsed() < Duration::from_secs(15), "everyone had left, and it waited on");
}

#[test]
fn streams_at_rest_go_on_in_the_next_process() {
    let mut restarts = Restarts::with(&[AT_ONCE]);
    let (mut events, hello) = follow(&restarts.server, "news");
    await_rest(&restarts.server, 1);
    restarts.server.admin.publish("news", 1);
    let (id, object) = events.object();
    assert_eq!(seq_and_offset(&object), (1, 1));
    restarts.restart();
    let said = events.to_end();
    assert!(said.iter().any(|event| event.contains(r#""reason":"moved""#)), "{said:?}");
    restarts.server.admin.publish("news", 2);
    let id = id.expect("each message has one");
    let mut again = EventStream::reconnect(restarts.server.public, "channels=news", &id);
    let greeting = again.hello();
    assert!(greeting.recovered);
    assert_eq!(greeting.session, hello.session);
    assert_eq!(next(&mut again), (2, 2));
}

/// npm's `eventsource`.
#[test]
fn an_event_source_hears_heartbeats_and_messages_at_rest() {
    let server = RunningServer::with(&[AT_ONCE, "session.ping_interval=300ms", "session.pong_timeout=200ms"]);
    let source = Script::start("event_source.mjs", &[&server.public.to_string(), "news"]);
    source.await_object("hello", 1);
    let (mut beside, _) = follow(&server, "news");
    await_rest(&server, 2);
    for number in 1..=3_u16 {
        for _ in 0..3 {
            assert_eq!(beside.block().as_deref(), Some(":"));
        }
        server.admin.publish("news", number);
        assert_eq!(next(&mut beside), (number.into(), number.into()));
        assert_eq!(source.await_value("message", number.into())["data"], number);
    }
    assert_eq!((source.count("hello"), source.count("error")), (1, 0));
    assert_eq!((at_rest(&server), woken(&server)), (2.0, 0.0));
}
