use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use encke_tests::process::Signal;
use encke_tests::raw::{Dial, TEXT, masked};
use encke_tests::waiting::{LATE, TIMEOUT, until};
use encke_tests::{Client, Launch, RawClient, RunningServer, Said};

const DRAINING: u16 = 4002;

#[test]
fn clients_are_told_when_to_come_back_and_closed() {
    let mut server = RunningServer::with(&["shutdown.drain=15s"]);
    let mut clients: Vec<_> = (0..10).map(|_| server.client()).collect();
    let from = Instant::now();
    server.terminate();
    let mut delays = BTreeSet::new();
    for client in &mut clients {
        let goaway = client.object()["goaway"].clone();
        assert_eq!(goaway["reason"], "draining");
        delays.insert(goaway["retry_ms"].as_u64().expect("a number"));
        assert_eq!(client.next_within(TIMEOUT), Some(Said::Close(DRAINING, "draining".into())));
        assert_eq!(client.close_code(), None);
    }
    // Ten draws from thousands: two alike may happen, all alike mean no spread.
    assert!(delays.len() > 5, "{delays:?}");
    assert!(delays.last() <= Some(&60_000), "{delays:?}");
    let status = server.await_exit(TIMEOUT);
    assert_eq!(status.code(), Some(0));
    assert!(from.elapsed() < Duration::from_secs(15), "everyone had left, and it waited on");
    for client in &clients {
        server.logs.await_lifecycle(&client.hello.session, &[("opened", "connect"), ("closed", "draining")]);
    }
}

#[test]
fn an_idle_server_ends_at_once() {
    let mut server = RunningServer::with(&["shutdown.drain=15s"]);
    let suspended = server.suspended_session();
    server.terminate();
    assert_eq!(server.await_exit(Duration::from_secs(5)).code(), Some(0));
    let events = [("opened", "connect"), ("suspended", "connection_lost"), ("closed", "draining")];
    server.logs.await_lifecycle(&suspended.session, &events);
}

#[test]
fn meanwhile_it_is_not_ready_and_takes_no_one() {
    let server = RunningServer::with(&["shutdown.drain=15s", "session.close_timeout=15s"]);
    let before = server.admin.get("/readyz");
    assert_eq!(before.status, 200);
    // It reads its Close frame and stays, so the drain goes on.
    let (mut stays, _) = RawClient::greeted(server.public, "");
    server.terminate();
    stays.object();
    assert_eq!(stays.close_code(), DRAINING);
    let ready = server.admin.get("/readyz");
    assert_eq!(ready.status, 503);
    assert_eq!(ready.json()["status"], "draining");
    assert_eq!(server.admin.get("/healthz").status, 200, "it is alive");
    until("new clients are refused", || {
        TcpStream::connect(server.public).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    });
    assert_eq!(server.admin.metrics().sessions("attached"), 0.0);
}

#[test]
fn a_client_that_stays_does_not_hold_it_longer_than_the_drain() {
    let drain = Duration::from_secs(1);
    let mut server = RunningServer::with(&["shutdown.drain=1s", "session.close_timeout=30s"]);
    let (mut stays, _) = RawClient::greeted(server.public, "");
    let from = Instant::now();
    server.terminate();
    stays.object();
    assert_eq!(stays.close_code(), DRAINING);
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
    let after = from.elapsed();
    assert!(after >= drain, "it had a second to leave: {after:?}");
    assert!(after <= drain + LATE, "{after:?}");
}

#[test]
fn neither_does_one_that_has_not_upgraded() {
    let mut server = RunningServer::with(&["shutdown.drain=1s", "limits.handshake_timeout=60s"]);
    let mut silent = RawClient::connect(server.public);
    silent.send(b"GET /ws");
    let from = Instant::now();
    server.terminate();
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
    assert!(from.elapsed() <= Duration::from_secs(1) + LATE);
}

#[test]
fn neither_does_one_that_does_not_read() {
    let mut server = RunningServer::with(&["shutdown.drain=1s", "session.close_timeout=60s"]);
    let dial = Dial { receive_buffer: Some(4096), ..Dial::default() };
    let mut deaf = RawClient::over(dial.connect(server.public));
    deaf.ask_upgrade("");
    deaf.await_upgrade();
    let short = Some(Duration::from_millis(200));
    deaf.stream().set_write_timeout(short).expect("a socket takes a timeout");
    let commands = masked(TEXT, br#"{"id":1,"ack":{"seq":0}}"#).repeat(1000);
    // Until the server reads no more, since it cannot write.
    while deaf.try_send(&commands).is_ok() {}
    let from = Instant::now();
    server.terminate();
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
    assert!(from.elapsed() <= Duration::from_secs(1) + LATE, "{:?}", from.elapsed());
}

#[test]
fn an_interrupt_is_as_good() {
    let mut server = RunningServer::with(&["shutdown.drain=15s"]);
    let mut client = server.client();
    server.signal(Signal::INT);
    assert_eq!(client.close_code(), Some(DRAINING));
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
}

#[test]
fn the_second_signal_ends_it_at_once() {
    let mut server = RunningServer::with(&["shutdown.drain=60s", "session.close_timeout=60s"]);
    let (mut stays, _) = RawClient::greeted(server.public, "");
    server.terminate();
    stays.object();
    assert_eq!(stays.close_code(), DRAINING);
    assert!(server.exited().is_none(), "it waits for the client");
    server.terminate();
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(128 + 15));
}

#[test]
fn a_start_waits_until_the_one_before_it_has_drained() {
    let mut server = RunningServer::with(&[]);
    let next = Launch::listening_on(&server.public.to_string()).spawn();
    next.logs.await_line("waiting for the address");
    drop(Client::connect(server.public, ""));
    server.terminate();
    server.await_exit(TIMEOUT);
    let next = next.await_banner();
    assert_eq!(next.public, server.public);
    assert!(!next.client().hello.recovered, "the second one serves");
}

#[test]
fn a_start_that_waits_is_easy_to_stop() {
    let server = RunningServer::with(&[]);
    let mut next = Launch::listening_on(&server.public.to_string()).spawn();
    next.logs.await_line("waiting for the address");
    next.process.signal(Signal::HUP);
    next.process.signal(Signal::INT);
    assert_eq!(next.process.await_exit(TIMEOUT).code(), Some(0));
    next.logs.await_line("stopped before it began");
}
