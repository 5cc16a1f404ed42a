//! The load generator against a server that requires tokens.

use std::fs;
use std::process::Command;

use encke_tests::process::{Process, ProcessOutput};
use encke_tests::tokens::token;
use encke_tests::waiting::{TIMEOUT, heavy_test_lock};
use encke_tests::{RunningServer, binaries};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Runs loadgen to completion and asserts that `secret` appears in nothing that it prints or writes.
fn run(arguments: &[&str], report: &TempDir, secret: &str) -> (ProcessOutput, Value) {
    let mut command = Command::new(binaries::loadgen());
    let [result, page] = ["result.json", "page.html"].map(|name| report.path().join(name));
    command.args(arguments).arg("--json").arg(&result).arg("--html").arg(page);
    let output = Process::start(&mut command).output(TIMEOUT);
    let files = fs::read_dir(report.path()).expect("the report was written").flatten();
    let written = files.map(|file| fs::read_to_string(file.path()).expect("the file is text"));
    for text in written.chain([output.stdout.clone(), output.stderr.clone()]) {
        assert!(!text.contains(secret), "the output contains the secret");
    }
    let json = fs::read_to_string(&result).ok().and_then(|text| serde_json::from_str(&text).ok());
    (output, json.unwrap_or_default())
}

#[test]
fn every_kind_of_connection_sends_the_token() {
    let _lock = heavy_test_lock();
    let (server, token) = (RunningServer::with_tokens(&[]), token("alice", json!({})));
    let (ws, sse) =
        (format!("ws://{}/ws", server.public), format!("http://{}/events?channels=news", server.public));
    for (scenario, url, words, resumed) in [
        ("storm", &ws, "--duration 100ms", true),
        ("storm", &sse, "--target sse --duration 1s", true),
        ("fanout", &ws, "--messages 10 --publish-rate 100", false),
        ("hold", &ws, "--duration 100ms --threads 2", false),
    ] {
        let report = tempfile::tempdir().expect("a temporary directory can be created");
        let words = words.split(' ').chain(["--connections", "20", "--rate", "1000", "--token", &token]);
        let arguments: Vec<&str> = [scenario, url].into_iter().chain(words).collect();
        let (output, json) = run(&arguments, &report, &token);
        assert!(output.status.success(), "{scenario:?}: {}", output.stderr);
        assert_eq!(json["errors"], 0, "{scenario:?}: {json:#}");
        assert!(!resumed || json["resumed"] == 20, "{scenario:?}: {json:#}");
    }
}

#[test]
fn clients_without_a_valid_token_are_rejected() {
    let server = RunningServer::with_tokens(&[]);
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
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(output.stderr.contains(why), "{why} in {output:?}");
    }
}
