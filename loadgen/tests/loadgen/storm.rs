//! Tests of `storm`, which drops all connections simultaneously and resumes their sessions.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::fake_server::{Behaviour, FakeServer, LAST_SEQ};
use crate::run::{loadgen, number};

const LONG_TIMEOUT: Behaviour = Behaviour::GiveUpAfter(Duration::from_secs(10));

#[tokio::test(flavor = "multi_thread")]
async fn every_session_is_resumed_with_its_token_and_seq() {
    let server = FakeServer::start(|_| LONG_TIMEOUT).await;
    let run = format!("storm {} --connections 50 --rate 1000 --duration 1s --json -", server.url());
    let ended = loadgen(&run).await;
    ended.assert_code(0);
    let json = ended.json();
    assert_eq!(json["connected"], 50);
    assert_eq!(json["dropped"], 50);
    assert_eq!(json["resumed"], 50);
    assert_eq!(json["errors"], 0);
    assert_eq!(json["unexpected_closes"], 0);
    assert_eq!((&json["connect_ms"]["count"], &json["resume_ms"]["count"]), (&json!(50), &json!(50)));
    let (seconds, max) = (number(&json, "/all_back_seconds"), number(&json, "/resume_ms/max"));
    assert!(0.0 < seconds && seconds < 10.0, "{json:#}");
    assert!((seconds * 1000.0 - max).abs() <= max / 100.0, "the slowest resume is the last one: {json:#}");
    let resumes: BTreeSet<_> = server.seen(|seen| seen.resumes.iter().cloned().collect());
    let expected = (0..50).map(|index| (format!("s_{index}.secret"), LAST_SEQ)).collect();
    assert_eq!(resumes, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgets_has_resumed_nothing() {
    let server = FakeServer::start(|_| Behaviour::Forget).await;
    let run = format!("storm {} --connections 10 --rate 1000 --duration 0s --json -", server.url());
    let json = loadgen(&run).await.json();
    assert_eq!(json["dropped"], 10);
    assert_eq!(json["resumed"], 0);
    assert_eq!(json["errors"], 10);
    assert_eq!(json["error_kinds"], json!({"not_recovered": 10}));
    assert_eq!(json["all_back_seconds"], json!(null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_resume_is_an_error() {
    let server =
        FakeServer::start(|index| if index < 10 { LONG_TIMEOUT } else { Behaviour::RefuseUpgrade }).await;
    let run = format!("storm {} --connections 10 --rate 1000 --duration 0s --json -", server.url());
    let json = loadgen(&run).await.json();
    assert_eq!(json["dropped"], 10);
    assert_eq!(json["resumed"], 0);
    assert_eq!(json["error_kinds"], json!({"http_503": 10}));
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_connections_are_not_resumed() {
    let server =
        FakeServer::start(|index| if index < 4 { Behaviour::CloseWith(4002) } else { LONG_TIMEOUT }).await;
    let run = format!("storm {} --connections 10 --rate 1000 --duration 200ms --json -", server.url());
    let json = loadgen(&run).await.json();
    assert_eq!(json["connected"], 10);
    assert_eq!(json["unexpected_closes"], 4);
    assert_eq!(json["dropped"], 6);
    assert_eq!(json["resumed"], 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_storm_has_its_own_phase() {
    assert_storm_phase(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_storm_has_its_own_phase_in_several_processes() {
    assert_storm_phase(2).await;
}

async fn assert_storm_phase(processes: u32) {
    let server = FakeServer::start(|_| LONG_TIMEOUT).await;
    let run = format!(
        "storm {} --connections 200 --rate 200 --duration 500ms --processes {processes} --pid {} --json - --assert server.phases.resume.cores.peak>=0",
        server.url(),
        std::process::id()
    );
    let ended = loadgen(&run).await;
    let json = ended.json();
    assert_eq!(json["resumed"], 200, "{json:#}");
    let numbers = |pointer: &str| -> Vec<f64> {
        let column = json.pointer(pointer).and_then(Value::as_array);
        let column = column.unwrap_or_else(|| panic!("no {pointer} in {json:#}"));
        column.iter().filter_map(Value::as_f64).collect()
    };
    let (t, open) = (numbers("/series/t"), numbers("/series/gauges/connections"));
    let start = number(&json, "/phases/2/start_seconds");
    let from_drop: Vec<f64> =
        t.iter().zip(&open).filter(|(t, _)| **t >= start).map(|(_, open)| *open).collect();
    if processes == 1 {
        assert_eq!(from_drop[0], 200.0, "the first sample was taken before the drop: {t:?} {open:?}");
    }
    assert!(from_drop.contains(&200.0), "the connections before the drop are visible: {t:?} {open:?}");
    assert!(from_drop[1..].contains(&0.0), "the drop is visible: {t:?} {open:?}");

    let phases = json["server"]["phases"].as_object().expect("the phases are sampled");
    // On a busy machine the hold phase may be too short to appear.
    let names: Vec<_> = phases.keys().filter(|name| *name != "hold").collect();
    assert_eq!(names, ["connect", "resume"]);
    let [connect, sampled] = ["/phases/0", "/server/phases/connect"]
        .map(|phase| number(&json, &format!("{phase}/duration_seconds")));
    assert!((connect - sampled).abs() < 0.5, "{json:#}");
    let peak = number(&json, "/server/resident_bytes/peak");
    // A brief phase has additional samples, which may lie between two samples of the series.
    let of_phases = phases.values().filter_map(|phase| phase["resident_bytes"]["peak"].as_f64());
    let shown =
        numbers("/series/gauges/server.resident_bytes").into_iter().chain(of_phases).fold(0.0, f64::max);
    assert_eq!(peak, shown, "peak and series agree: {json:#}");
    for phase in phases.values() {
        assert!(phase["resident_bytes"]["peak"].as_f64().is_some_and(|bytes| bytes <= peak), "{json:#}");
        let cores = |name: &str| phase["cores"][name].as_f64();
        assert!(cores("mean").is_none_or(|mean| cores("peak").is_some_and(|peak| peak >= mean)), "{json:#}");
        let of_run = json["server"]["cores"]["peak"].as_f64();
        assert!(cores("peak") <= of_run, "no phase exceeds the run: {json:#}");
    }
}
