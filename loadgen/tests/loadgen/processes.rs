//! Tests of `--processes`, which spreads a run over several processes and reports it as one.

use std::process::{Child, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::fake_server::{Behaviour, FakeServer, PONG_TIMEOUT};
use crate::run::{assert_none_early, command, ended, loadgen, number};

const LONG_TIMEOUT: Behaviour = Behaviour::GiveUpAfter(Duration::from_secs(10));

#[tokio::test(flavor = "multi_thread")]
async fn counts_histograms_and_samples_are_added_up() {
    let server =
        FakeServer::start(|index| if index < 4 { Behaviour::CloseWith(4002) } else { LONG_TIMEOUT }).await;
    let pid = std::process::id();
    let run = format!(
        "hold {} --connections 50 --rate 500 --duration 2500ms --processes 3 --pid {pid} --json -",
        server.url()
    );
    let ended = loadgen(&run).await;
    ended.assert_code(0);
    let json = ended.json();
    for (field, value) in [
        ("connections", json!(50)),
        ("rate", json!(500.0)),
        ("duration_seconds", json!(2.5)),
        ("interrupted", json!(false)),
        ("connected", json!(50)),
        ("errors", json!(0)),
        ("unexpected_closes", json!(4)),
        ("close_codes", json!({"4002": 4})),
    ] {
        assert_eq!(json[field], value, "{field} in {json:#}");
    }
    assert_eq!(server.seen(|seen| seen.greeted), 50);
    assert_eq!((&json["connect_ms"]["count"], &json["loadgen"]["processes"]), (&json!(50), &json!(3)));
    assert!(json["histograms"]["connect_ms"]["hdr"].is_string());
    let sum = |name: &str| -> f64 {
        let column = json["series"]["counts"][name].as_array().expect("the column is an array");
        column.iter().filter_map(Value::as_f64).sum()
    };
    assert_eq!((sum("connects"), sum("closes.4002")), (50.0, 4.0), "{json:#}");
    // Times of the whole run also belong to one of the seconds, where they are accurate to 1 %.
    assert_eq!(sum("connect_ms.count"), 50.0, "{json:#}");
    let longest = json["series"]["times"]["connect_ms.max"].as_array().expect("the column is an array");
    let longest = longest.iter().filter_map(Value::as_f64).reduce(f64::max).expect("there are samples");
    let max = number(&json, "/connect_ms/max");
    assert!((max * 0.99..max * 1.01).contains(&longest), "{longest} is not {max}: {json:#}");
    let open = json["series"]["gauges"]["connections"].as_array().expect("the column is an array");
    assert_eq!(open[1], 46.0, "{json:#}");
    assert!(json["series"]["gauges"]["server.resident_bytes"][0].is_number(), "{json:#}");
    assert_eq!(json["server"]["pid"], pid);
    assert!(number(&json, "/server/bytes_per_connection") >= 0.0, "{json:#}");
    assert!(number(&json, "/elapsed_seconds") >= 2.59, "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn storm_and_mute_support_processes() {
    let server = FakeServer::start(|_| LONG_TIMEOUT).await;
    let run = "--connections 20 --rate 1000 --processes 2 --json -";
    let json = loadgen(&format!("storm {} {run} --duration 100ms", server.url())).await.json();
    assert_eq!((&json["dropped"], &json["resumed"], &json["errors"]), (&json!(20), &json!(20), &json!(0)));
    let server =
        FakeServer::start(|_| Behaviour::GiveUpAfter(PONG_TIMEOUT + Duration::from_millis(50))).await;
    let json = loadgen(&format!("mute {} {run} --duration 1h", server.url())).await.json();
    assert_eq!((&json["muted"], &json["closed"]), (&json!(20), &json!(20)));
    assert_none_early(&json);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_numbers_of_processes_are_refused() {
    let server = FakeServer::start(|_| LONG_TIMEOUT).await;
    let hold = format!("hold {} --rate 10 --duration 1h", server.url());
    for (run, why) in [
        (format!("fanout {} --processes 2", server.url()), "fanout does not support --processes"),
        (format!("{hold} --connections 3 --processes 4"), "3 connections are too few for 4 processes"),
        (format!("{hold} --connections 3 --processes 0"), "0 is not in"),
    ] {
        let ended = loadgen(&run).await;
        ended.assert_code(2);
        assert!(ended.stderr.contains(why), "{why} in {}", ended.stderr);
    }
    assert_eq!(server.seen(|seen| seen.greeted), 0);
}

/// Starts a long run in two processes. Waits until ten connections are open, and returns the run and the ids
/// of its children.
async fn long_run(server: &FakeServer, options: &str) -> (Child, Vec<Pid>) {
    let run =
        format!("hold {} --connections 1000 --rate 50 --duration 1h --processes 2 --json -", server.url());
    let mut command = command(&format!("{run} {options}"));
    let parent = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    server.has_greeted(10).await;
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", parent.id()));
    let children = children.expect("Linux lists the children");
    (
        parent,
        children.split_whitespace().map(|pid| Pid::from_raw(pid.parse().expect("it is a number"))).collect(),
    )
}

async fn end_of(parent: Child) -> crate::run::Ended {
    let output = spawn_blocking(move || parent.wait_with_output()).await.expect("the task does not panic");
    ended(&output.expect("the parent exits"))
}

fn pid_of(process: &Child) -> Pid {
    Pid::from_raw(process.id().try_into().expect("process ids fit into i32"))
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_stops_all_processes_with_the_partial_result() {
    let server = FakeServer::start(|_| LONG_TIMEOUT).await;
    let (parent, children) = long_run(&server, "").await;
    assert_eq!(children.len(), 2);
    kill(pid_of(&parent), Signal::SIGINT).expect("the process is running");
    let ended = end_of(parent).await;
    ended.assert_code(0);
    let json = ended.json();
    assert_eq!(json["interrupted"], true);
    // Some clients that were sent a hello may not have received it yet.
    assert!((1.0..1000.0).contains(&number(&json, "/connected")), "{json:#}");
    for child in children {
        assert_eq!(kill(child, None), Err(Errno::ESRCH), "no child is left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_dies_is_named() {
    let server = FakeServer::start(|_| LONG_TIMEOUT).await;
    let (parent, children) = long_run(&server, "").await;
    kill(children[1], Signal::SIGKILL).expect("the process is running");
    let ended = end_of(parent).await;
    ended.assert_code(1);
    let expected = format!("process 1/2 (pid {}) ended without a result: signal: 9", children[1]);
    assert!(ended.stderr.contains(&expected), "{expected} in {}", ended.stderr);
    assert_eq!(kill(children[0], None), Err(Errno::ESRCH), "the other child is stopped too");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assertion_that_can_no_longer_hold_stops_all_processes() {
    // The paths are a counter and a maximum of times.
    for assertion in ["closes==0", "connect_ms.max<0.001"] {
        let server =
            FakeServer::start(|index| if index == 3 { Behaviour::CloseWith(4002) } else { LONG_TIMEOUT })
                .await;
        let (parent, children) = long_run(&server, &format!("--abort-on-fail --assert {assertion}")).await;
        let ended = end_of(parent).await;
        assert!(ended.stderr.contains(&format!("ended early: {assertion}")), "{}", ended.stderr);
        assert_eq!(ended.json()["aborted_by"], assertion);
        for child in children {
            assert_eq!(kill(child, None), Err(Errno::ESRCH), "no child is left");
        }
    }
}
