use std::process::Command;
use std::thread;
use std::time::Duration;

use encke_tests::loadgen::LoadgenReport;
use encke_tests::process::Process;
use encke_tests::tokens::token;
use encke_tests::waiting::{TIMEOUT, heavy_test_lock, let_pass};
use encke_tests::{Metrics, RunningServer, binaries};
use serde_json::json;

const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the attack that these options specify, for a second unless they say otherwise, and asserts that the
/// healthy session lost nothing. Calls `look` with the server's metrics repeatedly during the attack.
#[track_caller]
fn attack(server: &RunningServer, words: &str, look: impl Fn(&Metrics)) -> LoadgenReport {
    let duration = if words.contains("--duration") { &[][..] } else { &["--duration", "1s"] };
    let arguments: Vec<&str> =
        duration.iter().copied().chain(["--quiet-for", "300ms"]).chain(words.split(' ')).collect();
    let report = thread::scope(|scope| {
        let run = scope.spawn(|| LoadgenReport::run("abuse", server, &arguments));
        while !run.is_finished() {
            look(&server.admin.metrics());
            let_pass(SAMPLE_INTERVAL);
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
        "presence",
        "joins",
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

/// Runs an attack on a server with this limit. Asserts that `is_kept` holds throughout and that these answers
/// occurred more often than stated.
fn assert_limit(limit: &str, words: &str, is_kept: impl Fn(&Metrics) -> bool, answers: &[(&str, f64)]) {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&[limit]);
    let report = attack(&server, words, |metrics| assert!(is_kept(metrics), "{limit}: {}", metrics.text()));
    let name = words.split(' ').nth(1).expect("the second word is the attack");
    for (answer, more_than) in answers {
        assert!(report.number(&format!("/attacks/{name}/answers/{answer}")) > *more_than, "{report:?}");
    }
    if name != "resume" && name != "publishes" {
        assert_visitor_admitted(&report, name);
    }
    if name == "history" {
        let history = |which| report.number(&format!("/attacks/history/visitor/history_{which}"));
        assert!(history("expected") > 0.0, "{report:?}");
        assert_eq!(history("received"), history("expected"), "others keep their history: {report:?}");
    }
}

#[test]
fn attached_sessions_never_exceed_max_connections() {
    assert_limit(
        "limits.max_connections=10",
        "--attack resume --connections 20 --connect-timeout 2s",
        // A replaced connection is counted until it is closed.
        |metrics| metrics.sessions("attached") <= 10.0,
        &[("new_session", 0.0), ("closed_4005", 0.0)],
    );
}

#[test]
fn sessions_never_exceed_max_sessions_and_new_clients_get_one() {
    assert_limit(
        "limits.max_sessions=60",
        "--attack suspended --connections 10 --duration 3s",
        // The two numbers are not read atomically: one session of each connection may be counted in both
        // phases.
        |metrics| metrics.sessions("attached") + metrics.sessions("suspended") <= 60.0 + 10.0,
        &[("session", 60.0)],
    );
}

/// The only connection publishes. A second one would subscribe, and a channel with a subscriber cannot be
/// evicted.
#[test]
fn channels_never_exceed_max_channels_and_others_keep_theirs() {
    assert_limit(
        "limits.max_channels=20",
        "--attack channels --connections 1 --duration 3s",
        |metrics| metrics.value("encke_channels") <= 20.0,
        &[("ok", 20.0)],
    );
}

/// The attack takes more than a second, because it reads six megabytes at a time, which takes longer on a busy
/// machine.
#[test]
fn history_never_exceeds_its_total_limit() {
    const TOTAL_BYTES: f64 = 4.0 * 1024.0 * 1024.0;
    assert_limit(
        "channel.history_total_bytes=4MiB",
        "--attack history --connections 2 --duration 5s",
        // Each connection may exceed the limit by one message while older messages are being evicted for it.
        |metrics| metrics.value("encke_log_bytes") <= TOTAL_BYTES + 3.0 * 65_536.0,
        &[("ok", 0.0)],
    );
}

/// The attack takes more than a second, because no socket is evicted before it has been silent for that long.
#[test]
fn silent_sockets_are_evicted_and_new_clients_admitted() {
    let words = "--attack handshakes --connections 60 --duration 3s";
    assert_limit("limits.max_handshakes=20", words, |_| true, &[("cut", 0.0)]);
}

#[test]
fn commands_above_the_rate_limit_are_rejected() {
    let words = "--attack publishes --connections 4 --rate 10";
    let answers = [("error_rate_limited", 0.0), ("close_4104", 0.0)];
    assert_limit("limits.commands_per_second=30", words, |_| true, &answers);
}

#[test]
fn forged_tokens_are_rejected() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with_tokens(&[]);
    let token = token("healthy", json!({}));
    let words = format!("--attack tokens --connections 10 --token {token}");
    let report = attack(&server, &words, |_| {});
    assert!(report.number("/attacks/tokens/answers/close_4102") > 0.0, "{report:?}");
    assert!(!format!("{report:?}").contains("let_in"), "{report:?}");
}

#[test]
fn remote_servers_are_not_attacked() {
    // Documentation addresses (RFC 5737, RFC 3849), which no host uses.
    for url in ["ws://192.0.2.1/ws", "ws://[2001:db8::1]/ws"] {
        let mut command = Command::new(binaries::loadgen());
        let run = Process::start(command.args(["abuse", url, "--attack", "frames"]));
        run.output(TIMEOUT).assert_failed(2, &["--authorized"]);
    }
}
