use encke_tests::port::listen;
use encke_tests::server::IN_MEMORY;
use encke_tests::waiting::until;
use encke_tests::{Client, Launch, RawClient, RunningServer};

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

/// Connections with a handshake in progress hold no slot, so the connection limit does not count them. These
/// are older than the server.
#[test]
fn silent_crowd_is_disconnected_to_make_room_for_clients() {
    let (listener, address) = listen();
    let crowd: Vec<_> = (0..100).map(|_| RawClient::connect(address)).collect();
    let launch = Launch::with(&[IN_MEMORY, "limits.handshake_timeout=10m"]).run_first("ulimit -n 100");
    let server = launch.inheriting(listener, 1, Some("public")).start();
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
