use std::net::TcpListener;
use std::time::Duration;

use encke_tests::server::IN_MEMORY;
use encke_tests::waiting::{eventually, until};
use encke_tests::{Client, Launch, RawClient, RunningServer};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

const OVERLOADED: u16 = 4005;

fn used(server: &RunningServer) -> (f64, f64) {
    let metrics = server.admin.metrics();
    let limit = |kind: &str| metrics.value(&format!("encke_limit_{kind}{{limit=\"descriptors\"}}"));
    (limit("used"), limit("max"))
}

/// With a limit of 200 descriptors, the server reserves 84, plus 8 for connections that it is refusing.
#[test]
fn full_server_refuses_clients_and_warns_the_operator() {
    const FULL: usize = 108;
    let server = Launch::with(&[IN_MEMORY]).run_first("ulimit -n 200").start();
    assert!(server.banner.contains(" 200\n"), "the limit is in force: {}", server.banner);
    let mut clients: Vec<_> = (0..FULL).map(|_| server.client()).collect();
    for _ in 0..3 * FULL {
        assert_eq!(Client::refusal_code(server.public, ""), OVERLOADED);
    }
    assert_eq!(server.admin.get("/healthz").status, 200);
    assert_eq!(server.admin.get("/readyz").status, 200);
    assert_eq!(server.admin.get("/api/sessions").status, 200);
    assert_eq!(used(&server), (FULL as f64, FULL as f64));
    let metrics = server.admin.metrics();
    assert_eq!(metrics.value("process_max_fds"), 200.0);
    if metrics.text().contains("\nprocess_open_fds ") {
        assert!((FULL as f64..200.0).contains(&metrics.value("process_open_fds")), "{}", metrics.text());
    }
    assert_eq!(metrics.value("encke_accept_errors_total"), 0.0);
    assert_eq!(server.logs.count("refusing clients: file descriptors exhausted"), 1, "logged once a minute");
    let refused = server.logs.await_line("connection refused");
    assert!(refused.contains("LimitNOFILE"), "{refused}");

    clients.truncate(FULL - 10);
    until("slots are free", || used(&server).0 == (FULL - 10) as f64);
    clients.extend((0..10).map(|_| server.client()));
    assert_eq!(Client::refusal_code(server.public, ""), OVERLOADED);
    drop(clients);
    until("all clients have left", || used(&server).0 == 0.0);
    server.assert_healthy();
}

/// Connections with a handshake in progress hold no slot, so the connection limit does not count them.
#[test]
fn silent_crowd_is_disconnected_to_make_room_for_clients() {
    let server = Launch::with(&[IN_MEMORY, LONG_HANDSHAKE]).run_first("ulimit -n 200").start();
    let crowd: Vec<_> = (0..300).map(|_| RawClient::connect(server.public)).collect();
    assert_crowd_makes_room(&server, crowd);
}

#[test]
fn silent_crowd_from_before_the_start_is_disconnected_to_make_room() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("the listener is bound");
    let crowd: Vec<_> = (0..100).map(|_| RawClient::connect(address)).collect();
    let launch = Launch::with(&[IN_MEMORY, LONG_HANDSHAKE]).run_first("ulimit -n 100");
    assert_crowd_makes_room(&launch.inheriting(listener, 1, Some("public")).start(), crowd);
}

const LONG_HANDSHAKE: &str = "limits.handshake_timeout=10m";

#[track_caller]
fn assert_crowd_makes_room(server: &RunningServer, crowd: Vec<RawClient>) {
    let line = server.logs.await_line("cannot accept connections");
    assert!(line.contains("no file descriptor is available"), "{line}");
    assert_eq!(server.admin.get("/healthz").status, 200);
    assert!(server.admin.metrics().value("encke_accept_errors_total") >= 1.0);
    // The client is queued behind the whole crowd, which is disconnected to make room for it.
    let mut client = server.client();
    assert_eq!(client.request(r#"{"id":1,"ack":{"seq":0}}"#)["id"], 1);
    assert!(server.admin.metrics().refusals("handshakes") >= 1.0);
    assert_eq!(server.logs.count("cannot accept connections"), 1, "logged once a minute");
    drop(crowd);
    server.assert_healthy();
}

/// The kernel refuses to open more descriptors although the server expects them to be available.
#[test]
fn server_survives_refusals_of_the_kernel_and_accepts_again() {
    /// Number of clients. A third of them fit into 64 descriptors, together with the server's own descriptors
    /// and the client that is already connected.
    const CLIENTS: usize = 80;
    let server = Launch::with(&["session.ping_interval=1s", "session.pong_timeout=1s"]).start();
    let connected = server.client().into_background();
    let limit = |descriptors| {
        let pid = Pid::from_raw(server.id().try_into().expect("a process id")).expect("not 0");
        let limit = Rlimit { current: Some(descriptors), maximum: Some(descriptors) };
        prlimit(Some(pid), Resource::Nofile, limit).expect("the process is a child of the test");
    };
    limit(64);

    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            // The kernel accepts all connections on behalf of the server. The server responds only on those
            // for which it has descriptors.
            let mut client = RawClient::connect(server.public);
            client.request_upgrade("");
            client
        })
        .collect();
    server.logs.await_line("cannot accept connections");
    // Wait for many attempts to accept. No descriptor is left for the admin API either.
    connected.await_more_pings(2);
    assert!(!connected.has_ended());
    assert_eq!(server.logs.count("cannot accept connections"), 1, "logged once, not for every attempt");

    let answered = |client: &mut RawClient| {
        client.has_received_within(Duration::ZERO).expect("the client is not refused")
    };
    let waiting = clients.iter_mut().filter_map(|client| (!answered(client)).then_some(())).count();
    assert!((1..CLIENTS).contains(&waiting), "{waiting} wait");
    // The oldest connections were accepted first.
    let waiting = clients.split_off(CLIENTS - waiting);
    drop(clients);
    for mut client in waiting {
        client.await_upgrade();
        client.hello();
    }
    let metrics = eventually("a descriptor is free for the admin API", || {
        Some(server.admin.metrics()).filter(|metrics| metrics.value("encke_accept_errors_total") >= 5.0)
    });
    assert_eq!(metrics.value("process_max_fds"), 64.0);
    connected.await_more_pings(1);
    assert!(!connected.has_ended());
    server.assert_healthy();
}
