use encke_tests::crowd::{CROWD_TIMEOUT, await_sessions, connect, require_descriptors};
use encke_tests::waiting::{eventually_within, heavy_test_lock};
use encke_tests::{Hello, Launch, RunningServer};

const CLIENTS: usize = 10_000;
/// Permitted growth of resident memory in the second round. It covers random fragmentation, a few
/// per cent on a busy machine. A leak of one kilobyte per session would exceed it.
const MAX_GROWTH: f64 = 0.1;

/// Connects all clients, disconnects them, resumes their sessions and closes them.
fn round(server: &RunningServer) {
    let first = connect(server, &vec![String::new(); CLIENTS]);
    await_sessions(server, "attached", CLIENTS);
    let sessions: Vec<Hello> = first.into_iter().map(|(_, hello)| hello).collect();
    await_sessions(server, "suspended", CLIENTS);

    let queries: Vec<_> = sessions.iter().map(|hello| format!("resume={}&seq=0", hello.resume)).collect();
    let mut second = connect(server, &queries);
    for ((_, hello), before) in second.iter().zip(&sessions) {
        assert!(hello.recovered, "{hello:?}");
        assert_eq!(hello.session, before.session);
    }
    for (client, _) in &mut second {
        client.text(r#"{"close":{}}"#);
    }
    for (client, _) in &mut second {
        assert_eq!(client.close_code(), 1000);
    }
    drop(second);
    await_sessions(server, "attached", 0);
    await_sessions(server, "suspended", 0);
}

#[test]
fn ten_thousand_clients_resume_twice() {
    let _lock = heavy_test_lock();
    require_descriptors(CLIENTS);
    let settings = [
        "session.ping_interval=10m",
        "session.reconnect_window=10m",
        "limits.handshake_timeout=60s",
        "log.level=warn",
    ];
    let server = Launch::with(&settings).start();
    // Count before the first client connects: its descriptors are closed a little later and must not be
    // included.
    let open = server.open_descriptors();
    server.assert_healthy();
    let mut resident = Vec::new();
    for number in 1..=2 {
        round(&server);
        eventually_within(CROWD_TIMEOUT, format!("round {number}: the descriptors are closed"), || {
            (server.open_descriptors() <= open).then_some(())
        });
        let metrics = server.admin.metrics();
        let opened = (number * CLIENTS + 1) as f64;
        assert_eq!(metrics.events("opened", "connect"), opened);
        assert_eq!(metrics.events("closed", "client"), opened);
        assert_eq!(metrics.events("resumed", "reconnect"), (number * CLIENTS) as f64);
        assert_eq!(metrics.connections(), 0.0);
        resident.push(server.settled_bytes());
    }
    println!("resident: {resident:?}");
    let growth = resident[1] as f64 / resident[0] as f64 - 1.0;
    assert!(growth < MAX_GROWTH, "grown by {growth:.3}: {resident:?}");
    server.assert_healthy();
}
