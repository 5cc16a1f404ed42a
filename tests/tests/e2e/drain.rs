use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use encke_tests::process::Signal;
use encke_tests::raw::{Dial, TEXT, masked};
use encke_tests::waiting::{MAX_LATENESS, TIMEOUT, until};
use encke_tests::{Client, Launch, RawClient, RunningServer, ServerOutput};

const DRAINING: u16 = 4002;

#[test]
fn clients_receive_a_retry_delay_and_are_closed() {
    let mut server = RunningServer::with(&["shutdown.drain=15s"]);
    let mut clients: Vec<_> = (0..10).map(|_| server.client()).collect();
    let from = Instant::now();
    server.terminate();
    let mut delays = BTreeSet::new();
    for client in &mut clients {
        let goaway = client.object()["goaway"].clone();
        assert_eq!(goaway["reason"], "draining");
        delays.insert(goaway["retry_ms"].as_u64().expect("a number"));
        assert_eq!(client.next_within(TIMEOUT), Some(ServerOutput::Close(DRAINING, "draining".into())));
        assert_eq!(client.close_code(), None);
    }
    // Two of ten delays drawn from thousands of values may coincide, but if most are equal, there is no
    // spread.
    assert!(delays.len() > 5, "{delays:?}");
    assert!(delays.last() <= Some(&60_000), "{delays:?}");
    let status = server.await_exit(TIMEOUT);
    assert_eq!(status.code(), Some(0));
    assert!(from.elapsed() < Duration::from_secs(15), "the server exits when all clients have left");
    for client in &clients {
        server.logs.await_lifecycle(&client.hello.session, &[("opened", "connect"), ("closed", "draining")]);
    }
}

#[test]
fn idle_server_exits_at_once() {
    let mut server = RunningServer::with(&["shutdown.drain=15s"]);
    let suspended = server.suspended_session();
    server.terminate();
    assert_eq!(server.await_exit(Duration::from_secs(5)).code(), Some(0));
    let events = [("opened", "connect"), ("suspended", "connection_lost"), ("closed", "draining")];
    server.logs.await_lifecycle(&suspended.session, &events);
}

#[test]
fn draining_server_is_not_ready_and_refuses_clients() {
    let server = RunningServer::with(&["shutdown.drain=15s", "session.close_timeout=15s"]);
    let before = server.admin.get("/readyz");
    assert_eq!(before.status, 200);
    // This client reads its Close frame but keeps the connection open, so the drain continues.
    let (mut stays, _) = RawClient::greeted(server.public, "");
    server.terminate();
    stays.object();
    assert_eq!(stays.close_code(), DRAINING);
    let ready = server.admin.get("/readyz");
    assert_eq!(ready.status, 503);
    assert_eq!(ready.json()["status"], "draining");
    assert_eq!(server.admin.get("/healthz").status, 200, "the server is alive");
    until("new clients are refused", || {
        TcpStream::connect(server.public).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    });
    assert_eq!(server.admin.metrics().sessions("attached"), 0.0);
}

#[test]
fn client_that_stays_does_not_prolong_the_drain() {
    let drain = Duration::from_secs(1);
    let mut server = RunningServer::with(&["shutdown.drain=1s", "session.close_timeout=30s"]);
    let (mut stays, _) = RawClient::greeted(server.public, "");
    let from = Instant::now();
    server.terminate();
    stays.object();
    assert_eq!(stays.close_code(), DRAINING);
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
    let after = from.elapsed();
    assert!(after >= drain, "the client had a second to leave: {after:?}");
    assert!(after <= drain + MAX_LATENESS, "{after:?}");
}

#[test]
fn connection_without_an_upgrade_does_not_prolong_the_drain() {
    let mut server = RunningServer::with(&["shutdown.drain=1s", "limits.handshake_timeout=60s"]);
    let mut silent = RawClient::connect(server.public);
    silent.send(b"GET /ws");
    let from = Instant::now();
    server.terminate();
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
    assert!(from.elapsed() <= Duration::from_secs(1) + MAX_LATENESS);
}

#[test]
fn client_that_does_not_read_does_not_prolong_the_drain() {
    let mut server = RunningServer::with(&["shutdown.drain=1s", "session.close_timeout=60s"]);
    let dial = Dial { receive_buffer: Some(4096), ..Dial::default() };
    let mut client = RawClient::over(dial.connect(server.public));
    client.request_upgrade("");
    client.await_upgrade();
    let short = Some(Duration::from_millis(200));
    client.stream().set_write_timeout(short).expect("the socket accepts a timeout");
    let commands = masked(TEXT, br#"{"id":1,"ack":{"seq":0}}"#).repeat(1000);
    // Send until the server stops reading because it cannot write.
    while client.try_send(&commands).is_ok() {}
    let from = Instant::now();
    server.terminate();
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
    assert!(from.elapsed() <= Duration::from_secs(1) + MAX_LATENESS, "{:?}", from.elapsed());
}

#[test]
fn sigint_starts_a_drain() {
    let mut server = RunningServer::with(&["shutdown.drain=15s"]);
    let mut client = server.client();
    server.signal(Signal::INT);
    assert_eq!(client.close_code(), Some(DRAINING));
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
}

#[test]
fn second_signal_ends_the_server_at_once() {
    let mut server = RunningServer::with(&["shutdown.drain=60s", "session.close_timeout=60s"]);
    let (mut stays, _) = RawClient::greeted(server.public, "");
    server.terminate();
    stays.object();
    assert_eq!(stays.close_code(), DRAINING);
    assert!(server.try_wait().is_none(), "the server waits for the client");
    server.terminate();
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(128 + 15));
}

#[test]
fn new_server_waits_until_the_old_one_has_drained() {
    let mut server = RunningServer::with(&[]);
    let next = Launch::listening_on(&server.public.to_string()).spawn();
    next.logs.await_line("waiting for an address");
    drop(Client::connect(server.public, ""));
    server.terminate();
    server.await_exit(TIMEOUT);
    let next = next.await_banner();
    assert_eq!(next.public, server.public);
    assert!(!next.client().hello.recovered, "the second server answers");
}

#[test]
fn waiting_server_stops_on_a_signal() {
    let server = RunningServer::with(&[]);
    let mut next = Launch::listening_on(&server.public.to_string()).spawn();
    next.logs.await_line("waiting for an address");
    next.process.signal(Signal::HUP);
    next.process.signal(Signal::INT);
    assert_eq!(next.process.await_exit(TIMEOUT).code(), Some(0));
    next.logs.await_line("stopped before serving");
}
