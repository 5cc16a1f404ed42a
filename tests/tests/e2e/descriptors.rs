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

/// Of 200 descriptors, 84 are kept, and 8 have those who are told that there is no room.
#[test]
fn a_server_that_is_full_of_clients_tells_them_and_the_operator() {
    const FULL: usize = 108;
    let server = Launch::with(&[IN_MEMORY]).after("ulimit -n 200").start();
    assert!(server.banner.contains(" 200\n"), "the limit is in force: {}", server.banner);
    let mut clients: Vec<_> = (0..FULL).map(|_| server.client()).collect();
    for _ in 0..3 * FULL {
        assert_eq!(Client::refusal(server.public, ""), OVERLOADED);
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
    assert_eq!(server.logs.count("the process has no descriptors for more"), 1, "once in a minute");
    let refused = server.logs.await_line("connection refused");
    assert!(refused.contains("LimitNOFILE"), "{refused}");

    clients.truncate(FULL - 10);
    until("places are free", || used(&server).0 == (FULL - 10) as f64);
    clients.extend((0..10).map(|_| server.client()));
    assert_eq!(Client::refusal(server.public, ""), OVERLOADED);
    drop(clients);
    until("they have left", || used(&server).0 == 0.0);
    server.assert_unharmed();
}

/// They have no place, so the limit of connections does not count them.
#[test]
fn a_crowd_that_says_nothing_leaves_some_for_the_operator_and_gives_way_to_clients() {
    let server = Launch::with(&[IN_MEMORY, SLOW]).after("ulimit -n 200").start();
    let crowd: Vec<_> = (0..300).map(|_| RawClient::connect(server.public)).collect();
    gives_way(&server, crowd);
}

#[test]
fn so_does_one_that_waits_since_before_the_start() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let crowd: Vec<_> = (0..100).map(|_| RawClient::connect(address)).collect();
    let launch = Launch::with(&[IN_MEMORY, SLOW]).after("ulimit -n 100");
    gives_way(&launch.inheriting(listener, 1, Some("public")).start(), crowd);
}

const SLOW: &str = "limits.handshake_timeout=10m";

#[track_caller]
fn gives_way(server: &RunningServer, crowd: Vec<RawClient>) {
    let said = server.logs.await_line("cannot accept connections");
    assert!(said.contains("no descriptor is left"), "{said}");
    assert_eq!(server.admin.get("/healthz").status, 200);
    assert!(server.admin.metrics().value("encke_accept_errors_total") >= 1.0);
    // It waits behind all of the crowd, which is cut to make room.
    let mut client = server.client();
    assert_eq!(client.ask(r#"{"id":1,"ack":{"seq":0}}"#)["id"], 1);
    assert!(server.admin.metrics().refusals("handshakes") >= 1.0);
    assert_eq!(server.logs.count("cannot accept connections"), 1, "once in a minute");
    drop(crowd);
    server.assert_unharmed();
}

/// More than the kernel gives it, which says no, whatever the server reckons with.
#[test]
fn where_the_kernel_refuses_the_server_survives_and_accepts_again() {
    /// A third of these fits into 64 descriptors, beside those of the server and of those who were there before.
    const CLIENTS: usize = 80;
    let server = Launch::with(&["session.ping_interval=1s", "session.pong_timeout=1s"]).start();
    let living = server.client().live();
    let limit = |descriptors| {
        let pid = Pid::from_raw(server.id().try_into().expect("a number of a process")).expect("not 0");
        let limit = Rlimit { current: Some(descriptors), maximum: Some(descriptors) };
        prlimit(Some(pid), Resource::Nofile, limit).expect("it is our own process");
    };
    limit(64);

    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            // The kernel takes connections in for the server, which answers those it has descriptors for.
            let mut client = RawClient::connect(server.public);
            client.ask_upgrade("");
            client
        })
        .collect();
    server.logs.await_line("cannot accept connections");
    // Long enough for many attempts; it has no descriptor for the admin API either.
    living.await_more_pings(2);
    assert!(!living.ended());
    assert_eq!(server.logs.count("cannot accept connections"), 1, "once, not once an attempt");

    let answered =
        |client: &mut RawClient| client.answered_within(Duration::ZERO).expect("it is not refused");
    let waiting = clients.iter_mut().filter_map(|client| (!answered(client)).then_some(())).count();
    assert!((1..CLIENTS).contains(&waiting), "{waiting} wait");
    // The first to come were the first to be accepted.
    let waiting = clients.split_off(CLIENTS - waiting);
    drop(clients);
    for mut client in waiting {
        client.await_upgrade();
        client.hello();
    }
    let metrics = eventually("there is one for the admin API", || {
        Some(server.admin.metrics()).filter(|metrics| metrics.value("encke_accept_errors_total") >= 5.0)
    });
    assert_eq!(metrics.value("process_max_fds"), 64.0);
    living.await_more_pings(1);
    assert!(!living.ended());
    server.assert_unharmed();
}
