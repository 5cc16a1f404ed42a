use encke_tests::RunningServer;
use encke_tests::loadgen::LoadgenReport;
use encke_tests::waiting::heavy_test_lock;

#[test]
fn clients_that_answer_pings_stay_connected() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["session.ping_interval=1s", "session.pong_timeout=1s"]);
    let report =
        LoadgenReport::run("hold", &server, &["--connections", "200", "--rate", "400", "--duration", "3s"]);
    assert_eq!(report.number("connected"), 200.0, "{report:?}");
    assert_eq!(report.number("errors"), 0.0, "{report:?}");
    assert_eq!(report.number("unexpected_closes"), 0.0, "{report:?}");
    assert!(report.number("pings") >= 400.0, "{report:?}");
}

#[test]
fn only_mute_clients_are_closed() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["session.ping_interval=1s", "session.pong_timeout=1s"]);
    let arguments = ["--connections", "200", "--rate", "400", "--duration", "10s", "--share", "0.5"];
    let report = LoadgenReport::run("mute", &server, &arguments);
    assert_eq!(report.number("muted"), 100.0, "{report:?}");
    assert_eq!(report.number("closed"), 100.0, "{report:?}");
    assert_eq!(report.number("still_open"), 0.0, "{report:?}");
    assert_eq!(report.number("other_closes"), 0.0, "{report:?}");
    assert_eq!(report.number("unexpected_closes"), 0.0, "{report:?}");
    assert_eq!(server.admin.metrics().events("suspended", "pong_timeout"), 100.0);
}

#[test]
fn all_clients_resume_after_a_disconnect() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&[]);
    let arguments = ["--connections", "1000", "--rate", "2000", "--duration", "1s"];
    let report = LoadgenReport::run("storm", &server, &arguments);
    assert_eq!(report.number("dropped"), 1000.0, "{report:?}");
    assert_eq!(report.number("resumed"), 1000.0, "{report:?}");
    let metrics = server.admin.metrics();
    assert_eq!(metrics.events("opened", "connect"), 1000.0);
    // A client that reconnects before the server has noticed its disconnect takes over the session.
    assert_eq!(metrics.events("resumed", "reconnect") + metrics.events("resumed", "take_over"), 1000.0);
}
