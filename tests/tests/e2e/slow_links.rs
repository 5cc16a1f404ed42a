//! Slow links and cut links: a client that still receives data is kept, and a client that was cut off learns
//! the reason as soon as its link is restored.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use encke_tests::network::NetworkLink;
use encke_tests::waiting::MAX_LATENESS;
use encke_tests::{Client, EventStream, Launch, RunningServer, Script};
use serde_json::json;

/// Size of each message of a burst, in bytes.
const MESSAGE_BYTES: usize = 50_000;
const BURST: u64 = 3;

/// Rate in bytes per second, at which the burst takes eight seconds.
const SLOW_RATE: u32 = 19_000;

fn launch(link: &NetworkLink) -> Launch {
    Launch::listening_on(&SocketAddr::new(link.near_address(), 0).to_string())
        .argument("--insecure")
        // This interval is long enough for a client that a busy machine does not schedule for a while.
        .set("session.ping_interval=4s")
        .set("session.pong_timeout=3s")
        .set("session.write_timeout=3s")
}

fn publish_burst(server: &RunningServer) {
    for _ in 0..BURST {
        server.admin.publish("news", "x".repeat(MESSAGE_BYTES));
    }
}

/// The burst takes longer than the pong and write timeouts, and each ping is queued behind part of it.
#[test]
fn client_that_reads_on_a_slow_link_stays_connected() {
    let link = NetworkLink::new();
    let server = launch(&link).start();
    let mut client = Client::over(link.connect(server.public), "");
    client.subscribe("news");
    link.limit_rate(SLOW_RATE);
    publish_burst(&server);
    (1..=BURST).for_each(|offset| assert_eq!(client.object()["message"]["offset"], offset));
    server.await_lifecycle(&client.hello.session, "opened connect");
}

#[test]
fn stream_that_is_read_on_a_slow_link_stays_connected() {
    let link = NetworkLink::new();
    let server = launch(&link).start();
    let mut events = EventStream::over(link.connect(server.public), "channels=news", "");
    let hello = events.hello();
    link.limit_rate(SLOW_RATE);
    publish_burst(&server);
    (1..=BURST).for_each(|offset| assert_eq!(events.object().1["message"]["offset"], offset));
    server.await_lifecycle(&hello.session, "opened connect");
}

#[test]
fn client_below_the_minimum_rate_is_disconnected_and_misses_nothing() {
    let link = NetworkLink::new();
    let server = launch(&link).set("limits.slowest_reader=24KiB").set("session.close_timeout=200ms").start();
    let mut socket = Client::over(link.connect(server.public), "");
    socket.subscribe("news");
    let mut events = EventStream::over(link.connect(server.public), "channels=news", "");
    let hello = events.hello();
    link.limit_rate(16_000);
    publish_burst(&server);
    for session in [&socket.hello.session, &hello.session] {
        server.await_lifecycle(session, "opened connect, suspended slow_consumer");
    }
    link.limit_rate(10_000_000);
    let mut again =
        Client::over(link.connect(server.public), &format!("resume={}&seq=0", socket.hello.resume));
    let id = format!("Last-Event-ID: {}:0\r\n", hello.resume);
    let mut events = EventStream::over(link.connect(server.public), "channels=news", &id);
    assert!(again.hello.recovered && events.hello().recovered);
    for offset in 1..=BURST {
        assert_eq!(again.object()["message"]["offset"], offset);
        assert_eq!(events.object().1["message"]["offset"], offset);
    }
}

/// Neither client has a timeout: if the server's kernel sent nothing, they would wait forever.
#[test]
fn stream_that_was_cut_off_receives_the_reason_when_its_link_is_restored() {
    let link = NetworkLink::new();
    // The timeouts are short, because the kernels acknowledge data whether or not the clients get CPU time.
    let server = launch(&link).set("session.ping_interval=1500ms").set("session.pong_timeout=1s").start();
    let address = server.public.to_string();
    let source = Script::start_beyond(&link, "event_source.mjs", &[&address, "news"]);
    let hello = source.await_value("hello", 1);
    let session = hello["session"].as_str().expect("a hello has a session");
    let mut plain = EventStream::over(link.connect(server.public), "channels=news", "");
    let plain_hello = plain.hello();
    let began = Instant::now();
    link.cut();
    for session in [session, &plain_hello.session] {
        server.await_lifecycle(session, "opened connect, suspended pong_timeout");
    }
    let after = began.elapsed();
    assert!(after <= Duration::from_millis(2_500) + MAX_LATENESS, "suspended after {after:?}");
    server.admin.publish("news", 1);
    link.restore();
    let received = plain.to_end();
    let goaway =
        received.iter().find(|event| event.contains("goaway")).expect("the stream receives the reason");
    assert!(goaway.contains(r#"{"goaway":{"reason":"pong_timeout""#), "{goaway}");
    let again = source.await_value("hello", 2);
    assert_eq!((&again["recovered"], &again["session"]), (&json!(true), &hello["session"]));
    assert_eq!(source.await_value("message", 1)["data"], 1);
}
