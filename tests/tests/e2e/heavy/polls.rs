use encke_tests::RunningServer;
use encke_tests::loadgen::LoadgenReport;
use encke_tests::waiting::{heavy_test_lock, until};

const ONCE_AND_IN_ORDER: [(&str, f64); 7] = [
    ("errors", 0.0),
    ("lost", 0.0),
    ("duplicated", 0.0),
    ("misordered", 0.0),
    ("corrupted", 0.0),
    ("misnumbered", 0.0),
    ("unexpected_closes", 0.0),
];

#[track_caller]
fn run(server: &RunningServer, scenario: &str, words: &str) -> LoadgenReport {
    let url = format!("http://{}/poll", server.public);
    let words = format!("--target poll {words}");
    LoadgenReport::run_at(&url, scenario, &words.split(' ').collect::<Vec<_>>())
}

#[test]
fn no_poll_is_answered_early() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    let report = run(&server, "hold", "--connections 200 --rate 200 --duration 4s --poll-hold 1s");
    report.assert(&[
        ("connected", 200.0),
        ("errors", 0.0),
        ("unexpected_closes", 0.0),
        ("holds_early", 0.0),
        ("/traffic/connections_max", 200.0),
    ]);
    assert!(report.number("pings") >= 600.0, "{report:?}");
    assert_eq!(report.number("/hold_lateness_ms/count"), report.number("pings"), "{report:?}");
    let metrics = server.admin.metrics();
    assert_eq!((metrics.events("opened", "connect"), metrics.events("resumed", "reconnect")), (200.0, 0.0));
}

#[test]
fn polls_deliver_each_message_once_and_in_order() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&[]);
    let words = "--connections 200 --rate 500 --messages 100 --publish-rate 50 --cut-after 1s";
    let report = run(&server, "fanout", words);
    report.assert(&ONCE_AND_IN_ORDER);
    report.assert(&[("published", 100.0), ("received", 20_000.0), ("dropped", 200.0), ("resumed", 200.0)]);
}

#[test]
fn polling_sessions_expire_at_the_end_of_the_reconnect_window() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["session.reconnect_window=3s", "session.poll_gap=1s"]);
    let words = "--connections 50 --rate 500 --messages 60 --publish-rate 20 --cuts 3 --away 500ms --outside 0.2 \
                 --margin 700ms --grace 3s";
    let report = run(&server, "resume", words);
    report.assert(&ONCE_AND_IN_ORDER);
    report.assert(&[("received", 40.0 * 60.0), ("early", 0.0), ("refused", 10.0), ("overdue", 0.0)]);
    for kill in ["rst", "fin"] {
        let words = format!("--connections 100 --rate 400 --duration 300ms --margin 700ms --kill {kill}");
        let report = run(&server, "vanish", &words);
        report.assert(&[
            ("connected", 100.0),
            ("errors", 0.0),
            ("killed", 100.0),
            ("early", 0.0),
            ("refused", 50.0),
            ("overdue", 0.0),
            ("unexpected_closes", 0.0),
        ]);
    }
}

#[test]
fn a_second_poll_takes_the_session_over() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&[]);
    let report = run(&server, "takeover", "--connections 100 --rate 400 --duration 500ms");
    report.assert(&[
        ("errors", 0.0),
        ("taken", 100.0),
        ("replaced", 100.0),
        ("still_open", 0.0),
        ("unexpected_closes", 0.0),
        ("/close_codes/409", 100.0),
    ]);
}

#[test]
fn timeouts_close_polling_sessions_on_time() {
    let _lock = heavy_test_lock();
    for (setting, code) in [("session.idle=2s", "4004"), ("session.lifetime=2s", "4006")] {
        // A single poll is held throughout: if a session ends between polls, only the next poll can report
        // that it is closed.
        let server = RunningServer::with(&[setting, "session.poll_hold=20s"]);
        let words = format!("--connections 100 --rate 400 --duration 20s --after 2s --code {code}");
        run(&server, "expire", &words).assert(&[
            ("connected", 100.0),
            ("errors", 0.0),
            ("closed", 100.0),
            ("early", 0.0),
            ("still_open", 0.0),
            ("other_closes", 0.0),
        ]);
    }
}

#[test]
fn polling_clients_connect_and_leave() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&[]);
    let report = run(&server, "churn", "--rate 200 --duration 2s --lifetime exp:500ms");
    report.assert(&[("errors", 0.0), ("unexpected_closes", 0.0)]);
    assert!(report.number("left") > 0.0, "{report:?}");
    // When the run ended, some clients may have been disconnected before they received the reply.
    until("all clients that left have closed their sessions", || {
        server.admin.metrics().events("closed", "client") >= report.number("left")
    });
}

#[test]
fn two_thousand_polling_clients_resume_at_once() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&[]);
    let report = run(&server, "storm", "--connections 2000 --rate 2000 --duration 500ms");
    report.assert(&[("dropped", 2000.0), ("resumed", 2000.0), ("errors", 0.0), ("unexpected_closes", 0.0)]);
}
