//! Tests of exit codes, and of the messages on stderr that accompany them.

use std::process::Command;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::fake_server::{Behaviour, FakeServer};
use crate::run::{finish, loadgen};

const SHORT: &str = "--connections 2 --rate 1000 --duration 0s";

async fn holding_server() -> FakeServer {
    FakeServer::start(|_| Behaviour::GiveUpAfter(Duration::from_secs(10))).await
}

async fn hold_with(options: &str) -> crate::run::Ended {
    let server = holding_server().await;
    loadgen(&format!("hold {} {SHORT} {options}", server.url())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn assertions_that_hold_do_not_change_the_exit_code() {
    let ended = hold_with("--assert connected==2 --assert connect_ms.p99<60000 --assert errors<=0").await;
    ended.assert_code(0);
    assert!(
        ended.stdout.contains("connect_ms ") && ended.stdout.contains("p99.99"),
        "a table is printed without --json: {}",
        ended.stdout
    );
    assert_eq!(ended.stderr, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assertion_that_does_not_hold_gives_99() {
    let ended = hold_with("--assert connected==2 --assert connected>2").await;
    ended.assert_code(99);
    assert_eq!(ended.stderr, "loadgen: assertion failed: connected>2 (the value is 2)\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_assertion_gives_2() {
    for bad in ["conected==2", "target==2", "connect_ms==2"] {
        let ended = hold_with(&format!("--assert {bad} --assert connected>2")).await;
        ended.assert_code(2);
        assert!(ended.stderr.contains(&format!("invalid assertion: {bad}")), "{}", ended.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_usage_gives_2() {
    for bad in [
        "",
        "dance ws://127.0.0.1:1/ws",
        "hold http://127.0.0.1:1/ws --connections 2 --rate 1 --duration 1s",
        "hold ws://127.0.0.1:1/ws --connections 0 --rate 1 --duration 1s",
        "hold ws://127.0.0.1:1/ws --connections 2 --rate 0 --duration 1s",
        "hold ws://127.0.0.1:1/ws --connections 2 --rate 1",
        "hold ws://127.0.0.1:1/ws --connections 2 --rate 1 --duration 1s --assert errors",
        "mute ws://127.0.0.1:1/ws --connections 2 --rate 1 --duration 1s --share 2",
        "churn ws://127.0.0.1:1/ws --rate 1 --duration 1s --lifetime often",
        "vanish ws://127.0.0.1:1/ws --connections 2 --rate 1 --duration 1s --kill me",
        "resume ws://127.0.0.1:1/ws --outside 1.1",
        "fanout ws://127.0.0.1:1/ws --size 31",
        "fanout ws://127.0.0.1:1/ws --messages 0",
        "fanout ws://127.0.0.1:1/ws --publisher admin",
        "fanout ws://127.0.0.1:1/ws --publisher admin --admin ws://127.0.0.1:1",
    ] {
        loadgen(bad).await.assert_code(2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_connection_gives_1_and_a_report() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    drop(listener);
    let ended = loadgen(&format!("hold ws://{address}/ws {SHORT} --json -")).await;
    ended.assert_code(1);
    assert_eq!(ended.json()["error_kinds"]["refused"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_cannot_be_written_gives_1_before_the_run() {
    let server = holding_server().await;
    let ended = loadgen(&format!("hold {} {SHORT} --json /nowhere/report.json", server.url())).await;
    ended.assert_code(1);
    assert!(ended.stderr.contains("cannot write /nowhere/report.json"), "{}", ended.stderr);
    assert_eq!(server.seen(|seen| seen.greeted), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_descriptors_give_1_and_a_message() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 100; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_loadgen")]);
    command.args("hold ws://127.0.0.1:1/ws --connections 50 --rate 1 --duration 1s".split_whitespace());
    let ended = finish(command).await;
    ended.assert_code(1);
    assert!(ended.stderr.contains("50 connections do not fit"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn help_has_an_example_of_every_scenario() {
    for scenario in
        ["hold", "mute", "late", "vanish", "takeover", "storm", "churn", "fanout", "resume", "slow", "mix"]
    {
        let ended = loadgen(&format!("{scenario} --help")).await;
        ended.assert_code(0);
        assert!(ended.stdout.contains(&format!("Example: loadgen {scenario} ws://")), "{}", ended.stdout);
    }
}
