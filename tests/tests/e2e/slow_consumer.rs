use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

use encke_tests::raw::{Dial, PING, RawClient, TEXT, masked};
use encke_tests::waiting::{MAX_LATENESS, TIMEOUT, let_pass, until};
use encke_tests::{Hello, RunningServer};

const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
const MEBIBYTE: u64 = 1 << 20;
const SLOW_CONSUMER: u16 = 4001;

fn server() -> RunningServer {
    RunningServer::with(&[
        "session.write_timeout=1s",
        "session.ping_interval=1s",
        "session.pong_timeout=500ms",
        "session.close_timeout=500ms",
    ])
}

fn connect(server: &RunningServer) -> (RawClient, Hello) {
    let dial = Dial { receive_buffer: Some(4096), ..Dial::default() };
    let mut client = RawClient::over(dial.connect(server.public));
    client.request_upgrade("");
    client.await_upgrade();
    let hello = client.hello();
    (client, hello)
}

/// Sends commands continuously without reading, until the session has lost this connection.
fn send_commands_without_reading(server: &RunningServer, client: &mut RawClient, hello: &Hello) {
    send_without_reading(server, client, hello, &masked(TEXT, br#"{"id":1,"ack":{"seq":0}}"#));
}

/// Sends the frame continuously without reading, until the session has lost this connection.
fn send_without_reading(server: &RunningServer, client: &mut RawClient, hello: &Hello, frame: &[u8]) {
    let frames = frame.repeat(1000);
    let short = Some(Duration::from_millis(50));
    client.stream().set_write_timeout(short).expect("the socket accepts a timeout");
    let until = Instant::now() + TIMEOUT;
    let mut rest: &[u8] = &frames;
    while server.admin.phase(&hello.session).as_deref() == Some("attached") {
        assert!(Instant::now() < until, "the client is disconnected in time");
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

#[test]
fn client_that_does_not_read_is_disconnected() {
    let server = server();
    let others: Vec<_> = (0..3).map(|_| server.client().into_background()).collect();
    // Warm up before the measurement, so that one-time allocations are not counted.
    let (mut first, hello) = connect(&server);
    send_commands_without_reading(&server, &mut first, &hello);
    drop(first);

    let before = server.resident_bytes();
    let (mut client, hello) = connect(&server);
    let from = Instant::now();
    send_commands_without_reading(&server, &mut client, &hello);
    assert!(from.elapsed() >= WRITE_TIMEOUT, "disconnected after {:?}", from.elapsed());
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < MEBIBYTE, "grown by {grown} bytes");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "slow_consumer")]);
    assert_eq!(server.admin.metrics().events("suspended", "slow_consumer"), 2.0);

    for other in &others {
        other.await_more_pings(1);
        assert!(!other.has_ended());
    }
    let again = server.resume(&hello.resume);
    assert!(again.hello.recovered, "the session can be resumed");
    server.assert_healthy();
}

#[test]
fn client_that_does_not_read_its_pongs_is_disconnected() {
    let server = server();
    let (mut client, hello) = connect(&server);
    let from = Instant::now();
    send_without_reading(&server, &mut client, &hello, &masked(PING, &[0; 125]));
    assert!(from.elapsed() >= WRITE_TIMEOUT, "disconnected after {:?}", from.elapsed());
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "slow_consumer")]);
    server.assert_healthy();
}

#[test]
fn many_slow_clients_cost_no_more_than_their_buffers() {
    const CLIENTS: usize = 8;
    /// Maximum memory per client: `limits.send_buffer`, plus the memory of a connection and its session.
    const BYTES_PER_CLIENT: u64 = 64 * 1024 + 16 * 1024;
    let server = server();
    let (mut first, hello) = connect(&server);
    send_commands_without_reading(&server, &mut first, &hello);
    let before = server.resident_bytes();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let (mut client, hello) = connect(&server);
                send_commands_without_reading(&server, &mut client, &hello);
            });
        }
    });
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < MEBIBYTE + BYTES_PER_CLIENT * CLIENTS as u64, "grown by {grown} bytes");
    assert_eq!(server.admin.metrics().events("suspended", "slow_consumer"), 1.0 + CLIENTS as f64);
}

