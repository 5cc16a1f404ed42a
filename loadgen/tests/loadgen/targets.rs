//! Tests of targets other than Encke.

use std::time::Duration;

use encke_loadgen::behaviour::{Behaviour, HONEST, Opening};
use serde_json::{Value, json};

use crate::fake_http::{Answer, FakeHttp};
use crate::run::{PATIENT, assert_has, loadgen, mix, number, report, server};

/// A plain WebSocket server. Its ping timeout is much longer than the one that the tests expect, so that a client
/// that reads a ping late, on a busy machine, does not count the close as early.
const PLAIN: Behaviour =
    Behaviour { pong_timeout: Some(Duration::from_millis(1500)), code_for_silence: Some(1001), ..HONEST };

const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";
const HELLO: &str = r#"[{"hello":{"version":1,"session":"s_1","resume":"s_1.secret","recovered":false,"seq":0,
    "ping_interval_ms":25000,"pong_timeout_ms":10000,"reconnect_window_ms":60000}}]"#;
const EVENTS: &str = "id: 1\ndata: a\n\n: still here\n\nid: 2\r\ndata: b\r\n\r\n";

/// Starts a server whose event streams consist of this text, and continue after it if `stays`.
async fn event_server(text: String, stays: bool) -> FakeHttp {
    FakeHttp::start(move |_, _| Answer { delay: Duration::ZERO, text: text.clone(), stays }).await
}

fn sse(server: &FakeHttp) -> String {
    format!("http://{}/path --target sse", server.address)
}

