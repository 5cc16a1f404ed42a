use encke_tests::RunningServer;
use encke_tests::loadgen::LoadgenReport;
use encke_tests::waiting::{heavy_test_lock, until};

/// URL schemes of the two Bayeux transports: long-polling and WebSocket.
const SCHEMES: [&str; 2] = ["http", "ws"];

#[track_caller]
fn run(server: &RunningServer, scheme: &str, scenario: &str, words: &str) -> LoadgenReport {
    let url = format!("{scheme}://{}/bayeux", server.public);
    let words = format!("--target bayeux {words}");
    LoadgenReport::run_at(&url, scenario, &words.split(' ').collect::<Vec<_>>())
}

#[test]
fn no_connect_is_answered_early() {
    let _lock = heavy_test_lock();
    for scheme in SCHEMES {
        let server = RunningServer::with(&["session.poll_hold=1s"]);
        for ack in ["", " --ext-ack"] {
            let words = format!("--connections 200 --rate 200 --duration 4s{ack}");
            let report = run(&server, scheme, "hold", &words);
            report.assert(&[
                ("connected", 200.0),
                ("errors", 0.0),
                ("unexpected_closes", 0.0),
                ("holds_early", 0.0),
            ]);
            assert!(report.number("pings") >= 500.0, "{report:?}");
            assert_eq!(report.number("/hold_lateness_ms/count"), report.number("pings"), "{report:?}");
        }
    }
}

#[test]
fn with_acknowledgements_a_disconnect_neither_loses_nor_duplicates() {
    let _lock = heavy_test_lock();
    for scheme in SCHEMES {
        let server = RunningServer::with(&[]);
        let words = "--ext-ack --connections 100 --rate 500 --messages 100 --publish-rate 50 --cut-after 1s";
        run(&server, scheme, "fanout", words).assert(&[
            ("errors", 0.0),
            ("published", 100.0),
            ("received", 10_000.0),
            ("duplicated", 0.0),
            ("misordered", 0.0),
            ("corrupted", 0.0),
            ("unexpected_closes", 0.0),
            ("dropped", 100.0),
            ("resumed", 100.0),
        ]);
    }
}

#[test]
fn without_acknowledgements_nothing_is_duplicated() {
    let _lock = heavy_test_lock();
    for scheme in SCHEMES {
        let server = RunningServer::with(&[]);
        let words = "--connections 100 --rate 500 --messages 100 --publish-rate 50";
        run(&server, scheme, "fanout", words).assert(&[
            ("received", 10_000.0),
            ("lost", 0.0),
            ("duplicated", 0.0),
        ]);
        let cut = run(&server, scheme, "fanout", &format!("{words} --cut-after 1s --grace 2s"));
        cut.assert(&[
            ("errors", 0.0),
            ("resumed", 100.0),
            ("duplicated", 0.0),
            ("misordered", 0.0),
            ("corrupted", 0.0),
        ]);
    }
}

#[test]
fn sessions_expire_at_the_end_of_the_reconnect_window() {
    let _lock = heavy_test_lock();
    for scheme in SCHEMES {
        let server = RunningServer::with(&["session.reconnect_window=3s", "session.poll_gap=1s"]);
        let window = "--reconnect-window 3s --margin 700ms";
        let words = format!("--connections 100 --rate 400 --duration 300ms {window}");
        run(&server, scheme, "vanish", &words).assert(&[
            ("errors", 0.0),
            ("killed", 100.0),
            ("early", 0.0),
            ("refused", 50.0),
            ("overdue", 0.0),
        ]);
        let load = "--ext-ack --connections 50 --rate 500 --messages 60 --publish-rate 20 --grace 3s";
        let report =
            run(&server, scheme, "resume", &format!("{load} --cuts 3 --away 500ms --outside 0.2 {window}"));
        report.assert(&[
            ("errors", 0.0),
            ("received", 40.0 * 60.0),
            ("duplicated", 0.0),
            ("misordered", 0.0),
            ("early", 0.0),
            ("refused", 10.0),
            ("overdue", 0.0),
        ]);
    }
}

#[test]
fn clients_end_their_sessions_with_a_disconnect() {
    let _lock = heavy_test_lock();
    for scheme in SCHEMES {
        let server = RunningServer::with(&[]);
        let report = run(&server, scheme, "churn", "--rate 200 --duration 2s --lifetime exp:500ms");
        report.assert(&[("errors", 0.0), ("unexpected_closes", 0.0)]);
        assert!(report.number("left") > 0.0, "{report:?}");
        // When the run ended, some clients may have been disconnected before they received the reply.
        until("all clients that left have closed their sessions", || {
            server.admin.metrics().events("closed", "client") >= report.number("left")
        });
    }
}
