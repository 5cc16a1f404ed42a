use std::time::Duration;

use encke_tests::{Launch, RawClient};

/// More than fit into 64 descriptors, a dozen of which the server needs itself.
const CLIENTS: usize = 80;
const LEAVE: usize = 40;

#[test]
fn the_server_survives_and_accepts_again() {
    let server =
        Launch::with(&["session.ping_interval=1s", "session.pong_timeout=1s"]).after("ulimit -n 64").start();
    assert!(server.banner.contains(" 64\n"), "the limit is in force: {}", server.banner);
    let living = server.client().live();

    let clients: Vec<_> = (0..CLIENTS)
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

    let (mut attached, waiting): (Vec<_>, Vec<_>) = clients
        .into_iter()
        .map(|mut client| (client.answered_within(Duration::ZERO).expect("it is not refused"), client))
        .partition(|(answered, _)| *answered);
    assert!(attached.len() > LEAVE && !waiting.is_empty(), "{} were let in", attached.len());
    attached.truncate(attached.len() - LEAVE);
    for (_, mut client) in waiting {
        client.await_upgrade();
        client.hello();
    }
    let metrics = server.admin.metrics();
    assert!(metrics.value("encke_accept_errors_total") >= 5.0, "{}", metrics.text());
    living.await_more_pings(1);
    assert!(!living.ended());
    server.assert_unharmed();
}
