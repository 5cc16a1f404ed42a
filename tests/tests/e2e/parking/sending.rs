use encke_tests::Script;
use encke_tests::raw::Dial;
use encke_tests::server::FREQUENT_PINGS;

use super::*;

/// Pongs do not count as activity, so they neither delay the parking nor unpark. Neither do the heartbeats of
/// event streams, whose only acknowledgement is the one from the peer's kernel. One client is npm's
/// `eventsource`.
#[test]
fn pings_and_events_are_sent_while_parked() {
    let server = RunningServer::with(&[&["parking.after=4s"][..], &FREQUENT_PINGS].concat());
    let client = server.client().into_background();
    await_parked(&server, 1);
    let source = Script::start("event_source.mjs", &[&server.public.to_string(), "news"]);
    source.await_object("hello", 1);
    let (mut events, stream) = EventStream::greeted(server.public, "channels=news");
    await_parked(&server, 3);
    for number in 1..=2_u16 {
        client.await_more_pings(1);
        assert_eq!(events.block().as_deref(), Some(":"));
        server.admin.publish("news", number);
        assert_eq!(seq_and_offset(&events.object().1), (number.into(), number.into()));
        assert_eq!(source.await_value("message", number.into())["data"], number);
    }
    assert_eq!((source.count("hello"), source.count("error")), (1, 0));
    assert_eq!((parked(&server), unparked(&server)), (3.0, 0.0));
    assert_eq!(server.admin.metrics().value("encke_connections_parked{transport=\"sse\"}"), 2.0);
    assert!(server.admin.metrics().value("encke_ping_rtt_seconds_count") >= 2.0);
    for session in [&client.hello.session, &stream.session] {
        let last_heard_ms = server.admin.session(session)["last_heard_ms"].as_f64();
        assert!(last_heard_ms.is_some_and(|ms| ms < 18_000.0), "{last_heard_ms:?}");
        server.await_lifecycle(session, "opened connect");
    }
}

#[test]
fn message_pings_are_sent_while_parked_and_message_pongs_unpark() {
    let server = RunningServer::with(&[&[PARK_AT_ONCE][..], &FREQUENT_PINGS].concat());
    let mut client = Client::connect(server.public, "heartbeat=message");
    for _ in 0..3 {
        assert_eq!(client.object()["ping"]["seq"], 0);
        client.send(r#"{"pong":{"seq":0}}"#);
    }
    await_parked(&server, 1);
    assert!(unparked(&server) >= 2.0);
}

/// The connection's task sends the output that the kernel does not accept while the connection is parked:
/// nothing is lost or duplicated, and other clients are not delayed.
#[test]
fn paused_readers_receive_everything_later() {
    const MESSAGES: u64 = 60;
    let server = RunningServer::with(&[PARK_AT_ONCE, "limits.send_buffer=4KiB"]);
    let connect = || Dial::with_receive_buffer(4096).connect(server.public);
    let mut socket = RawClient::over(connect());
    socket.greet("");
    socket.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    socket.object();
    let mut stream = EventStream::over(connect(), "channels=news", "");
    stream.hello();
    let mut poll = PollClient::over(connect());
    let hello = crate::poll::hello(&poll.get("channels=news").json());
    poll.send_get(&poll_query(&hello, 0));
    let mut quick = server.client();
    quick.subscribe("news");
    await_parked(&server, 4);
    let before = unparked(&server);
    let data = |number: u64| format!("{number} {}", "x".repeat(8_000));
    for number in 1..=MESSAGES {
        server.admin.publish("news", data(number));
        assert_eq!(seq_and_offset(&quick.object()), (number, number));
    }
    until("the connections are unparked", || unparked(&server) >= before + 3.0);
    let mut polled = Vec::new();
    while (polled.len() as u64) < MESSAGES {
        polled.extend_from_slice(poll.response().json().as_array().expect("an array"));
        poll.send_get(&poll_query(&hello, polled.len() as u64));
    }
    for (number, polled) in (1..=MESSAGES).zip(polled) {
        for object in [socket.object(), stream.object().1, polled] {
            assert_eq!(seq_and_offset(&object), (number, number));
            assert_eq!(object["message"]["data"], data(number));
        }
    }
    await_parked(&server, 4);
    server.admin.publish("news", "last");
    for object in [socket.object(), stream.object().1, poll.response().json()[0].clone()] {
        assert_eq!(seq_and_offset(&object), (MESSAGES + 1, MESSAGES + 1));
    }
}
