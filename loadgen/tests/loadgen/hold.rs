//! Tests of `hold`, which connects, answers pings, stays connected, and counts closes.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::fake_server::{Behaviour, FakeServer, PONG_TIMEOUT};
use crate::run::{command, ended, loadgen, number};

#[tokio::test(flavor = "multi_thread")]
async fn answers_pings_and_stays() {
    let server = FakeServer::start(|_| Behaviour::GiveUpAfter(Duration::from_secs(10))).await;
    let run = format!("hold {} --connections 50 --rate 500 --duration 2s --json -", server.url());
    let ended = loadgen(&run).await;
    ended.assert_code(0);
    let json = ended.json();
    assert_eq!(json["scenario"], "hold");
    assert_eq!((&json["target"], &json["url"]), (&json!("encke"), &json!(server.url())));
    assert_eq!(json["connections"], 50);
    assert_eq!(json["rate"], 500.0);
    assert_eq!(json["duration_seconds"], 2.0);
    assert_eq!(json["interrupted"], false);
    assert_eq!(json["connected"], 50);
    assert_eq!(json["errors"], 0);
    assert_eq!(json["unexpected_closes"], 0);
    assert_eq!(json["close_codes"], json!({}));
    assert!(number(&json, "/elapsed_seconds") >= 2.098, "49 gaps of 2 ms, then 2 s");
    // There is time for ten pings each, but a busy machine delays some.
    assert!(number(&json, "/pings") >= 100.0, "one ping after the hello, one 200 ms later: {json:#}");
    let pongs = server.seen(|seen| seen.pongs);
    assert!(pongs >= 100, "{pongs}");
    let [p50, p99, max] = ["p50", "p99", "max"].map(|name| number(&json, &format!("/connect_ms/{name}")));
    assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{json:#}");
    assert!(number(&json, "/loadgen/cpu_seconds") > 0.0);
    assert!(number(&json, "/loadgen/peak_resident_bytes") > 100_000.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_unexpected_closes_by_code() {
    let server = FakeServer::start(|index| match index % 5 {
        0 => Behaviour::CloseWith(4002),
        1 | 2 => Behaviour::CloseWith(1001),
        3 => Behaviour::CutAfter(Duration::from_secs(10)),
        _ => Behaviour::GiveUpAfter(Duration::from_secs(10)),
    })
    .await;
    let run = format!("hold {} --connections 20 --rate 1000 --duration 300ms --json -", server.url());
    let json = loadgen(&run).await.json();
    assert_eq!(json["connected"], 20);
    assert_eq!(json["unexpected_closes"], 12);
    assert_eq!(json["close_codes"], json!({"1001": 8, "4002": 4}));
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_when_no_connection_is_left() {
    let server = FakeServer::start(|_| Behaviour::CloseWith(4002)).await;
    let run = format!("hold {} --connections 5 --rate 1000 --duration 1h --json -", server.url());
    let json = loadgen(&run).await.json();
    assert_eq!(json["unexpected_closes"], 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_errors_by_kind_and_logs_the_first_of_each() {
    let server = FakeServer::start(|index| match index % 5 {
        0 => Behaviour::RefuseUpgrade,
        1 => Behaviour::Hang,
        2 => Behaviour::CloseBeforeHello(4005),
        3 => Behaviour::NeverGreet,
        _ => Behaviour::GiveUpAfter(Duration::from_secs(10)),
    })
    .await;
    let ended = loadgen(&format!(
        "hold {} --connections 20 --rate 1000 --duration 100ms --connect-timeout 400ms --json -",
        server.url()
    ))
    .await;
    ended.assert_code(0);
    let json = ended.json();
    assert_eq!(json["connected"], 4);
    assert_eq!(json["errors"], 16);
    let kinds = &json["error_kinds"];
    assert_eq!(kinds["http_503"], 4);
    assert_eq!(kinds["closed_4005"], 4);
    assert_eq!(kinds["timeout"], 4);
    // Whether the client sees a FIN or an RST depends on whether its request had arrived when the server
    // closed.
    let gone = ["eof", "reset"].into_iter().filter_map(|kind| kinds[kind].as_u64()).sum::<u64>();
    assert_eq!(gone, 4, "{json:#}");
    let lines = ended.stderr.lines().filter(|line| line.contains("first error of its kind")).count();
    assert_eq!(lines, kinds.as_object().expect("kinds are an object").len(), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_with_the_partial_result() {
    let server = FakeServer::start(|_| Behaviour::GiveUpAfter(PONG_TIMEOUT)).await;
    let directory = tempfile::tempdir().expect("a temporary file can be written");
    let file = directory.path().join("report.json");
    let mut command =
        command(&format!("hold {} --connections 1000 --rate 50 --duration 1h --json", server.url()));
    let child = command.arg(&file).stdout(std::process::Stdio::piped()).spawn().expect("the binary starts");
    server.has_greeted(10).await;
    let pid = Pid::from_raw(child.id().try_into().expect("process ids fit into i32"));
    kill(pid, Signal::SIGINT).expect("the child is running");
    let output = spawn_blocking(move || child.wait_with_output()).await.expect("the task does not panic");
    let ended = ended(&output.expect("the child exits"));
    ended.assert_code(0);
    assert!(ended.stdout.contains("unexpected_closes"), "the table is printed: {}", ended.stdout);
    let text = std::fs::read_to_string(&file).expect("the report was written");
    let json: serde_json::Value = serde_json::from_str(&text).expect("the report is JSON");
    assert_eq!(json["interrupted"], true);
    let connected = number(&json, "/connected");
    // Some clients that were sent a hello may not have received it yet.
    assert!((1.0..1000.0).contains(&connected), "{connected}");
}
