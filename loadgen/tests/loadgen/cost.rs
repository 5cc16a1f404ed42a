//! Tests of resource sampling: of the server with `--pid` and `--admin`, and of loadgen itself in every run.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

use crate::fake_server::{Behaviour, FakeServer};
use crate::run::{loadgen, number};

async fn holding_server() -> FakeServer {
    FakeServer::start(|_| Behaviour::GiveUpAfter(Duration::from_secs(10))).await
}

fn column<'a>(json: &'a Value, name: &str) -> &'a [Value] {
    json["series"]["gauges"][name].as_array().unwrap_or_else(|| panic!("no {name} in {json:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_process_is_sampled() {
    // The server runs in this process.
    let (server, pid) = (holding_server().await, std::process::id());
    let run =
        format!("hold {} --connections 50 --rate 500 --duration 2500ms --pid {pid} --json -", server.url());
    let json = loadgen(&run).await.json();
    assert_eq!((&json["server"]["pid"], &json["server"]["ended"]), (&json!(pid), &json!(false)));
    assert!(json["server"]["resident_from"].is_string());
    for path in ["cpu_seconds", "cores/mean", "cores/peak", "resident_bytes/steady", "threads_peak"] {
        assert!(number(&json, &format!("/server/{path}")) > 0.0, "{path} in {json:#}");
    }
    let [before, peak] = ["before", "peak"].map(|name| number(&json, &format!("/server/descriptors/{name}")));
    assert!(peak >= 50.0 && before > 0.0, "every connection uses a descriptor: {json:#}");
    assert_eq!(json["server"]["steady_connections"], 50);
    for name in ["server.cores", "server.resident_bytes", "server.descriptors", "server.threads"] {
        assert!(column(&json, name).iter().all(Value::is_number), "{name} in {json:#}");
    }
    for path in ["cores/mean", "bytes_per_connection", "resident_bytes/before"] {
        assert!(number(&json, &format!("/loadgen/{path}")) > 0.0, "{path} in {json:#}");
    }
    assert_eq!(json["loadgen"]["saturated_seconds"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_sources_are_refused_before_the_run() {
    let (server, listener) = (holding_server().await, TcpListener::bind("127.0.0.1:0").await);
    let closed = listener.and_then(|listener| listener.local_addr()).expect("loopback has a free port");
    for (options, code, why) in [
        ("--pid 4294967295".to_owned(), 1, "there is no process 4294967295"),
        ("--pid 0".to_owned(), 2, "0 is not in"),
        ("--pid encke".to_owned(), 2, "invalid digit"),
        ("--api-key k".to_owned(), 2, "--admin"),
        (format!("--admin http://{closed}"), 1, "cannot sample the admin API"),
    ] {
        let run = format!("hold {} --connections 1 --rate 1 --duration 1h {options}", server.url());
        let ended = loadgen(&run).await;
        ended.assert_code(code);
        assert!(ended.stderr.contains(why), "{why} in {}", ended.stderr);
    }
    assert_eq!(server.seen(|seen| seen.greeted), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_run_continues_after_the_process_has_ended() {
    let server = holding_server().await;
    let mut sampled = Command::new("sleep").arg("1h").spawn().expect("sleep is installed");
    let run = format!(
        "hold {} --connections 5 --rate 50 --duration 2500ms --json - --pid {}",
        server.url(),
        sampled.id()
    );
    let running = tokio::spawn(async move { loadgen(&run).await });
    server.has_greeted(5).await;
    let end = spawn_blocking(move || sampled.kill().and_then(|()| sampled.wait()));
    end.await.expect("the task does not panic").expect("the process can be killed");
    let ended = running.await.expect("the task does not panic");
    ended.assert_code(0);
    assert!(ended.stderr.contains("ended during the run"), "{}", ended.stderr);
    let json = ended.json();
    assert_eq!((&json["connected"], &json["server"]["ended"]), (&json!(5), &json!(true)));
    assert!(column(&json, "server.resident_bytes").last().is_some_and(Value::is_null), "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timers_of_encke_are_sampled() {
    let server = holding_server().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let admin = listener.local_addr().expect("a bound socket has an address");
    tokio::spawn(serve_timers(listener));
    let run = format!(
        "hold {} --connections 5 --rate 50 --duration 2500ms --json - --admin http://{admin}/ --api-key k1",
        server.url()
    );
    let json = loadgen(&run).await.json();
    let timers = &json["server"]["timers"];
    assert_eq!(
        (&timers["missed_samples"], &timers["lateness_ms"]["p99.9"]),
        (&json!(0), &json!(2.0)),
        "{json:#}"
    );
    let [entries, expiries] =
        ["entries_peak", "expiries"].map(|name| timers[name].as_u64().expect("it is a count"));
    assert!(
        entries >= 3 && expiries == 10 * (entries - 1),
        "one answer per second, and one at each end: {json:#}"
    );
    assert!(column(&json, "server.timers.entries").len() >= 2);
    assert_eq!(column(&json, "server.timers.level1")[0], 7.0);
}

/// Responds to each request with one more entry and ten more expiries than before.
async fn serve_timers(listener: TcpListener) {
    let (stream, _) = listener.accept().await.expect("loadgen connects");
    let mut stream = BufReader::new(stream);
    for answer in 1.. {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await.expect("loadgen writes") == 0 {
                return;
            }
        }
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with("get /api/timers http/1.1"), "{head}");
        assert!(head.contains("authorization: bearer k1"), "{head}");
        let body = json!({
            "scheme": "hierarchical", "tick_ms": 10.0, "entries": answer, "levels": [answer, 7],
            "lateness": {"count": 10 * answer, "p50_ms": 0.1, "p99_ms": 1.0, "p999_ms": 2.0, "max_ms": 3.0},
            "dispatch": {"depth": 0, "capacity": 1024, "workers": 2, "age_ms": 0.0},
            "stalls": {"count": 0, "stolen_ms": 0.0}, "since_last_turn_ms": 1.0,
        })
        .to_string();
        let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(reply.as_bytes()).await.expect("loadgen reads");
    }
}