#[test]
fn client_that_reads_slowly_stays_connected() {
    /// Long compared with a pause, so that even a client that is short of CPU time makes progress within it.
    const WRITE_TIMEOUT: Duration = Duration::from_secs(4);
    const PAUSE: Duration = Duration::from_secs(1);
    // Disable the rate limit, which would make the server read more slowly than this client writes, and the
    // heartbeat, which this client does not answer.
    let server = RunningServer::with(&[
        &format!("session.write_timeout={}s", WRITE_TIMEOUT.as_secs()),
        "session.ping_interval=5m",
        "limits.frames_per_second=0",
    ]);
    let (mut client, hello) = connect(&server);
    let sender = client.stream().try_clone().expect("a socket can be cloned");
    let commands_sent = 20_000;
    let writing = std::thread::spawn(move || {
        let mut sender = sender;
        for _ in 0..commands_sent / 1000 {
            let commands = masked(TEXT, br#"{"id":1,"ack":{"seq":0}}"#).repeat(1000);
            sender.write_all(&commands).expect("the server reads, though slowly");
        }
    });
    let from = Instant::now();
    for replies in 1..=commands_sent {
        client.frame_of(TEXT);
        if replies % 2_000 == 0 {
            let_pass(PAUSE);
        }
    }
    assert!(from.elapsed() > WRITE_TIMEOUT, "the client was not slow: {:?}", from.elapsed());
    writing.join().expect("the writer does not panic");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn kicked_client_that_does_not_read_is_disconnected() {
    let server = RunningServer::with(&["session.close_timeout=500ms"]);
    // Count before any client connects. Descriptors from the startup may be closed later, hence the `<=`
    // below.
    let open = server.open_descriptors();
    let (mut client, hello) = connect(&server);
    let short = Some(Duration::from_millis(200));
    client.stream().set_write_timeout(short).expect("the socket accepts a timeout");
    let commands = masked(TEXT, br#"{"id":1,"ack":{"seq":0}}"#).repeat(1000);
    // Send until the server stops reading because it cannot write.
    while client.try_send(&commands).is_ok() {}
    assert_eq!(server.admin.kick(&hello.session).status, 204);
    server.await_removal(&hello.session);
    let from = Instant::now();
    until("its descriptor is closed", || server.open_descriptors() <= open);
    assert!(from.elapsed() < Duration::from_millis(500) + MAX_LATENESS, "{:?}", from.elapsed());
}

#[test]
fn subscriber_that_does_not_read_affects_neither_others_nor_memory() {
    /// Number of messages. Each is 60 kB long, for a total of 50 MB.
    const MESSAGES: u64 = 840;
    const WARM_UP: u64 = 20;
    let server = RunningServer::with(&[
        "session.write_timeout=3s",
        // The client reads and resumes only after everything has been published, however long that takes.
        "session.close_timeout=5m",
        "session.reconnect_window=10m",
        "channel.history_bytes=128KiB",
        "limits.commands_per_second=0",
    ]);
    let mut others = [server.client(), server.client()];
    for other in &mut others {
        other.subscribe("news");
    }
    let mut publisher = server.client();
    let data = format!("\"{}\"", "x".repeat(60_000));
    // Publishes one message and waits until all other subscribers have received it: the log is too small to
    // keep messages for slower ones.
    let mut publish = |offset: u64| {
        assert_eq!(publisher.publish("news", [&data]), offset);
        for other in &mut others {
            let object = other.object();
            let message = &object["message"];
            assert_eq!((&message["seq"], &message["offset"]), (&offset.into(), &offset.into()), "{offset}");
            if offset.is_multiple_of(100) {
                other.send(&format!(r#"{{"ack":{{"seq":{offset}}}}}"#));
            }
        }
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
    println!("grown by {grown} bytes from {before}");
    assert!(grown < MEBIBYTE, "grown by {grown} bytes");

    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "slow_consumer")]);
    assert_eq!(client.close_code(), SLOW_CONSUMER);
    let (mut client, again) = RawClient::greeted(server.public, &format!("resume={}&seq=0", hello.resume));
    assert!(again.recovered);
    let line = client.text_message();
    assert!(line.starts_with(r#"{"gap":{"seq":"#), "{line}");
    loop {
        // The gaps are followed by the rest of the log.
        let line = client.text_message();
        if line.contains(&format!(r#","offset":{MESSAGES},"#)) {
            break;
        }
    }
    publish(MESSAGES + 1);
    assert!(client.text_message().contains(&format!(r#","offset":{},"#, MESSAGES + 1)));
    server.assert_healthy();
}
