//! The load generator against other servers: several from npm, and Encke treated as a plain WebSocket server.

use encke_tests::loadgen::LoadgenReport;
use encke_tests::waiting::heavy_test_lock;
use encke_tests::{RunningServer, Script};

/// How long the npm servers wait for a pong after their ping.
const PING_TIMEOUT_MS: &str = "3000";
/// How long Faye holds a poll.
const HOLD_MS: &str = "1000";

/// Starts servers from npm. Returns the URLs of one that speaks plain WebSocket, and of Faye's.
#[track_caller]
fn npm_servers() -> (Script, String, String) {
    let script = Script::start("servers.mjs", &["500", PING_TIMEOUT_MS, HOLD_MS]);
    let [plain, faye] = ["plain", "faye"].map(|name| script.await_value(name, 1));
    (script, format!("ws://127.0.0.1:{plain}/"), format!("http://127.0.0.1:{faye}/bayeux"))
}

/// Runs a scenario with fifty connections and these options, and asserts that all connections are
/// established.
#[track_caller]
fn run(url: &str, scenario: &str, words: &str) -> LoadgenReport {
    let words = format!("--connections 50 --rate 500 {words}");
    let report = LoadgenReport::run_at(url, scenario, &words.split(' ').collect::<Vec<_>>());
    report.assert(&[("connected", 50.0), ("errors", 0.0)]);
    report
}

#[test]
fn a_plain_server_closes_only_mute_clients() {
    let _lock = heavy_test_lock();
    let (_script, plain, _) = npm_servers();
    let report = run(&plain, "hold", "--target plain --duration 2500ms --ping-every 500ms");
    report.assert(&[("unexpected_closes", 0.0)]);
    assert!(report.number("pings") >= 50.0, "{report:?}");
    assert!(report.number("pongs") >= 150.0, "{report:?}");
    // Set a timeout below the server's, because a ping may be read late on a busy machine.
    let report = run(&plain, "mute", "--target plain --pong-timeout 2800ms --duration 20s --share 0.5");
    report.assert(&[("closed", 25.0), ("unexpected_closes", 0.0)]);
    report.assert_none_early();
}

#[test]
fn faye_holds_polls_and_delivers_everything_once() {
    let _lock = heavy_test_lock();
    let (_script, _, faye) = npm_servers();
    for url in [faye.clone(), faye.replace("http:", "ws:")] {
        let report = run(&url, "hold", "--target bayeux --duration 3500ms");
        report.assert(&[("unexpected_closes", 0.0), ("holds_early", 0.0)]);
        assert!(report.number("pings") >= 50.0, "{report:?}");
        assert_eq!(report.number("/hold_lateness_ms/count"), report.number("pings"), "{report:?}");
        let report = run(&url, "fanout", "--target bayeux --messages 50 --publish-rate 50");
        report.assert(&[("published", 50.0), ("received", 2500.0), ("duplicated", 0.0), ("corrupted", 0.0)]);
        let report = run(&url, "storm", "--target bayeux --duration 500ms");
        report.assert(&[("dropped", 50.0), ("resumed", 50.0)]);
    }
}

#[test]
fn encke_works_as_a_plain_websocket_server() {
    let _lock = heavy_test_lock();
    // Loadgen may pause for more than a second on a busy machine, so the ping interval is far longer than its
    // own.
    let server = RunningServer::with(&["session.ping_interval=4s", "session.pong_timeout=2s"]);
    let url = format!("ws://{}/ws", server.public);
    let report = run(&url, "hold", "--target plain --duration 5s --ping-every 300ms");
    report.assert(&[("unexpected_closes", 0.0), ("pings", 0.0)]);
    assert!(report.number("pongs") >= 200.0, "clients that send are not pinged: {report:?}");
}
