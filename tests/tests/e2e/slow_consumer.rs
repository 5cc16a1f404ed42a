use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

use encke_tests::raw::{Dial, PING, RawClient, TEXT, masked};
use encke_tests::waiting::{LATE, TIMEOUT, let_pass, until};
use encke_tests::{Hello, RunningServer};

const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
const A_MEBIBYTE: u64 = 1 << 20;
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
    client.ask_upgrade("");
    client.await_upgrade();
    let hello = client.hello();
    (client, hello)
}

/// Asks without end and reads nothing. Returns when the session has lost this connection.
fn ask_without_reading(server: &RunningServer, client: &mut RawClient, hello: &Hello) {
    send_without_reading(server, client, hello, &masked(TEXT, br#"{"id":1,"ack":{"seq":0}}"#));
}

/// Sends the frame without end and reads nothing. Returns when the session has lost this connection.
fn send_without_reading(server: &RunningServer, client: &mut RawClient, hello: &Hello, frame: &[u8]) {
    let frames = frame.repeat(1000);
    let short = Some(Duration::from_millis(50));
    client.stream().set_write_timeout(short).expect("a socket takes a timeout");
    let until = Instant::now() + TIMEOUT;
    let mut rest: &[u8] = &frames;
    while server.admin.phase(&hello.session).as_deref() == Some("attached") {
        assert!(Instant::now() < until, "it is never given up");
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
fn a_client_that_does_not_read_is_given_up() {
    let server = server();
    let others: Vec<_> = (0..3).map(|_| server.client().into_background()).collect();
    // Once before measuring, so that what the server allocates once is there.
    let (mut first, hello) = connect(&server);
    ask_without_reading(&server, &mut first, &hello);
    drop(first);

    let before = server.resident_bytes();
    let (mut client, hello) = connect(&server);
    let from = Instant::now();
    ask_without_reading(&server, &mut client, &hello);
    assert!(from.elapsed() >= WRITE_TIMEOUT, "given up after {:?}", from.elapsed());
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < A_MEBIBYTE, "grown by {grown} bytes");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "slow_consumer")]);
    assert_eq!(server.admin.metrics().events("suspended", "slow_consumer"), 2.0);

    for other in &others {
        other.await_more_pings(1);
        assert!(!other.has_ended());
    }
    let again = server.resume(&hello.resume);
    assert!(again.hello.recovered, "it may come back");
    server.assert_unharmed();
}

#[test]
fn a_client_that_pings_and_does_not_read_the_pongs_is_given_up_too() {
    let server = server();
    let (mut client, hello) = connect(&server);
    let from = Instant::now();
    send_without_reading(&server, &mut client, &hello, &masked(PING, &[0; 125]));
    assert!(from.elapsed() >= WRITE_TIMEOUT, "given up after {:?}", from.elapsed());
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "slow_consumer")]);
    server.assert_unharmed();
}

#[test]
fn many_of_them_cost_no_more_than_their_buffers() {
    const CLIENTS: usize = 8;
    /// `limits.send_buffer`, and what a connection and its session need.
    const EACH: u64 = 64 * 1024 + 16 * 1024;
    let server = server();
    let (mut first, hello) = connect(&server);
    ask_without_reading(&server, &mut first, &hello);
    let before = server.resident_bytes();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let (mut client, hello) = connect(&server);
                ask_without_reading(&server, &mut client, &hello);
            });
        }
    });
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < A_MEBIBYTE + EACH * CLIENTS as u64, "grown by {grown} bytes");
    assert_eq!(server.admin.metrics().events("suspended", "slow_consumer"), 1.0 + CLIENTS as f64);
}

#[test]
fn a_client_that_reads_slowly_is_not() {
    /// Long beside a pause: a client that waits for its turn has made progress by then.
    const WRITE_TIMEOUT: Duration = Duration::from_secs(4);
    const PAUSE: Duration = Duration::from_secs(1);
    // No rate, which would have the server read more slowly than this client does; no heartbeat, which it does not answer.
    let server = RunningServer::with(&[
        &format!("session.write_timeout={}s", WRITE_TIMEOUT.as_secs()),
        "session.ping_interval=5m",
        "limits.frames_per_second=0",
    ]);
    let (mut client, hello) = connect(&server);
    let sender = client.stream().try_clone().expect("a socket can be cloned");
    let asked = 20_000;
    let writing = std::thread::spawn(move || {
        let mut sender = sender;
        for _ in 0..asked / 1000 {
            let commands = masked(TEXT, br#"{"id":1,"ack":{"seq":0}}"#).repeat(1000);
            sender.write_all(&commands).expect("the server reads, though slowly");
        }
    });
    let from = Instant::now();
    for replies in 1..=asked {
        client.frame_of(TEXT);
        if replies % 2_000 == 0 {
            let_pass(PAUSE);
        }
    }
    assert!(from.elapsed() > WRITE_TIMEOUT, "it was not slow: {:?}", from.elapsed());
    writing.join().expect("it could write everything");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn one_that_is_kicked_meanwhile_is_let_go() {
    let server = RunningServer::with(&["session.close_timeout=500ms"]);
    // Before anyone has come: what closes a little later must not be counted.
    let open = server.open_descriptors();
    let (mut client, hello) = connect(&server);
    let short = Some(Duration::from_millis(200));
    client.stream().set_write_timeout(short).expect("a socket takes a timeout");
    let commands = masked(TEXT, br#"{"id":1,"ack":{"seq":0}}"#).repeat(1000);
    // Until the server reads no more, since it cannot write.
    while client.try_send(&commands).is_ok() {}
    assert_eq!(server.admin.kick(&hello.session).status, 204);
    server.await_gone(&hello.session);
    let from = Instant::now();
    until("its descriptor is back", || server.open_descriptors() <= open);
    assert!(from.elapsed() < Duration::from_millis(500) + LATE, "{:?}", from.elapsed());
}

#[test]
fn a_subscriber_that_does_not_read_costs_others_nothing_and_the_server_next_to_nothing() {
    /// Of 60 kB: 50 MB.
    const MESSAGES: u64 = 840;
    const WARM_UP: u64 = 20;
    let server = RunningServer::with(&[
        "session.write_timeout=3s",
        // The client looks at its connection, and comes back, when all is published, however long that takes.
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
    // Each is published when all others have the one before: the log is too small to wait for anyone.
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
    assert!(client.line().contains(r#""offset":20"#));
    let mut most = before;
    for offset in WARM_UP + 1..=MESSAGES {
        publish(offset);
        most = most.max(server.resident_bytes());
    }
    let grown = most - before;
    println!("grown by {grown} bytes from {before}");
    assert!(grown < A_MEBIBYTE, "grown by {grown} bytes");

    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "slow_consumer")]);
    assert_eq!(client.close_code(), SLOW_CONSUMER);
    let (mut client, again) = RawClient::greeted(server.public, &format!("resume={}&seq=0", hello.resume));
    assert!(again.recovered);
    let line = client.line();
    assert!(line.starts_with(r#"{"gap":{"seq":"#), "{line}");
    loop {
        // What follows the gaps is the log, to its end.
        let line = client.line();
        if line.contains(&format!(r#","offset":{MESSAGES},"#)) {
            break;
        }
    }
    publish(MESSAGES + 1);
    assert!(client.line().contains(&format!(r#","offset":{},"#, MESSAGES + 1)));
    server.assert_unharmed();
}
