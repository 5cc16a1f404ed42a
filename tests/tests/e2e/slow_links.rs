//! Slow links and cut links: a client that still takes something is kept, and one that was cut off is told as soon as its link
//! is mended.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use encke_tests::network::NetworkLink;
use encke_tests::raw::Dial;
use encke_tests::waiting::{LATE, let_pass};
use encke_tests::{Client, EventStream, Launch, RunningServer, Script};
use serde_json::json;

/// Of each message of a burst.
const MESSAGE: usize = 50_000;
const BURST: u64 = 3;

/// Bytes a second: the burst takes twelve.
const SLOW: u32 = 12_000;

fn launch(link: &NetworkLink) -> Launch {
    Launch::listening_on(&SocketAddr::new(link.near_address(), 0).to_string())
        .argument("--insecure")
        // Time enough for a client that a busy machine does not serve for a while.
        .set("session.ping_interval=4s")
        .set("session.pong_timeout=3s")
        .set("session.write_timeout=3s")
}

fn publish_burst(server: &RunningServer) {
    for _ in 0..BURST {
        server.admin.publish("news", "x".repeat(MESSAGE));
    }
}

/// The burst takes far longer than a pong or a write may, and each ping stands behind some of it.
#[test]
fn a_client_that_reads_on_a_slow_link_is_kept() {
    let link = NetworkLink::new();
    let server = launch(&link).start();
    let mut client = Client::over(link.connect(server.public), "");
    client.subscribe("news");
    link.limit_rate(SLOW);
    publish_burst(&server);
    for offset in 1..=BURST {
        assert_eq!(client.object()["message"]["offset"], offset);
    }
    server.logs.await_lifecycle(&client.hello.session, &[("opened", "connect")]);
}

#[test]
fn a_stream_that_is_read_on_a_slow_link_is_kept() {
    let link = NetworkLink::new();
    let server = launch(&link).start();
    let mut events = EventStream::over(link.connect(server.public), "channels=news", "");
    let hello = events.hello();
    link.limit_rate(SLOW);
    publish_burst(&server);
    for offset in 1..=BURST {
        assert_eq!(events.object().1["message"]["offset"], offset);
    }
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn who_is_slower_than_the_slowest_reader_is_let_go_and_misses_nothing() {
    let link = NetworkLink::new();
    let server = launch(&link).set("limits.slowest_reader=24KiB").set("session.close_timeout=200ms").start();
    let mut socket = Client::over(link.connect(server.public), "");
    socket.subscribe("news");
    let mut events = EventStream::over(link.connect(server.public), "channels=news", "");
    let hello = events.hello();
    link.limit_rate(16_000);
    publish_burst(&server);
    let suspended = [("opened", "connect"), ("suspended", "slow_consumer")];
    for session in [&socket.hello.session, &hello.session] {
        server.logs.await_lifecycle(session, &suspended);
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

/// Its heartbeats wait in the kernel behind what it does not read, and nothing says that its machine is gone.
#[test]
fn a_stream_that_pauses_is_slow_and_not_dead() {
    const PAUSE: Duration = Duration::from_secs(3);
    let settings = ["session.ping_interval=500ms", "session.pong_timeout=500ms", "session.write_timeout=8s"];
    let server = RunningServer::with(&settings);
    let dial = Dial { receive_buffer: Some(4096), ..Dial::default() };
    let mut events = EventStream::over(dial.connect(server.public), "channels=news", "");
    let hello = events.hello();
    // The kernels hold all of it: no write is held.
    for _ in 0..3 {
        server.admin.publish("news", "x".repeat(4_000));
    }
    let_pass(PAUSE);
    assert_eq!(server.admin.phase(&hello.session).as_deref(), Some("attached"));
    for offset in 1..=3 {
        assert_eq!(events.object().1["message"]["offset"], offset);
    }
    server.admin.publish("news", "x".repeat(14_000));
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "slow_consumer")]);
}

/// Neither has a timeout of its own: without a word from the server's kernel they would wait for ever.
#[test]
fn a_stream_that_was_cut_off_is_told_when_its_link_is_mended() {
    let link = NetworkLink::new();
    // Their machines acknowledge, whether they are served or not.
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
        server.logs.await_lifecycle(session, &[("opened", "connect"), ("suspended", "pong_timeout")]);
    }
    let after = began.elapsed();
    assert!(after <= Duration::from_millis(2_500) + LATE, "suspended after {after:?}");
    server.admin.publish("news", 1);
    link.restore();
    let said = plain.to_end();
    let goaway = said.iter().find(|event| event.contains("goaway")).expect("it is told why");
    assert!(goaway.contains(r#"{"goaway":{"reason":"pong_timeout""#), "{goaway}");
    let again = source.await_value("hello", 2);
    assert_eq!((&again["recovered"], &again["session"]), (&json!(true), &hello["session"]));
    assert_eq!(source.await_value("message", 1)["data"], 1);
}
