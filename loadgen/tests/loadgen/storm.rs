//! Tests of `storm`, which drops all connections simultaneously and resumes their sessions.

use std::collections::BTreeSet;

use crate::run::{CLOSES, PATIENT, assert_has, number, patient_server, report, server};
use encke_loadgen::behaviour::Behaviour;

#[tokio::test(flavor = "multi_thread")]
async fn every_session_is_resumed_with_its_token_and_seq() {
    let after_hello = &[
        r#"{"surprise":{"seq":99}}"#,
        r#"{"message":{"seq":57,"channel":"news","offset":42,"data":{"a":1}}}"#,
    ];
    let server = server(|_| Behaviour { after_hello, ..PATIENT }).await;
    let json = report(&format!("storm {} --connections 50 --rate 1000 --duration 1s", server.url())).await;
    assert_has(&json, &[("/connected", 50.into()), ("/dropped", 50.into()), ("/resumed", 50.into())]);
    assert_has(&json, &[("/errors", 0.into()), ("/unexpected_closes", 0.into())]);
    assert_has(&json, &[("/connect_ms/count", 50.into()), ("/resume_ms/count", 50.into())]);
    let (seconds, max) = (number(&json, "/all_back_seconds"), number(&json, "/resume_ms/max"));
    assert!(0.0 < seconds && seconds < 10.0, "{json:#}");
    assert!((seconds * 1000.0 - max).abs() <= max / 100.0, "the slowest resume is the last one: {json:#}");
    let resumes: BTreeSet<_> = server.seen().resumes.iter().cloned().collect();
    let expected = (0..50).map(|index| (format!("s_{index}.secret"), 57)).collect();
    assert_eq!(resumes, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_connections_are_not_resumed() {
    let server = server(|index| if index < 4 { CLOSES } else { PATIENT }).await;
    let json = report(&format!("storm {} --connections 10 --rate 1000 --duration 200ms", server.url())).await;
    assert_has(&json, &[("/connected", 10.into()), ("/unexpected_closes", 4.into())]);
    assert_has(&json, &[("/dropped", 6.into()), ("/resumed", 6.into())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_storm_has_its_own_phase_on_several_threads() {
    let (server, pid) = (patient_server().await, std::process::id());
    let options = format!("--connections 200 --rate 200 --duration 500ms --threads 3 --pid {pid}");
    let json = report(&format!("storm {} {options}", server.url())).await;
    assert_has(&json, &[("/resumed", 200.into()), ("/loadgen/threads", 3.into())]);
    let phases = json["phases"].as_array().expect("it is a list").iter().map(|phase| &phase["name"]);
    assert_eq!(phases.collect::<Vec<_>>(), ["connect", "hold", "resume"]);
    assert!(number(&json, "/server/phases/connect/resident_bytes/peak") > 0.0, "{json:#}");
    let [of_phase, of_run] = ["/server/phases/resume", "/server"]
        .map(|part| number(&json, &format!("{part}/resident_bytes/peak")));
    assert!(of_phase <= of_run, "{json:#}");
}
