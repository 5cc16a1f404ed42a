use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

use encke_tests::raw::{Dial, PING, RawClient, TEXT, masked};
use encke_tests::server::FREQUENT_PINGS;
use encke_tests::waiting::{MAX_LATENESS, until};
use encke_tests::{Hello, Launch, RunningServer};

const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a client that does not read may stay connected. The write timeout begins when the buffers between
/// the client and the server are full, which takes up to half a minute on a busy machine.
const MAX_CONNECTED: Duration =
    Duration::from_secs(30).saturating_add(WRITE_TIMEOUT).saturating_add(MAX_LATENESS);
const MEBIBYTE: u64 = 1 << 20;
const SLOW_CONSUMER: u16 = 4001;

fn server() -> RunningServer {
    Launch::with(&FREQUENT_PINGS).set("session.write_timeout=1s").set("session.close_timeout=500ms").start()
}

fn connect(server: &RunningServer) -> (RawClient, Hello) {
    let mut client = RawClient::over(Dial::with_receive_buffer(4096).connect(server.public));
    let hello = client.greet("");
    (client, hello)
}

/// Sends the frame continuously without reading, until the session has lost this connection.
fn send_without_reading(server: &RunningServer, client: &mut RawClient, hello: &Hello, frame: &[u8]) {
    let frames = frame.repeat(1000);
    let short = Some(Duration::from_millis(50));
    client.stream().set_write_timeout(short).expect("the socket accepts a timeout");
    let deadline = Instant::now() + MAX_CONNECTED;
    let mut rest: &[u8] = &frames;
    while server.admin.phase(&hello.session).as_deref() == Some("attached") {
        assert!(Instant::now() < deadline, "the client is disconnected in time");
        match client.stream().write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => {}
        }
        if rest.is_empty() {
            rest = &frames;
        }
    }
}

/// The first client does not read the replies to its commands, the second one its pongs.
#[test]
fn clients_that_do_not_read_are_disconnected() {
    let server = server();
    let others: Vec<_> = (0..3).map(|_| server.client().into_background()).collect();
    let [commands, pings] = [masked(TEXT, br#"{"id":1,"ack":{"seq":0}}"#), masked(PING, &[0; 125])];
    // Warm up before the measurement, so that one-time allocations are not counted.
    let (mut first, hello) = connect(&server);
    send_without_reading(&server, &mut first, &hello, &commands);
    drop(first);

    let before = server.resident_bytes();
    for frame in [&commands, &pings] {
        let (mut client, hello) = connect(&server);
        let from = Instant::now();
        send_without_reading(&server, &mut client, &hello, frame);
        assert!(from.elapsed() >= WRITE_TIMEOUT, "disconnected after {:?}", from.elapsed());
        server.await_lifecycle(&hello.session, "opened connect, suspended slow_consumer");
        assert!(server.resume(&hello.resume).hello.recovered, "the session can be resumed");
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < MEBIBYTE, "grown by {grown} bytes");
    assert_eq!(server.admin.metrics().events("suspended", "slow_consumer"), 3.0);

    for other in &others {
        other.await_more_pings(1);
        assert!(!other.has_ended());
    }
    server.assert_healthy();
}

#[test]
fn subscriber_that_does_not_read_affects_neither_others_nor_memory() {
    /// Number of messages. Each is 60 kB long, for a total of 18 MB.
    const MESSAGES: u64 = 300;
    const WARM_UP: u64 = 20;
    let server = RunningServer::with(&[
        "session.write_timeout=3s",
        // The client reads and resumes only after everything has been published, however long that takes.
        "session.close_timeout=5m",
        "session.reconnect_window=10m",
        "channel.history_bytes=128KiB",
        "limits.commands_per_second=0",
    ]);
    let mut other = server.client();
    other.subscribe("news");
    let mut publisher = server.client();
    let data = format!("\"{}\"", "x".repeat(60_000));
    // Publishes one message and waits until the other subscriber has received it: the log is too small to keep
    // messages for slower ones.
    let mut publish = |offset: u64| {
        assert_eq!(publisher.publish("news", [&data]), offset);
        let object = other.object();
        let message = &object["message"];
        assert_eq!((&message["seq"], &message["offset"]), (&offset.into(), &offset.into()), "{offset}");
    };
    (1..=WARM_UP).for_each(&mut publish);

    let before = server.resident_bytes();
    let (mut client, hello) = connect(&server);
    client.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    assert!(client.text_message().contains(r#""offset":20"#));
    let mut most = before;
    for offset in WARM_UP + 1..=MESSAGES {
        publish(offset);
        most = most.max(server.resident_bytes());
    }
    let grown = most - before;
    assert!(grown < MEBIBYTE, "grown by {grown} bytes");

    server.await_lifecycle(&hello.session, "opened connect, suspended slow_consumer");
    assert_eq!(client.close_code(), SLOW_CONSUMER);
    let (mut client, again) = RawClient::greeted(server.public, &format!("resume={}&seq=0", hello.resume));
    assert!(again.recovered);
    let line = client.text_message();
    assert!(line.starts_with(r#"{"gap":{"seq":"#), "{line}");
    // The gap is followed by the rest of the log.
    while !client.text_message().contains(&format!(r#","offset":{MESSAGES},"#)) {}
    server.assert_healthy();
}

#[test]
fn background_thread_returns_free_memory() {
    let server = RunningServer::with(&[]);
    until("the background thread is running", || {
        server.thread_names().iter().any(|name| name == "jemalloc_bg_thd")
    });
    // The allocator is configured.
    assert_eq!(server.logs.count("free memory is returned to the kernel late"), 0);
}
