use std::process::{Command, Output};
use std::thread;

use encke_tests::loadgen::LoadgenReport;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::heavy_test_lock;
use encke_tests::{Metrics, RunningServer, binaries};
use serde_json::json;

/// Runs the attack that these options specify and asserts that the healthy session lost nothing. Calls `look`
/// with the server's metrics repeatedly during the attack.
#[track_caller]
fn attack(server: &RunningServer, words: &str, look: impl Fn(&Metrics)) -> LoadgenReport {
    attack_for("1s", server, words, look)
}

/// Like [`attack`], for this duration.
#[track_caller]
fn attack_for(duration: &str, server: &RunningServer, words: &str, look: impl Fn(&Metrics)) -> LoadgenReport {
    let arguments: Vec<&str> =
        ["--duration", duration, "--quiet-for", "300ms"].into_iter().chain(words.split(' ')).collect();
    let report = thread::scope(|scope| {
        let run = scope.spawn(|| LoadgenReport::run("abuse", server, &arguments));
        while !run.is_finished() {
            look(&server.admin.metrics());
        }
        run.join().expect("loadgen succeeds")
    });
    report.assert(&[("lost", 0.0), ("doubled", 0.0), ("cuts", 0.0), ("received", report.number("sent"))]);
    assert!(report.number("sent") > 0.0, "{report:?}");
    assert_eq!(server.admin.get("/healthz").status, 200);
    report
}

/// Asserts that a new client was admitted during this attack.
#[track_caller]
fn assert_visitor_admitted(report: &LoadgenReport, attack: &str) {
    report.assert(&[(&format!("/attacks/{attack}/visitor/admitted"), 1.0)]);
}

#[test]
fn no_attack_harms_a_concurrent_session() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&[]);
    let report = attack(&server, "--attack all --connections 20", |_| {});
    for attack in [
        "frames",
        "publishes",
        "channels",
        "suspended",
        "headers",
        "handshakes",
        "resume",
        "history",
        "tokens",
        "fragments",
        "slowread",
        "events",
    ] {
        assert_visitor_admitted(&report, attack);
        assert!(report.number(&format!("/attacks/{attack}/attacker/connections")) >= 20.0, "{report:?}");
        let history = |which| report.number(&format!("/attacks/{attack}/visitor/history_{which}"));
        assert_eq!(history("received"), history("expected"), "{attack}: {report:?}");
    }
}

#[test]
fn any_websocket_server_can_be_attacked() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&[]);
    let report = attack(&server, "--attack all --target plain --connections 20", |_| {});
    for attack in ["frames", "headers", "handshakes", "fragments"] {
        assert_visitor_admitted(&report, attack);
    }
}

#[test]
fn controls_send_nothing() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&[]);
    let report = attack(&server, "--attack none,burn", |_| {});
    for control in ["none", "burn"] {
        report.assert(&[
            (&format!("/attacks/{control}/attacker/connections"), 0.0),
            (&format!("/attacks/{control}/attacker/sent_bytes"), 0.0),
        ]);
    }
    let cpu = |control| report.number(&format!("/attacks/{control}/attacker/cpu_seconds"));
    assert!(cpu("burn") > cpu("none"), "{report:?}");
}

#[test]
fn attached_sessions_never_exceed_max_connections() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["limits.max_connections=10"]);
    let arguments = "--attack resume --connections 20 --connect-timeout 2s";
    // A replaced connection is counted until it is closed.
    let look = |metrics: &Metrics| assert!(metrics.sessions("attached") <= 10.0, "{}", metrics.text());
    let report = attack(&server, arguments, look);
    assert!(report.number("/answers/resume/new_session") > 0.0, "{report:?}");
    assert!(report.number("/answers/resume/closed_4005") > 0.0, "{report:?}");
}

#[test]
fn sessions_never_exceed_max_sessions_and_new_clients_get_one() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["limits.max_sessions=60"]);
    let look = |metrics: &Metrics| {
        // The two numbers are not read atomically: one session of each connection may be counted in both
        // phases.
        let sessions = metrics.sessions("attached") + metrics.sessions("suspended");
        assert!(sessions <= 60.0 + 10.0, "{}", metrics.text());
    };
    let report = attack(&server, "--attack suspended --connections 10", look);
    assert_visitor_admitted(&report, "suspended");
    assert!(report.number("/answers/suspended/session") > 60.0, "{report:?}");
}

