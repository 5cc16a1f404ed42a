//! The load generator on each transport.

use encke_tests::RunningServer;
use encke_tests::loadgen::LoadgenReport;
use encke_tests::waiting::{heavy_test_lock, until};

/// Endpoints of the server: URL scheme, path, and options that select the transport.
const WEBSOCKET: [&str; 3] = ["ws", "/ws", "--target encke"];
const EVENTS: [&str; 3] = ["http", "/events?channels=news", "--target sse"];
const POLLS: [&str; 3] = ["http", "/poll", "--target poll"];
const BAYEUX: [[&str; 3]; 2] = [["http", "/bayeux", "--target bayeux"], ["ws", "/bayeux", "--target bayeux"]];
const BAYEUX_WITH_ACK: [[&str; 3]; 2] =
    [["http", "/bayeux", "--target bayeux --ext-ack"], ["ws", "/bayeux", "--target bayeux --ext-ack"]];

#[track_caller]
fn run(server: &RunningServer, endpoint: [&str; 3], scenario: &str, words: &str) -> LoadgenReport {
    let [scheme, path, options] = endpoint;
    let url = format!("{scheme}://{}{path}", server.public);
    let words = format!("{options} {words}");
    let report = LoadgenReport::run_at(&url, scenario, &words.split(' ').collect::<Vec<_>>());
    report.assert(&[("errors", 0.0)]);
    report
}

#[test]
fn connections_and_polls_are_held_and_no_poll_is_answered_early() {
    let _lock = heavy_test_lock();
    let settings = ["session.poll_hold=1s", "session.ping_interval=3s", "session.pong_timeout=3s"];
    let server = RunningServer::with(&settings);
    for endpoint in [&[WEBSOCKET, EVENTS, POLLS][..], &BAYEUX, &BAYEUX_WITH_ACK].concat() {
        let hold = if endpoint == POLLS { " --poll-hold 1s" } else { "" };
        let words = format!("--connections 200 --rate 200 --duration 4s{hold}");
        let report = run(&server, endpoint, "hold", &words);
        report.assert(&[("connected", 200.0), ("unexpected_closes", 0.0)]);
        assert!(report.number("pings") >= 100.0, "{report:?}");
        if ![WEBSOCKET, EVENTS].contains(&endpoint) {
            report.assert(&[("holds_early", 0.0)]);
            assert_eq!(report.number("/hold_lateness_ms/count"), report.number("pings"), "{report:?}");
        }
        if endpoint == POLLS {
            report.assert(&[("/traffic/connections_max", 200.0)]);
        }
    }
}

/// Without acknowledgements, a Bayeux message may be lost with its connection, but none is duplicated.
#[test]
fn a_disconnect_neither_loses_nor_duplicates() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&[]);
    let words = "--connections 100 --rate 500 --messages 100 --publish-rate 50";
    for endpoint in [&[POLLS][..], &BAYEUX_WITH_ACK, &BAYEUX].concat() {
        let report = run(&server, endpoint, "fanout", &format!("{words} --cut-after 1s --grace 2s"));
        report.assert(&[
            ("published", 100.0),
            ("duplicated", 0.0),
            ("misordered", 0.0),
            ("corrupted", 0.0),
            ("resumed", 100.0),
        ]);
        if !BAYEUX.contains(&endpoint) {
            report.assert(&[("received", 10_000.0), ("unexpected_closes", 0.0), ("dropped", 100.0)]);
        }
    }
    let uncut = run(&server, BAYEUX[0], "fanout", words);
    uncut.assert(&[("received", 10_000.0), ("lost", 0.0), ("duplicated", 0.0)]);
}

#[test]
fn clients_connect_and_end_their_sessions() {
    let _lock = heavy_test_lock();
    for endpoint in [&[WEBSOCKET, POLLS][..], &BAYEUX].concat() {
        let server = RunningServer::with(&[]);
        let report = run(&server, endpoint, "churn", "--rate 100 --duration 3s --lifetime exp:500ms");
        report.assert(&[("unexpected_closes", 0.0), ("skipped", 0.0)]);
        let [arrived, connected, left] = ["arrived", "connected", "left"].map(|name| report.number(name));
        // Expect 300 arrivals, with a tolerance of five standard deviations.
        assert!((210.0..390.0).contains(&arrived), "{report:?}");
        assert!(left <= connected && connected <= arrived && left > 0.0, "{report:?}");
        // When the run ended, some clients may have been disconnected before they received the reply.
        if endpoint != WEBSOCKET {
            until("all clients that left have closed their sessions", || {
                server.admin.metrics().events("closed", "client") >= left
            });
        }
    }
}

#[test]
fn all_clients_resume_at_once() {
    let _lock = heavy_test_lock();
    for (endpoint, clients) in [(WEBSOCKET, 1000.0), (POLLS, 1000.0), (EVENTS, 50.0)] {
        let server = RunningServer::with(&[]);
        let words = format!("--connections {clients} --rate 2000 --duration 500ms");
        let report = run(&server, endpoint, "storm", &words);
        report.assert(&[("dropped", clients), ("resumed", clients), ("unexpected_closes", 0.0)]);
        let metrics = server.admin.metrics();
        assert_eq!(metrics.events("opened", "connect"), clients);
        // A client that reconnects before the server has noticed its disconnect takes over the session. A
        // session is not suspended between polls.
        let resumed = metrics.events("resumed", "reconnect") + metrics.events("resumed", "take_over");
        assert!(resumed == clients || endpoint == POLLS, "{resumed}");
    }
}