/// How a long-polling server behaves.
#[derive(Clone, Copy)]
struct Polls {
    hold: Duration,
    /// Status, additional headers and body of an answer to a poll.
    answer: (&'static str, &'static str, &'static str),
    keeps_sessions: bool,
}

const POLLS: Polls =
    Polls { hold: Duration::from_millis(300), answer: ("200 OK", "", "[]"), keeps_sessions: true };
const LONG_POLLS: Polls = Polls { hold: Duration::from_mins(1), ..POLLS };

impl Polls {
    /// Starts a server without messages.
    async fn start(self) -> FakeHttp {
        FakeHttp::start(move |_, request| {
            let is_new = !request.contains("resume=");
            let (status, headers, body) = self.answer;
            match (request.starts_with("POST"), self.keeps_sessions) {
                (true, true) => Answer::new("200 OK", "", "[]"),
                (true, false) => Answer::new("410 Gone", "", r#"{"error":{"code":"gone"}}"#),
                (false, keeps) if is_new || !keeps => Answer::new("200 OK", "", HELLO),
                _ => Answer { delay: self.hold, ..Answer::new(status, headers, body) },
            }
        })
        .await
    }

    async fn run(self, scenario: &str, options: &str) -> Value {
        run_five(scenario, &poll(&self.start().await), options).await
    }
}

fn poll(server: &FakeHttp) -> String {
    format!("http://{}/poll?channels=news --target poll", server.address)
}

/// Runs five clients against a target, and asserts that all of them connect.
async fn run_five(scenario: &str, target: &str, options: &str) -> Value {
    let json = report(&format!("{scenario} {target} --connections 5 --rate 1000 {options}")).await;
    let (url, name) = target.split_once(" --target ").expect("it is an URL and a target");
    assert_has(&json, &[("/connected", 5.into()), ("/url", url.into()), ("/target", name.into())]);
    json
}

/// Returns the sum of a count over all seconds.
fn sum(json: &Value, name: &str) -> f64 {
    let column = json["series"]["counts"][name].as_array().unwrap_or_else(|| panic!("{name}: {json:#}"));
    column.iter().filter_map(Value::as_f64).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_servers_are_held_and_pinged() {
    let server = server(|_| PATIENT).await;
    let target = format!("{} --target plain", server.url());
    let json = run_five("hold", &target, "--duration 2s --ping-every 100ms").await;
    assert_eq!(json["unexpected_closes"], 0, "{json:#}");
    assert!(number(&json, "/pings") >= 10.0, "{json:#}");
    let [sent, pongs, timed] = ["/pings_sent", "/pongs", "/pong_ms/count"].map(|path| number(&json, path));
    assert!(sent >= pongs && pongs >= 10.0, "{json:#}");
    assert_eq!((pongs, sum(&json, "pongs")), (timed, pongs), "{json:#}");
    assert!(number(&json, "/pong_ms/p50") >= number(&json, "/pong_from_start_ms/p50"), "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_servers_detect_mute_clients() {
    let server = server(|_| PLAIN).await;
    let target = format!("{} --target plain", server.url());
    let json = run_five("mute", &target, "--duration 1h --pong-timeout 300ms").await;
    // Servers other than Encke use their own close code, or none.
    assert_has(&json, &[("/closed", 5.into()), ("/close_codes/1001", 5.into())]);
    assert!(number(&json, "/lateness_ms/p50") > 0.0, "{json:#}");
    let [early, lag] = ["/early", "/loadgen/lag_ms_max"].map(|path| number(&json, path));
    assert!(early == 0.0 || lag >= 20.0, "on a busy machine loadgen reads late: {json:#}");
    let json = run_five("mute", &target, "--duration 1h --pong-timeout 1m").await;
    // They are early relative to the given timeout.
    assert_has(&json, &[("/closed", 5.into()), ("/early", 5.into())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn event_streams_are_held() {
    let server = event_server(format!("{STREAM}{EVENTS}"), true).await;
    let pid = std::process::id();
    let options = format!("--duration 2500ms --threads 2 --pid {pid} --assert connected==5");
    let json = run_five("hold", &sse(&server), &options).await;
    assert_has(&json, &[("/unexpected_closes", 0.into()), ("/errors", 0.into())]);
    assert_has(&json, &[("/traffic/messages", 10.into()), ("/pings", 5.into())]);
    assert_has(&json, &[("/loadgen/threads", 2.into()), ("/server/steady_connections", 5.into())]);
    assert_eq!(json["series"]["gauges"]["connections"][0], 5.0, "{json:#}");
    assert!(server.requests()[0].contains("Accept: text/event-stream\r\n"), "{:?}", server.requests());
}

#[tokio::test(flavor = "multi_thread")]
async fn event_streams_resume_after_the_last_id() {
    let server = event_server(format!("{STREAM}{EVENTS}"), true).await;
    let json = run_five("storm", &sse(&server), "--duration 500ms").await;
    assert_has(&json, &[("/resumed", 5.into()), ("/errors", 0.into())]);
    let requests = server.requests();
    assert!(requests[..5].iter().all(|head| !head.contains("Last-Event-ID")), "{requests:?}");
    assert!(requests[5..].iter().all(|head| head.contains("Last-Event-ID: 2\r\n")), "{requests:?}");
    let without_ids = event_server(format!("{STREAM}data: a\n\n"), true).await;
    let json = run_five("storm", &sse(&without_ids), "--duration 100ms").await;
    assert_eq!(json["error_kinds"], json!({"not_recovered": 5}), "there is no id to resume from: {json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn closes_by_the_server_are_counted() {
    let plain = server(|_| Behaviour { opening: Opening::Close(4002), ..HONEST }).await;
    let chunked = |chunks| event_server(format!("{CHUNKED}{chunks}"), false);
    let ends = chunked("c\r\nid: 1\r\ndata:\r\n5\r\n a\n\n\r\r\n0\r\n\r\n").await;
    let breaks = chunked("ff\r\ndata: a\n\n").await;
    let poll_of = async |answer| Polls { answer, ..POLLS }.start().await;
    let idle = r#"[{"message":{"seq":1,"channel":"news","offset":1,"data":1}},
                   {"goaway":{"reason":"idle","retry_ms":1}}]"#;
    for (target, code, messages) in [
        (format!("{} --target plain", plain.url()), "4002", 0),
        (sse(&ends), "1005", 5),
        (sse(&breaks), "1006", 5),
        (poll(&poll_of(("200 OK", "", idle)).await), "4004", 5),
        (poll(&poll_of(("409 Conflict", "Retry-After: 1\r\n", "{}")).await), "409", 0),
        (poll(&poll_of(("503 Service Unavailable", "", "")).await), "503", 0),
        (poll(&poll_of(("200 OK", "", "<html>")).await), "1002", 0),
    ] {
        // The run ends when no connection is left.
        let json = run_five("hold", &target, "--duration 1h").await;
        assert_has(&json, &[("/unexpected_closes", 5.into()), ("/close_codes", json!({code: 5}))]);
        assert_eq!(sum(&json, &format!("close_codes.{code}")), 5.0, "{target}: {json:#}");
        assert_eq!(json["traffic"]["messages"], messages, "{target}: {json:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_clients_are_errors() {
    let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello";
    for (answer, error) in [("HTTP/1.1 204 No Content\r\n\r\n", "http_204"), (page, "no_event_stream")] {
        let server = event_server(answer.to_owned(), false).await;
        let options = "--connections 3 --rate 1000 --duration 0s --json -";
        let ended = loadgen(&format!("hold {} {options}", sse(&server))).await;
        ended.assert_code(1);
        assert_eq!(ended.json()["error_kinds"], json!({error: 3}), "{}", ended.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_follow_one_another() {
    let server = POLLS.start().await;
    let json = run_five("hold", &poll(&server), "--duration 1s --poll-hold 300ms").await;
    assert_has(&json, &[("/unexpected_closes", 0.into()), ("/errors", 0.into()), ("/holds_early", 0.into())]);
    assert!(number(&json, "/pings") >= 10.0, "{json:#}");
    assert_eq!(json["hold_lateness_ms"]["count"], json["pings"], "{json:#}");
    assert_eq!(json["traffic"]["connections_max"], 5, "each session uses one connection");
    let requests = server.requests();
    let opened = requests.iter().filter(|it| it.starts_with("GET /poll?channels=news HTTP/1.1\r\n"));
    assert_eq!(opened.count(), 5);
    let rest: Vec<_> = requests.iter().filter(|it| !it.contains("channels")).collect();
    let resumes = "GET /poll?resume=s_1.secret&seq=0 HTTP/1.1\r\n";
    assert!(rest.iter().all(|it| it.starts_with(resumes)), "{requests:?}");
    let answer = ("200 OK", "Connection: close\r\n", "[]");
    let json = Polls { answer, ..POLLS }.run("hold", "--duration 1s --poll-hold 300ms").await;
    assert_eq!(
        json["unexpected_closes"], 0,
        "a connection that takes no more requests is replaced: {json:#}"
    );
    assert!(number(&json, "/pings") >= 10.0, "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_that_are_too_short_or_too_long_are_reported() {
    let early = POLLS.run("hold", "--duration 800ms --poll-hold 2s").await;
    assert_eq!(early["holds_early"], early["pings"], "{early:#}");
    assert!(number(&early, "/pings") >= 5.0, "{early:#}");
    let late = POLLS.run("hold", "--duration 800ms --poll-hold 100ms").await;
    assert_eq!(late["holds_early"], 0, "{late:#}");
    assert!(number(&late, "/hold_lateness_ms/p50") >= 199.0, "{late:#}");
    let unknown = POLLS.run("hold", "--duration 500ms").await;
    assert_eq!(unknown["hold_lateness_ms"]["count"], 0, "the hold time is unknown: {unknown:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_polling_client_acknowledges_before_it_resumes() {
    let server = LONG_POLLS.start().await;
    let json = run_five("storm", &poll(&server), "--duration 300ms").await;
    assert_has(&json, &[("/resumed", 5.into()), ("/errors", 0.into())]);
    let requests = server.requests();
    let is_ack = |request: &&String| {
        request.starts_with("POST /poll?resume=s_1.secret ") && request.ends_with(r#"{"ack":{"seq":0}}"#)
    };
    assert_eq!(requests.iter().filter(is_ack).count(), 5, "{requests:?}");
    let json = Polls { keeps_sessions: false, ..LONG_POLLS }.run("storm", "--duration 300ms").await;
    assert_eq!(json["resumed"], 0, "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_polling_client_ends_its_session_when_it_leaves() {
    let server = LONG_POLLS.start().await;
    let json =
        report(&format!("churn {} --rate 50 --duration 1s --lifetime fixed:100ms", poll(&server))).await;
    assert_eq!(json["unexpected_closes"], 0, "{json:#}");
    let goodbyes = server.requests().iter().filter(|it| it.ends_with(r#"{"close":{}}"#)).count();
    assert!(goodbyes > 0 && number(&json, "/left") > 0.0, "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_runs_on_the_target_of_its_mix() {
    let plan = "phase = [{ kind = 'hold', duration = '1s', run = [{ scenario = 'hold', connections = 5 }] }]";
    let ended = mix(&format!("{} --poll-hold 300ms", poll(&POLLS.start().await)), plan).await;
    ended.assert_code(0);
    assert!(number(&ended.json(), "/hold_lateness_ms/count") > 0.0, "{}", ended.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_options_are_refused_before_the_run() {
    for (words, parts) in [
        ("fanout ws://127.0.0.1:1/ --target plain", ["fanout", "channels", "plain"]),
        ("mute http://127.0.0.1:1/ --target sse", ["mute", "pings", "sse"]),
        ("mute ws://127.0.0.1:1/ --target plain", ["mute", "--pong-timeout", "plain"]),
        ("storm ws://127.0.0.1:1/ --target plain", ["storm", "resuming", "plain"]),
        ("hold http://127.0.0.1:1/ --target sse --ping-every 1s", ["hold", "answers to pings", "sse"]),
        ("hold ws://127.0.0.1:1/ --target sse", ["http://", "sse", "ws://"]),
        ("hold http://127.0.0.1:1/", ["ws://", "encke", "http://"]),
        ("hold ws://127.0.0.1:1/ --target comet", ["comet", "bayeux", "--target"]),
        ("mute http://127.0.0.1:1/ --target poll", ["mute", "pings that require an answer", "poll"]),
        ("hold http://127.0.0.1:1/ --target poll --ping-every 1s", ["hold", "answers to pings", "poll"]),
        ("fanout http://127.0.0.1:1/ --target poll --ack-every 1", ["fanout", "acknowledges implicitly", ""]),
        ("abuse http://127.0.0.1:1/ --target poll --attack publishes", ["abuse", "over WebSocket", "poll"]),
        ("hold ws://127.0.0.1:1/ --target poll", ["--target poll requires a URL with http://", "", ""]),
    ] {
        let ended = loadgen(words).await;
        for part in parts {
            ended.assert_failed(2, part);
        }
    }
}