#[test]
fn channels_never_exceed_max_channels_and_others_keep_theirs() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["limits.max_channels=200"]);
    let look = |metrics: &Metrics| assert!(metrics.value("encke_channels") <= 200.0, "{}", metrics.text());
    // The only connection publishes. A second one would subscribe, and a channel with a subscriber cannot be
    // evicted.
    let report = attack(&server, "--attack channels --connections 1", look);
    assert_visitor_admitted(&report, "channels");
    assert!(report.number("/answers/channels/ok") > 200.0, "{report:?}");
}

#[test]
fn history_never_exceeds_its_total_limit() {
    const TOTAL_BYTES: f64 = 4.0 * 1024.0 * 1024.0;
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["channel.history_total_bytes=4MiB"]);
    let look = |metrics: &Metrics| {
        // Each connection may exceed the limit by one message while older messages are being evicted for it.
        assert!(metrics.value("encke_log_bytes") <= TOTAL_BYTES + 3.0 * 65_536.0, "{}", metrics.text());
    };
    // Allow more than a second: the attack reads six megabytes at a time, which takes longer on a busy
    // machine.
    let report = attack_for("5s", &server, "--attack history --connections 2", look);
    assert!(report.number("/answers/history/ok") > 0.0, "{report:?}");
}

#[test]
fn a_fast_publisher_does_not_evict_history_of_others() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["channel.history_total_bytes=4MiB"]);
    let report = attack(&server, "--attack history --connections 2", |_| {});
    let history = |which| report.number(&format!("/attacks/history/visitor/history_{which}"));
    assert!(history("expected") > 0.0, "{report:?}");
    assert_eq!(history("received"), history("expected"), "{report:?}");
}

#[test]
fn silent_sockets_are_evicted_and_new_clients_admitted() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["limits.max_handshakes=20"]);
    // Run for longer than a second: no socket is evicted before it has been silent for that long.
    let report = attack_for("3s", &server, "--attack handshakes --connections 60", |_| {});
    assert_visitor_admitted(&report, "handshakes");
    assert!(report.number("/answers/handshakes/cut") > 0.0, "{report:?}");
}

#[test]
fn endless_headers_are_rejected() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&[]);
    let report = attack(&server, "--attack headers --connections 20", |_| {});
    assert!(report.number("/attacks/headers/attacker/connections") > 20.0, "{report:?}");
}

#[test]
fn forged_tokens_are_rejected() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&[&format!("auth.secret={SECRET}")]);
    let claims =
        json!({ "sub": "healthy", "exp": 4_102_444_800_u64, "channels": {"*": ["subscribe", "publish"]} });
    let words = format!("--attack tokens --connections 10 --token {}", sign(&claims, SECRET));
    let report = attack(&server, &words, |_| {});
    assert!(report.number("/answers/tokens/close_4102") > 0.0, "{report:?}");
    assert!(!format!("{report:?}").contains("let_in"), "{report:?}");
}

#[test]
fn commands_above_the_rate_limit_are_rejected() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["limits.commands_per_second=30"]);
    let report = attack(&server, "--attack publishes --connections 4 --rate 10", |_| {});
    assert!(report.number("/answers/publishes/error_rate_limited") > 0.0, "{report:?}");
    assert!(report.number("/answers/publishes/close_4104") > 0.0, "{report:?}");
}

/// Runs loadgen with arguments that it must reject.
fn run_refused(words: &str) -> Output {
    let output = Command::new(binaries::loadgen()).args(words.split(' ')).output();
    output.expect("loadgen can be started")
}

#[test]
fn remote_servers_are_not_attacked() {
    // Documentation addresses (RFC 5737, RFC 3849), which no host uses.
    for url in ["ws://192.0.2.1/ws", "ws://[2001:db8::1]/ws"] {
        let output = run_refused(&format!("abuse {url} --attack frames"));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("--authorized"), "{stderr}");
    }
}
