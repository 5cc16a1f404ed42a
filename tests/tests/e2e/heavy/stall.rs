use std::time::Duration;

use encke_tests::RunningServer;
use encke_tests::client::BackgroundClient;
use encke_tests::waiting::{heavy_test_lock, until};

#[test]
fn a_freeze_ends_no_connection_or_session() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&[
        "session.ping_interval=3s",
        "session.pong_timeout=3s",
        "session.reconnect_window=4s",
        "session.idle=11s",
    ]);
    let clients: Vec<_> = (0..20).map(|_| server.client().into_background()).collect();
    let stalls_before = server.admin.metrics().value("encke_wheel_stalls_total");
    let suspended = server.suspended_session();

    server.freeze(Duration::from_secs(12));

    let again = server.resume(&suspended.resume);
    assert!(again.hello.recovered, "a freeze does not count against the reconnect window");
    let before: Vec<_> = clients.iter().map(BackgroundClient::pings).collect();
    until("every client gets another ping", || {
        clients.iter().zip(&before).all(|(client, before)| client.pings() > *before)
    });
    for client in &clients {
        assert!(!client.has_ended(), "{:?}", client.received());
    }
    let metrics = server.admin.metrics();
    assert!(metrics.value("encke_wheel_stalls_total") > stalls_before);
    assert_eq!(metrics.events("suspended", "pong_timeout"), 0.0);
    assert_eq!(metrics.events("closed", "idle"), 0.0);
    assert_eq!(metrics.events("expired", "reconnect_window"), 0.0);
    let stolen = server.admin.get("/api/timers").json()["stalls"]["stolen_ms"].as_f64();
    assert!(stolen.is_some_and(|stolen| stolen > 10_000.0), "{stolen:?}");
    server.assert_healthy();
}
