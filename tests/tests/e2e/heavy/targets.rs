//! The load generator against other servers: several from npm, and Encke treated as a plain WebSocket server.

use encke_tests::loadgen::LoadgenReport;
use encke_tests::waiting::heavy_test_lock;
use encke_tests::{RunningServer, Script};

/// How long the npm servers wait for a pong after their ping.
const PING_TIMEOUT_MS: &str = "1000";
/// How long Socket.IO keeps the session of a lost connection.
const WINDOW_MS: &str = "3000";
/// How long Faye holds a poll.
const HOLD_MS: &str = "1000";

/// Servers from npm.
struct NpmServers {
    _script: Script,
    socketio: String,
    plain: String,
    faye: String,
}

impl NpmServers {
    #[track_caller]
    fn start() -> Self {
        let script = Script::start("servers.mjs", &["500", PING_TIMEOUT_MS, WINDOW_MS, HOLD_MS]);
        let [socketio, plain, faye] = ["socketio", "plain", "faye"].map(|name| script.await_value(name, 1));
        Self {
            _script: script,
            socketio: format!("ws://127.0.0.1:{socketio}/socket.io/"),
            plain: format!("ws://127.0.0.1:{plain}/"),
            faye: format!("http://127.0.0.1:{faye}/bayeux"),
        }
    }
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
fn hold_works_with_socketio_and_plain_servers() {
    let _lock = heavy_test_lock();
    let servers = NpmServers::start();
    for (url, target) in [(&servers.socketio, "socketio"), (&servers.plain, "plain")] {
        let report = run(url, "hold", &format!("--target {target} --duration 2500ms --ping-every 500ms"));
        report.assert(&[("unexpected_closes", 0.0)]);
        assert!(report.number("pings") >= 100.0, "{report:?}");
        assert!(report.number("pongs") >= 150.0, "{report:?}");
    }
}

#[test]
fn socketio_and_plain_servers_close_only_mute_and_late_clients() {
    let _lock = heavy_test_lock();
    let servers = NpmServers::start();
    // Set a timeout below the plain server's, because a ping may be read late on a busy machine. Socket.IO
    // announces its timeout.
    for (url, options) in
        [(&servers.socketio, "--target socketio"), (&servers.plain, "--target plain --pong-timeout 800ms")]
    {
        let mute = run(url, "mute", &format!("{options} --duration 20s --share 0.5"));
        mute.assert(&[("closed", 25.0), ("unexpected_closes", 0.0)]);
        let late = run(url, "late", &format!("{options} --duration 4s --margin 400ms"));
        late.assert(&[("closed", 25.0), ("closed_in_time", 0.0), ("forgiven", 0.0)]);
        if *url == servers.plain {
            mute.assert_none_early();
            late.assert_none_early();
        }
    }
}

#[test]
fn socketio_sessions_are_recovered_only_within_the_window() {
    let _lock = heavy_test_lock();
    let servers = NpmServers::start();
    let report = run(&servers.socketio, "storm", "--target socketio --duration 1s");
    report.assert(&[("dropped", 50.0), ("resumed", 50.0)]);
    let options = "--target socketio --duration 1s --reconnect-window 3s --margin 1s";
    let report = run(&servers.socketio, "vanish", options);
    report.assert(&[("resumed", 25.0), ("early", 0.0), ("refused", 25.0), ("overdue", 0.0)]);
}

#[test]
fn faye_holds_polls_and_delivers_everything_once() {
    let _lock = heavy_test_lock();
    let servers = NpmServers::start();
    for url in [servers.faye.clone(), servers.faye.replace("http:", "ws:")] {
        let report = run(&url, "hold", "--target bayeux --duration 3500ms");
        report.assert(&[("unexpected_closes", 0.0), ("holds_early", 0.0)]);
        assert!(report.number("pings") >= 100.0, "{report:?}");
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
    let server = RunningServer::with(&["session.ping_interval=1s", "session.pong_timeout=1s"]);
    let url = format!("ws://{}/ws", server.public);
    let report = run(&url, "hold", "--target plain --duration 3s");
    report.assert(&[("unexpected_closes", 0.0)]);
    assert!(report.number("pings") >= 50.0, "{report:?}");
    // Loadgen may pause for more than a second on a busy machine, so the ping interval is far longer than its
    // own.
    let patient = RunningServer::with(&["session.ping_interval=4s", "session.pong_timeout=2s"]);
    let patient_url = format!("ws://{}/ws", patient.public);
    let report = run(&patient_url, "hold", "--target plain --duration 6s --ping-every 300ms");
    report.assert(&[("unexpected_closes", 0.0), ("pings", 0.0)]);
    assert!(report.number("pongs") >= 200.0, "clients that send are not pinged: {report:?}");
    let report = run(&url, "mute", "--target plain --pong-timeout 800ms --duration 20s");
    report.assert(&[("closed", 50.0)]);
    report.assert_none_early();
}

#[test]
fn event_streams_of_encke_are_held_and_resumed() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["session.ping_interval=1s", "session.pong_timeout=1s"]);
    let url = format!("http://{}/events?channels=news", server.public);
    let report = run(&url, "hold", "--target sse --duration 3s");
    report.assert(&[("unexpected_closes", 0.0)]);
    assert!(report.number("pings") >= 50.0, "heartbeat comments: {report:?}");
    let report = run(&url, "storm", "--target sse --duration 500ms");
    report.assert(&[("dropped", 50.0), ("resumed", 50.0)]);
    // A client that receives no hello cannot tell whether its session was resumed, so check the server's
    // metrics.
    let metrics = server.admin.metrics();
    assert_eq!(metrics.events("resumed", "reconnect") + metrics.events("resumed", "take_over"), 50.0);
}
