//! Tests of resource sampling: of the server with `--pid` and `--admin`, and of loadgen itself in every run.

use std::process::Command;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

use crate::fake_http::{Answer, FakeHttp};
use crate::run::{assert_has, loadgen, number, patient_server, report};

fn column<'a>(json: &'a Value, name: &str) -> &'a [Value] {
    json["series"]["gauges"][name].as_array().unwrap_or_else(|| panic!("no {name} in {json:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_process_is_sampled() {
    // The server runs in this process.
    let (server, pid) = (patient_server().await, std::process::id());
    let options = format!("--connections 50 --rate 500 --duration 2500ms --pid {pid}");
    let json = report(&format!("hold {} {options}", server.url())).await;
    assert_has(&json, &[("/server/pid", pid.into()), ("/server/ended", false.into())]);
    assert_has(&json, &[("/server/steady_connections", 50.into()), ("/loadgen/saturated_seconds", 0.into())]);
    assert!(json["server"]["resident_from"].is_string());
    for path in ["cpu_seconds", "cores/mean", "cores/peak", "resident_bytes/steady", "threads_peak"] {
        assert!(number(&json, &format!("/server/{path}")) > 0.0, "{path} in {json:#}");
    }
    let [before, peak] = ["before", "peak"].map(|name| number(&json, &format!("/server/descriptors/{name}")));
    assert!(peak >= 50.0 && before > 0.0, "every connection uses a descriptor: {json:#}");
    for name in ["server.cores", "server.resident_bytes", "server.descriptors", "server.threads"] {
        assert!(column(&json, name).iter().all(Value::is_number), "{name} in {json:#}");
    }
    for path in ["cores/mean", "bytes_per_connection", "resident_bytes/before"] {
        assert!(number(&json, &format!("/loadgen/{path}")) > 0.0, "{path} in {json:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_sources_are_refused_before_the_run() {
    let (server, listener) = (patient_server().await, TcpListener::bind("127.0.0.1:0").await);
    let closed = listener.and_then(|listener| listener.local_addr()).expect("loopback has a free port");
    for (options, code, why) in [
        ("--pid 4294967295".to_owned(), 1, "there is no process 4294967295"),
        ("--pid 0".to_owned(), 2, "0 is not in"),
        ("--pid encke".to_owned(), 2, "invalid digit"),
        ("--api-key k".to_owned(), 2, "--admin"),
        (format!("--admin http://{closed}"), 1, "cannot sample the admin API"),
    ] {
        let run = format!("hold {} --connections 1 --rate 1 --duration 1h {options}", server.url());
        loadgen(&run).await.assert_failed(code, why);
    }
    assert_eq!(server.seen().greeted, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_run_continues_after_the_process_has_ended() {
    let server = patient_server().await;
    let mut sampled = Command::new("sleep").arg("1h").spawn().expect("sleep is installed");
    let options = format!("--connections 5 --rate 50 --duration 2500ms --json - --pid {}", sampled.id());
    let run = format!("hold {} {options}", server.url());
    let running = tokio::spawn(async move { loadgen(&run).await });
    server.has_greeted(5).await;
    let end = spawn_blocking(move || sampled.kill().and_then(|()| sampled.wait()));
    end.await.expect("the task does not panic").expect("the process can be killed");
    let ended = running.await.expect("the task does not panic");
    ended.assert_failed(0, "ended during the run");
    assert_has(&ended.json(), &[("/connected", 5.into()), ("/server/ended", true.into())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timers_of_encke_are_sampled() {
    let server = patient_server().await;
    // Each answer has one more entry and ten more expiries than the one before.
    let admin = FakeHttp::start(|number, request| {
        let request = request.to_ascii_lowercase();
        assert!(request.starts_with("get /api/timers http/1.1"), "{request}");
        assert!(request.contains("authorization: bearer k1"), "{request}");
        let body = json!({
            "scheme": "hierarchical", "tick_ms": 10.0, "entries": number, "levels": [number, 7],
            "lateness": {"count": 10 * number, "p50_ms": 0.1, "p99_ms": 1.0, "p999_ms": 2.0, "max_ms": 3.0},
            "dispatch": {"depth": 0, "capacity": 1024, "workers": 2, "age_ms": 0.0},
            "stalls": {"count": 0, "stolen_ms": 0.0}, "since_last_turn_ms": 1.0,
        });
        Answer::new("200 OK", "", &body.to_string())
    })
    .await;
    let options = "--connections 5 --rate 50 --duration 2500ms --api-key k1 --admin";
    let json = report(&format!("hold {} {options} http://{}/", server.url(), admin.address)).await;
    let timers = &json["server"]["timers"];
    assert_has(timers, &[("/missed_samples", 0.into()), ("/lateness_ms/p99.9", 2.0.into())]);
    let [entries, expiries] = ["/entries_peak", "/expiries"].map(|name| number(timers, name));
    assert!(
        entries >= 3.0 && expiries == 10.0 * (entries - 1.0),
        "one answer per second, and one at each end: {json:#}"
    );
    assert!(column(&json, "server.timers.entries").len() >= 2);
    assert_eq!(column(&json, "server.timers.level1")[0], 7.0);
}
