//! Tests of the contents of a result, and of the files to which it is written.

use std::fs;

use encke_loadgen::behaviour::Behaviour;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::run::{PATIENT, assert_has, command, interrupt, number, patient_server, report, server};

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory can be created")
}

fn read(directory: &TempDir, file: &str) -> String {
    fs::read_to_string(directory.path().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_has_settings_phases_histograms_and_a_series() {
    let server = server(|_| Behaviour { after_hello: &["{}", "[]"], ..PATIENT }).await;
    let json = report(&format!("hold {} --connections 50 --rate 50 --duration 1400ms", server.url())).await;
    assert_has(
        &json,
        &[("/scenario", "hold".into()), ("/target", "encke".into()), ("/url", server.url().into())],
    );
    assert_has(
        &json,
        &[("/connections", 50.into()), ("/rate", 50.0.into()), ("/duration_seconds", 1.4.into())],
    );
    assert_has(&json, &[("/format", 1.into()), ("/interrupted", false.into()), ("/aborted_by", Value::Null)]);
    assert!(json["started_at"].as_str().is_some_and(|time| time.ends_with('Z')), "{json:#}");

    let phases: Vec<_> =
        json["phases"].as_array().expect("it is a list").iter().map(|it| &it["name"]).collect();
    assert_eq!(phases, ["connect", "hold"]);
    // Clients connect for a second, and are held from its end on, even if the last one connects late.
    let end = number(&json, "/phases/1/end_seconds");
    assert!(number(&json, "/phases/1/duration_seconds") > 0.0 && end >= 2.3, "{json:#}");

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
    // On a busy machine, samples are late, and there may be one more. The last one is taken at the end.
    let last = t.len() - 1;
    assert!(last >= 1 && t[0] >= 0.9 && t.is_sorted(), "{t:?}");
    assert!((number(&json, "/elapsed_seconds") - 0.01..=end).contains(&t[last]), "{t:?}, {end}");
    let sum = |name: &str| {
        series["counts"][name].as_array().expect(name).iter().filter_map(Value::as_u64).sum::<u64>()
    };
    assert_eq!((sum("connects"), sum("connect_ms.count"), sum("errors")), (50, 50, 0));
    assert_eq!(sum("pings"), json["pings"].as_u64().expect("it is a count"));
    assert_eq!(sum("messages"), 100, "two messages follow each hello");
    assert_eq!(series["gauges"]["connections"][last], 50);
    for (kind, name) in
        [("gauges", "loadgen.cores"), ("gauges", "loadgen.resident_bytes"), ("times", "connect_ms.p99")]
    {
        assert_eq!(series[kind][name].as_array().map(Vec::len), Some(t.len()), "{name} in {series:#}");
    }
    assert_eq!(json["traffic"]["connections_max"], 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_writes_a_result_and_a_page() {
    let (server, directory) = (patient_server().await, directory());
    let options = "--connections 20 --rate 100 --duration 1200ms --quiet --assert errors==0";
    let mut command = command(&format!("hold {} {options}", server.url()));
    let [result, page] = ["result.json", "page.html"].map(|name| directory.path().join(name));
    command.arg("--json").arg(result).arg("--html").arg(page);
    let ended = crate::run::finish(command).await;
    ended.assert_code(0);
    let json: Value = serde_json::from_str(&read(&directory, "result.json")).expect("it is valid JSON");
    // On a busy machine loadgen warns, even with `--quiet`, that its measurements may be wrong.
    let warnings = json["loadgen"]["warnings"].as_array().into_iter().flatten();
    let warned: String =
        warnings.map(|warning| format!("loadgen: {}\n", warning.as_str().expect("it is text"))).collect();
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", warned.as_str()), "quiet");
    assert_eq!(json["connected"], 20);
    assert_eq!(json["assertions"], json!([{"assert": "errors==0", "holds": true, "number": 0}]));

    let page = read(&directory, "page.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
    assert!(page.matches("<svg").count() >= 6, "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_run_with_the_result_so_far() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (server, directory) = (patient_server().await, directory());
        let mut command =
            command(&format!("hold {} --connections 1000 --rate 50 --duration 1h", server.url()));
        let [result, page] = ["result.json", "page.html"].map(|name| directory.path().join(name));
        command.arg("--json").arg(result).arg("--html").arg(page);
        let ended = interrupt(command, signal, server.has_greeted(10)).await;
        ended.assert_code(0);
        assert!(ended.stdout.contains("unexpected_closes"), "the table is printed: {}", ended.stdout);
        let json: Value = serde_json::from_str(&read(&directory, "result.json")).expect("it is valid JSON");
        assert_has(&json, &[("/interrupted", true.into()), ("/aborted_by", Value::Null)]);
        // Some clients that were sent a hello may not have received it yet.
        assert!((1.0..1000.0).contains(&number(&json, "/connected")), "{json:#}");
        assert!(json["series"]["t"][0].is_number(), "the short first second is kept");
        assert!(read(&directory, "page.html").contains("interrupted"));
    }
}
