//! Tests of the contents of a result, and of the files to which it is written.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use roxmltree::Document;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::fake_server::{Behaviour, FakeServer, PONG_TIMEOUT};
use crate::run::{Ended, command, ended, loadgen, number};

const LONG_TIMEOUT: Behaviour = Behaviour::GiveUpAfter(Duration::from_secs(10));

async fn patient_server() -> FakeServer {
    FakeServer::start(|_| LONG_TIMEOUT).await
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory can be created")
}

fn read(directory: &TempDir, file: &str) -> String {
    fs::read_to_string(directory.path().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Parses the lines of `--json-lines`.
fn lines(ended: &Ended) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_has_settings_phases_histograms_and_a_series() {
    let server = patient_server().await;
    let run = format!("hold {} --connections 50 --rate 50 --duration 1500ms --json -", server.url());
    let json = loadgen(&run).await.json();
    assert_eq!(json["format"], 1);
    assert_eq!((&json["interrupted"], &json["aborted_by"]), (&Value::Bool(false), &Value::Null));
    assert!(json["started_at"].as_str().is_some_and(|time| time.ends_with('Z')), "{json:#}");

    let phases: Vec<_> =
        json["phases"].as_array().expect("it is a list").iter().map(|it| &it["name"]).collect();
    assert_eq!(phases, ["connect", "hold"]);
    assert!(number(&json, "/phases/1/duration_seconds") >= 1.4, "{json:#}");

    for name in ["connect_ms", "connect_from_start_ms"] {
        assert_eq!(json[name]["count"], 50);
        let told = ["min", "p50", "p75", "p90", "p95", "p99", "p99.9", "p99.99", "max"];
        let told = told.map(|percentile| number(&json[name], &format!("/{percentile}")));
        assert!(told.is_sorted(), "{told:?}");
        let hdr = json["histograms"][name]["hdr"].as_str().expect("the histogram is text");
        assert!(hdr.starts_with("HISTFAAA"), "an HDR histogram, V2, deflated, base64: {hdr}");
    }
    assert!(number(&json, "/connect_ms/p50") >= number(&json, "/connect_from_start_ms/p50"));

    let series = &json["series"];
    let t: Vec<f64> = serde_json::from_value(series["t"].clone()).expect("times are numbers");
    assert!(t.len() == 2 && (0.9..1.4).contains(&t[0]), "{t:?}");
    assert!((t[1] - number(&json, "/elapsed_seconds")).abs() < 0.2, "{t:?}");
    let sum = |name: &str| {
        series["counts"][name].as_array().expect(name).iter().filter_map(Value::as_u64).sum::<u64>()
    };
    assert_eq!((sum("connects"), sum("connect_ms.count"), sum("errors")), (50, 50, 0));
    assert_eq!(sum("pings"), json["pings"].as_u64().expect("it is a count"));
    assert_eq!(sum("messages"), 100, "two messages follow each hello");
    assert_eq!(series["gauges"]["connections"][1], 50);
    for (kind, name) in
        [("gauges", "loadgen.cores"), ("gauges", "loadgen.resident_bytes"), ("times", "connect_ms.p99")]
    {
        assert_eq!(series[kind][name].as_array().map(Vec::len), Some(2), "{name} in {series:#}");
    }
    assert_eq!(json["traffic"]["connections_max"], 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn closes_have_a_curve_by_code() {
    let server = FakeServer::start(|_| Behaviour::CloseWith(4002)).await;
    let json = loadgen(&format!("hold {} --connections 5 --rate 1000 --duration 1h --json -", server.url()))
        .await
        .json();
    assert_eq!(json["series"]["counts"]["closes.4002"], serde_json::json!([5]));
    assert_eq!(json["traffic"]["closes"], 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_a_page_a_result_and_a_series() {
    let (server, directory) = (patient_server().await, directory());
    let path = directory.path().join("new").join("run");
    let run = format!(
        "hold {} --connections 20 --rate 100 --duration 1200ms --quiet --assert errors==0 --report",
        server.url()
    );
    let mut command = command(&run);
    command.arg(&path);
    let ended = crate::run::finish(command).await;
    ended.assert_code(0);
    let json: Value =
        serde_json::from_str(&read(&directory, "new/run/result.json")).expect("it is valid JSON");
    // On a busy machine loadgen warns, even with `--quiet`, that its measurements may be wrong.
    let warnings = json["loadgen"]["warnings"].as_array().into_iter().flatten();
    let warned: String =
        warnings.map(|warning| format!("loadgen: {}\n", warning.as_str().expect("it is text"))).collect();
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", warned.as_str()), "quiet");
    assert_eq!(json["connected"], 20);
    assert_eq!(json["assertions"], serde_json::json!([{"assert": "errors==0", "holds": true, "number": 0}]));

    let csv = read(&directory, "new/run/series.csv");
    let widths: Vec<_> = csv.lines().map(|line| line.split(',').count()).collect();
    assert!(csv.starts_with("t,connections,") && widths.len() == 2, "{csv}");
    assert_eq!(widths[0], widths[1]);

    let page = read(&directory, "new/run/index.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
    let plots: Vec<_> = page.split("<svg").skip(1).filter_map(|rest| rest.split_once("</svg>")).collect();
    assert!(plots.len() >= 6, "{}", plots.len());
    for (plot, _) in plots {
        let svg = format!("<svg{plot}</svg>");
        assert!(
            Document::parse(&svg).is_ok_and(|xml| xml.root_element().attribute("aria-label").is_some()),
            "{svg}"
        );
    }
    for elsewhere in ["<script", "src=", "href=", "http"] {
        assert_eq!(
            page.matches(elsewhere).count(),
            page.matches(&format!("{elsewhere}-equiv")).count(),
            "{elsewhere}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_cannot_be_written_gives_1_before_the_run() {
    let server = patient_server().await;
    let run = format!("hold {} --connections 2 --rate 100 --duration 0s --report /dev/null/x", server.url());
    let ended = loadgen(&run).await;
    ended.assert_code(1);
    assert!(ended.stderr.contains("cannot create /dev/null/x"), "{}", ended.stderr);
    assert_eq!(server.seen(|seen| seen.greeted), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn json_lines_contain_each_second_and_the_result() {
    let server = patient_server().await;
    let run = format!("hold {} --connections 10 --rate 1000 --duration 2500ms --json-lines", server.url());
    let ended = loadgen(&run).await;
    ended.assert_code(0);
    let lines = lines(&ended);
    assert!(lines.len() >= 3, "{}", ended.stdout);
    let (result, seconds) = lines.split_last().expect("there is output");
    for (line, phase) in seconds.iter().zip(["hold", "hold"]) {
        assert_eq!(line["phase"], phase);
        assert_eq!(line["gauges"]["connections"], 10);
    }
    assert_eq!(seconds[0]["counts"]["connects"], 10);
    assert_eq!(result["result"]["connected"], 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_with_the_partial_result() {
    let (server, directory) =
        (FakeServer::start(|_| Behaviour::GiveUpAfter(PONG_TIMEOUT)).await, directory());
    let mut command =
        command(&format!("hold {} --connections 1000 --rate 50 --duration 1h --report", server.url()));
    let child = command.arg(directory.path()).stdout(Stdio::piped()).spawn().expect("the binary starts");
    server.has_greeted(10).await;
    kill(Pid::from_raw(child.id().try_into().expect("process ids fit into i32")), Signal::SIGTERM)
        .expect("the child is running");
    let output = spawn_blocking(move || child.wait_with_output()).await.expect("the task does not panic");
    ended(&output.expect("the child exits")).assert_code(0);
    let json: Value = serde_json::from_str(&read(&directory, "result.json")).expect("it is valid JSON");
    assert_eq!((&json["interrupted"], &json["aborted_by"]), (&Value::Bool(true), &Value::Null));
    // Some clients that were sent a hello may not have received it yet.
    assert!((1..1000).contains(&json["connected"].as_u64().expect("it is a count")), "{json:#}");
    assert!(read(&directory, "index.html").contains("interrupted"));
    assert!(read(&directory, "series.csv").lines().count() >= 2, "the short first second is kept");
}
