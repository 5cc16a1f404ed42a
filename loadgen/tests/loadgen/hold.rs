//! Tests of `hold`, which connects, answers pings, stays connected, and counts closes; and of `mute`.

use std::time::Duration;

use encke_loadgen::behaviour::{Behaviour, HONEST, Opening};
use serde_json::json;

use crate::run::{CLOSES, PATIENT, assert_has, loadgen, number, patient_server, report, server};

#[tokio::test(flavor = "multi_thread")]
async fn answers_pings_and_stays() {
    let server = patient_server().await;
    let json = report(&format!("hold {} --connections 50 --rate 500 --duration 2s", server.url())).await;
    assert_has(&json, &[("/connected", 50.into()), ("/errors", 0.into()), ("/unexpected_closes", 0.into())]);
    assert_eq!(json["close_codes"], json!({}));
    assert!(number(&json, "/elapsed_seconds") >= 2.098, "49 gaps of 2 ms, then 2 s");
    // There is time for a dozen pings each, but a busy machine delays some.
    assert!(number(&json, "/pings") >= 100.0 && server.seen().pongs >= 100, "{json:#}");
    let [p50, p99, max] = ["p50", "p99", "max"].map(|name| number(&json, &format!("/connect_ms/{name}")));
    assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_unexpected_closes_by_code() {
    let server = server(|index| match index % 5 {
        0 => CLOSES,
        1 | 2 => Behaviour { close_after_hello: Some(1001), ..HONEST },
        _ => PATIENT,
    })
    .await;
    let json = report(&format!("hold {} --connections 20 --rate 1000 --duration 3s", server.url())).await;
    assert_has(&json, &[("/connected", 20.into()), ("/unexpected_closes", 12.into())]);
    assert_eq!(json["close_codes"], json!({"1001": 8, "4002": 4}));
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_errors_by_kind_and_logs_the_first_of_each() {
    let opens = |opening| Behaviour { opening, ..HONEST };
    let server = server(move |index| match index % 5 {
        0 => opens(Opening::Refuse("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")),
        1 => opens(Opening::Refuse("")),
        2 => opens(Opening::Close(4005)),
        3 => Behaviour { hello_delay: Duration::from_secs(60), ..HONEST },
        _ => PATIENT,
    })
    .await;
    let options = "--connections 20 --rate 1000 --duration 100ms --connect-timeout 400ms --json -";
    let ended = loadgen(&format!("hold {} {options}", server.url())).await;
    ended.assert_code(0);
    let json = ended.json();
    assert_has(&json, &[("/connected", 4.into()), ("/errors", 16.into())]);
    let kinds = &json["error_kinds"];
    assert_eq!(*kinds, json!({"closed_4005": 4, "eof": 4, "http_503": 4, "timeout": 4}), "{json:#}");
    let lines = ended.stderr.lines().filter(|line| line.contains("first error of its kind")).count();
    assert_eq!(lines, kinds.as_object().expect("kinds are an object").len(), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mute_run_that_is_shorter_than_the_timeouts_is_refused() {
    let server = server(|_| HONEST).await;
    for threads in [1, 2] {
        let options = format!("--connections 1000 --rate 100 --duration 400ms --threads {threads}");
        let ended = loadgen(&format!("mute {} {options}", server.url())).await;
        let why = "the server pings every 150ms and waits 300ms for the pong, so it closes a mute connection after \
                   up to 450ms";
        ended.assert_failed(2, why);
        assert!(ended.stdout.is_empty(), "there is no result: {}", ended.stdout);
    }
    assert!(server.seen().greeted < 1000, "the first hello is enough to refuse the run");
}
