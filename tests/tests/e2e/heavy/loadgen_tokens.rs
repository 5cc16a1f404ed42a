//! The load generator against a server that requires tokens.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::heavy_test_lock;
use encke_tests::{Launch, RunningServer, binaries};
use serde_json::{Value, json};
use tempfile::TempDir;

fn server() -> RunningServer {
    Launch::default().environment("ENCKE_AUTH__SECRET", SECRET).start()
}

/// Signs a token that is valid for this long.
fn token(valid: Duration) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("the clock is past 1970");
    let claims =
        json!({"sub": "alice", "exp": (now + valid).as_secs(), "channels": {"*": ["subscribe", "publish"]}});
    sign(&claims, SECRET)
}

/// Runs loadgen to completion and asserts that `secret` appears in nothing that it prints or writes.
fn run(arguments: &[&str], report: &TempDir, secret: &str) -> (Output, Value) {
    let mut command = Command::new(binaries::loadgen());
    command.args(arguments).args(["--json-lines", "--report"]).arg(report.path()).stdin(Stdio::null());
    let output = command.output().expect("loadgen can be started");
    let mut written = vec![output.stdout.clone(), output.stderr.clone()];
    for file in fs::read_dir(report.path()).expect("the report was written") {
        written.push(fs::read(file.expect("the file exists").path()).expect("the file can be read"));
    }
    for bytes in &written {
        assert!(!String::from_utf8_lossy(bytes).contains(secret), "the output contains the secret");
    }
    let result = report.path().join("result.json");
    let json = fs::read_to_string(&result).ok().and_then(|text| serde_json::from_str(&text).ok());
    (output, json.unwrap_or_default())
}

#[test]
fn every_kind_of_connection_sends_the_token() {
    let _lock = heavy_test_lock();
    let (server, token) = (server(), token(Duration::from_secs(3600)));
    let (ws, sse) =
        (format!("ws://{}/ws", server.public), format!("http://{}/events?channels=news", server.public));
    for (scenario, resumed) in [
        (["storm", &ws, "--duration", "100ms", "--connections", "20", "--rate", "1000"].as_slice(), true),
        (
            &["storm", &sse, "--target", "sse", "--duration", "1s", "--connections", "20", "--rate", "1000"],
            true,
        ),
        (&["fanout", &ws, "--connections", "20", "--messages", "10", "--publish-rate", "100"], false),
        (
            &[
                "hold",
                &ws,
                "--duration",
                "100ms",
                "--connections",
                "20",
                "--rate",
                "1000",
                "--processes",
                "2",
            ],
            false,
        ),
    ] {
        let report = tempfile::tempdir().expect("a temporary directory can be created");
        let (output, json) = run(&[scenario, &["--token", &token]].concat(), &report, &token);
        assert!(output.status.success(), "{scenario:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(json["errors"], 0, "{scenario:?}: {json:#}");
        assert!(!resumed || json["resumed"] == 20, "{scenario:?}: {json:#}");
    }
}

#[test]
fn the_token_command_runs_again_before_the_token_expires() {
    let _lock = heavy_test_lock();
    let server = server();
    let url = format!("ws://{}/ws", server.public);
    for (valid, runs_expected) in [(3600, 1), (5, 21)] {
        let (token, files) = (
            token(Duration::from_secs(valid)),
            tempfile::tempdir().expect("a temporary directory can be created"),
        );
        let (runs, report) =
            (files.path().join("runs"), tempfile::tempdir().expect("a temporary directory can be created"));
        let command = format!("echo x >> {}; echo {token}", runs.display());
        let hold = ["hold", &url, "--connections", "20", "--rate", "1000", "--duration", "100ms"];
        let (output, json) = run(&[&hold[..], &["--token-command", &command]].concat(), &report, &token);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!((&json["connected"], &json["errors"]), (&json!(20), &json!(0)), "{json:#}");
        let count = fs::read_to_string(&runs).expect("the command ran").lines().count();
        assert_eq!(count, runs_expected, "for a token that is valid for {valid} s");
    }
}

#[test]
fn clients_without_a_valid_token_are_rejected() {
    let server = server();
    let url = format!("ws://{}/ws", server.public);
    let hold = ["hold", &url, "--connections", "2", "--rate", "1000", "--duration", "0s"];
    for (options, code, why) in [
        (["--token", "wrong-secret"].as_slice(), 1, "closed_4102"),
        (&["--token", "wrong secret\r\nHost: x"], 2, "characters that are not allowed in a token"),
        (&["--token-command", "echo wrong-secret"], 1, "closed_4102"),
        (&["--token-command", "echo wrong-secret; exit 3"], 1, "exit status: 3"),
        (&["--token", "wrong-secret", "--token-command", "true"], 2, "cannot be used with"),
    ] {
        let report = tempfile::tempdir().expect("a temporary directory can be created");
        let (output, _) = run(&[&hold[..], options].concat(), &report, "wrong");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(why), "{why} in {stderr}");
    }
}
