//! Tests of exit codes and the messages that accompany them; of assertions, and their effect on a run.

use std::process::Command;
use std::time::Duration;

use encke_loadgen::behaviour::{Behaviour, HONEST};
use tokio::net::TcpListener;

use crate::run::{Ended, assert_has, command, finish, loadgen, number, patient_server, server};

const SHORT: &str = "--connections 2 --rate 1000 --duration 0s";

async fn hold_with(options: &str) -> Ended {
    let server = patient_server().await;
    loadgen(&format!("hold {} {SHORT} {options}", server.url())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn any_path_of_the_result_can_be_asserted() {
    let ended = hold_with(
        "--assert connected==2 --assert connect_ms.p99.9<60s --assert phases[1].duration_seconds<30 \
         --assert phases[0].start_seconds<1s --assert series.counts.connects[0]==2 \
         --assert loadgen.resident_bytes.peak<1GiB --assert traffic.connects==2",
    )
    .await;
    ended.assert_code(0);
    assert!(
        ended.stdout.contains("connect_ms ") && ended.stdout.contains("p99.9"),
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
async fn an_assertion_on_something_else_than_a_number_gives_2() {
    for bad in ["phases[7].duration_seconds<30", "series.t[x]<1", "series.counts.connects<1"] {
        let ended = hold_with(&format!("--assert {bad} --assert connected>2")).await;
        ended.assert_failed(2, &format!("invalid assertion: {bad}"));
    }
    // These are refused before the run.
    let server = patient_server().await;
    for (scenario, bad, why) in [
        ("hold", "resumed==2", "the result has no such path"),
        ("storm", "lateness_ms.p99<50", "the result has no such path"),
        ("mute", "connect_ms.p98<50", "the result has no such path"),
        ("hold", "server.cores.peak<1", "--pid or --admin"),
        ("storm --admin http://127.0.0.1:1", "server.phases.resume.cores.peak<3", "sampled only with --pid"),
        ("storm --pid 1", "server.timers.entries_peak<3", "sampled only with --admin"),
        ("hold", "connect_ms<3", "not a number"),
        ("hold", "target==2", "no such path"),
    ] {
        let options = "--connections 2 --rate 1000 --duration 1h --assert errors==0 --assert";
        let ended = loadgen(&format!("{scenario} {} {options} {bad}", server.url())).await;
        ended.assert_failed(2, &format!("invalid assertion: {bad} ("));
        ended.assert_failed(2, why);
    }
    assert_eq!(server.seen().greeted, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn abort_on_fail_ends_the_run() {
    let server = server(|_| Behaviour { pong_timeout: Some(Duration::from_millis(150)), ..HONEST }).await;
    let options = "--connections 3000 --rate 50 --duration 1h --json - --abort-on-fail --assert muted<=3000 \
                   --assert early==0 --assert still_open>=0";
    let ended = loadgen(&format!("mute {} {options}", server.url())).await;
    ended.assert_failed(99, "ended early: early==0 can no longer hold");
    let json = ended.json();
    assert_has(&json, &[("/aborted_by", "early==0".into()), ("/interrupted", false.into())]);
    assert!(number(&json, "/elapsed_seconds") < 30.0, "3000 connections would take a minute: {json:#}");
    assert_eq!(json["assertions"][1]["holds"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assertion_that_may_still_hold_does_not_end_the_run() {
    let server = patient_server().await;
    let options = "--connections 20 --rate 10 --duration 0s --abort-on-fail --assert connect_ms.count==20";
    loadgen(&format!("hold {} {options}", server.url())).await.assert_code(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_usage_gives_2() {
    for bad in [
        "",
        "dance ws://127.0.0.1:1/ws",
        "hold ws://127.0.0.1:1/ws --connections 0",
        "hold ws://127.0.0.1:1/ws --rate 0",
        "hold ws://127.0.0.1:1/ws --assert errors",
        "hold ws://127.0.0.1:1/ws --assert errors<2s",
        "hold ws://127.0.0.1:1/ws --abort-on-fail",
        "mute ws://127.0.0.1:1/ws --share 2",
        "churn ws://127.0.0.1:1/ws --lifetime often",
        "fanout ws://127.0.0.1:1/ws --size 31",
        "fanout ws://127.0.0.1:1/ws --messages 0",
        "fanout ws://127.0.0.1:1/ws --publisher admin",
        "fanout ws://127.0.0.1:1/ws --publisher admin --admin ws://127.0.0.1:1",
        "mix ws://127.0.0.1:1/ws --plan /nowhere/plan.toml",
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
async fn a_result_that_cannot_be_written_gives_1_before_the_run() {
    let server = patient_server().await;
    for (option, file) in [("--json", "/nowhere/report.json"), ("--html", "/dev/null/x")] {
        let ended = loadgen(&format!("hold {} {SHORT} {option} {file}", server.url())).await;
        ended.assert_failed(1, &format!("cannot write {file}"));
    }
    assert_eq!(server.seen().greeted, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_descriptors_take_several_processes() {
    let server = patient_server().await;
    let limited = |words: String| {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 100; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_loadgen")]);
        command.args(words.split_whitespace());
        finish(command)
    };
    let many = format!("{} --connections 100 --rate 1000 --json -", server.url());
    let ended = limited(format!("storm {many} --duration 1s")).await;
    ended.assert_code(0);
    let json = ended.json();
    assert_has(&json, &[("/resumed", 100.into()), ("/traffic/connections_max", 100.into())]);
    assert_has(&json, &[("/loadgen/processes", 3.into()), ("/connect_ms/count", 100.into())]);
    limited(format!("fanout {many}")).await.assert_failed(1, "101 connections do not fit");
    let ended = limited(format!("mute {many} --duration 400ms")).await;
    ended.assert_failed(2, "the server pings every 150ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn help_has_an_example_of_every_scenario() {
    for scenario in ["hold", "mute", "storm", "churn", "fanout", "mix"] {
        let ended = loadgen(&format!("{scenario} --help")).await;
        ended.assert_code(0);
        assert!(ended.stdout.contains(&format!("Example: loadgen {scenario} ws://")), "{}", ended.stdout);
    }
}

/// As in `loadgen ... | head`, but the reader closes the pipe before anything is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pipe_is_not_an_error() {
    let server = patient_server().await;
    let hold = format!("hold {} {SHORT}", server.url());
    for (words, code) in [
        ("--help".to_owned(), 0),
        ("mix --help-all".to_owned(), 0),
        ("--version".to_owned(), 0),
        (hold.clone(), 0),
        (format!("{hold} --json -"), 0),
        (format!("{hold} --quiet --assert connected>2 --json -"), 99),
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = command(&words);
        command.stdout(writer);
        let ended = finish(command).await;
        let stderr = if code == 0 { "" } else { "loadgen: assertion failed: connected>2 (the value is 2)\n" };
        // On a busy machine, the load generator warns that it ran late.
        let lines = ended.stderr.split_inclusive('\n').filter(|line| !line.contains("loadgen ran up to"));
        assert_eq!((ended.code, &*lines.collect::<String>()), (code, stderr), "{words}");
    }
}
