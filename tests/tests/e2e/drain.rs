use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use encke_tests::process::Signal;
use encke_tests::raw::{Dial, TEXT, masked};
use encke_tests::waiting::{MAX_LATENESS, TIMEOUT, until};
use encke_tests::{Launch, RawClient, RunningServer, ServerOutput};

const DRAINING: u16 = 4002;

#[test]
fn clients_receive_a_retry_delay_and_are_closed() {
    let mut server = RunningServer::with(&["shutdown.drain=15s"]);
    let suspended = server.suspended_session();
    let mut clients: Vec<_> = (0..10).map(|_| server.client()).collect();
    let from = Instant::now();
    server.signal(Signal::INT);
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
    let status = server.await_exit();
    assert_eq!(status.code(), Some(0));
    assert!(from.elapsed() < Duration::from_secs(15), "the server exits when all clients have left");
    for client in &clients {
        server.await_lifecycle(&client.hello.session, "opened connect, closed draining");
    }
    server.await_lifecycle(&suspended.session, "opened connect, suspended connection_lost, closed draining");
}

/// A second signal ends the wait for the client.
#[test]
fn draining_server_is_not_ready_and_refuses_clients() {
    let mut server = RunningServer::with(&["shutdown.drain=60s", "session.close_timeout=60s"]);
    assert_eq!(server.admin.get("/readyz").status, 200);
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
    assert!(server.try_wait().is_none(), "the server waits for the client");
    server.stop();
}

/// One client stays after its close, one never completes its request, and one does not read.
#[test]
fn clients_that_stay_do_not_prolong_the_drain() {
    let drain = Duration::from_secs(1);
    let settings = ["shutdown.drain=1s", "session.close_timeout=60s", "limits.handshake_timeout=60s"];
    let mut server = RunningServer::with(&settings);
    let (mut stays, _) = RawClient::greeted(server.public, "");
    let mut silent = RawClient::connect(server.public);
    silent.send(b"GET /ws");
    let mut unread = RawClient::over(Dial::with_receive_buffer(4096).connect(server.public));
    unread.upgrade("");
    let short = Some(Duration::from_millis(200));
    unread.stream().set_write_timeout(short).expect("the socket accepts a timeout");
    let commands = masked(TEXT, br#"{"id":1,"ack":{"seq":0}}"#).repeat(1000);
    // Send until the server stops reading because it cannot write.
    while unread.try_send(&commands).is_ok() {}
    let from = Instant::now();
    server.terminate();
    stays.object();
    assert_eq!(stays.close_code(), DRAINING);
    assert_eq!(server.await_exit().code(), Some(0));
    let after = from.elapsed();
    assert!(after >= drain, "the clients had a second to leave: {after:?}");
    assert!(after <= drain + MAX_LATENESS, "{after:?}");
}

/// The new server can be stopped while it waits.
#[test]
fn new_server_waits_until_the_old_one_has_drained() {
    let mut server = RunningServer::with(&[]);
    let [next, mut stopped] = [(); 2].map(|()| {
        let next = Launch::listening_on(&server.public.to_string()).spawn();
        let line = next.logs.await_line("the address is in use");
        let holder = format!("encke (pid {})", server.id());
        for part in [&*holder, &server.public.to_string(), "\"max_wait\":\"10s\""] {
            assert!(line.contains(part), "{part}: {line}");
        }
        next
    });
    stopped.process.signal(Signal::HUP);
    stopped.process.signal(Signal::INT);
    assert_eq!(stopped.process.await_exit().code(), Some(0));
    stopped.logs.await_line("stopped before serving");
    drop(server.client());
    next.process.signal(Signal::HUP);
    server.stop();
    let next = next.await_banner();
    next.logs.await_line("no certificate to reload");
    assert_eq!(next.public, server.public);
    assert!(!next.client().hello.recovered, "the second server answers");
}
