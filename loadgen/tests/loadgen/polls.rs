//! Tests of `--target poll`, that is, of long-polling.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fake_polls::{FakePolls, PollBehaviour};
use crate::run::{loadgen, number};

async fn run_on(server: &FakePolls, scenario: &str, options: &str) -> Value {
    let words =
        format!("{scenario} {} --target poll --connections 5 --rate 1000 --json - {options}", server.url());
    let ended = loadgen(&words).await;
    ended.assert_code(0);
    let json = ended.json();
    assert_eq!((&json["connected"], &json["target"]), (&json!(5), &json!("poll")), "{}", ended.stderr);
    json
}

async fn run(behaviour: PollBehaviour, scenario: &str, options: &str) -> Value {
    run_on(&FakePolls::start(behaviour).await, scenario, options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_follow_one_another() {
    let server = FakePolls::start(PollBehaviour::default()).await;
    let json = run_on(&server, "hold", "--duration 1s --poll-hold 300ms").await;
    assert_eq!((&json["unexpected_closes"], &json["errors"]), (&json!(0), &json!(0)), "{json:#}");
    assert!(number(&json, "/pings") >= 10.0, "{json:#}");
    assert_eq!(json["holds_early"], 0, "{json:#}");
    assert_eq!(json["hold_lateness_ms"]["count"], json["pings"], "{json:#}");
    assert_eq!(json["traffic"]["connections_max"], 5, "each session uses one connection");
    let requests = server.requests();
    assert_eq!(requests.iter().filter(|line| *line == "GET /poll?channels=news HTTP/1.1 ").count(), 5);
    let rest: Vec<_> = requests.iter().filter(|line| !line.contains("channels")).collect();
    assert!(rest.iter().all(|line| *line == "GET /poll?resume=s_1.secret&seq=0 HTTP/1.1 "), "{requests:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_that_are_too_short_or_too_long_are_reported() {
    let early = run(PollBehaviour::default(), "hold", "--duration 800ms --poll-hold 2s").await;
    assert_eq!(early["holds_early"], early["pings"], "{early:#}");
    assert!(number(&early, "/pings") >= 5.0, "{early:#}");
    let late = run(PollBehaviour::default(), "hold", "--duration 800ms --poll-hold 100ms").await;
    assert_eq!(late["holds_early"], 0, "{late:#}");
    assert!(number(&late, "/hold_lateness_ms/p50") >= 199.0, "{late:#}");
    let unknown = run(PollBehaviour::default(), "hold", "--duration 500ms").await;
    assert_eq!(unknown.get("holds_early"), None, "the hold time is unknown: {unknown:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_takes_no_more_requests_is_replaced() {
    let behaviour =
        PollBehaviour { answer: ("200 OK", "Connection: close\r\n", "[]"), ..PollBehaviour::default() };
    let json = run(behaviour, "hold", "--duration 1s --poll-hold 300ms").await;
    assert_eq!(json["unexpected_closes"], 0, "{json:#}");
    assert!(number(&json, "/pings") >= 10.0, "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_are_counted() {
    const IDLE: &str = r#"[{"message":{"seq":1,"channel":"news","offset":1,"data":1}},
                           {"goaway":{"reason":"idle","retry_ms":1}}]"#;
    for (answer, code, messages) in [
        (("200 OK", "", IDLE), "4004", 5),
        (("409 Conflict", "Retry-After: 1\r\n", "{}"), "409", 0),
        (("503 Service Unavailable", "", ""), "503", 0),
        (("200 OK", "", "<html>"), "1002", 0),
    ] {
        // The run ends when no connection is left.
        let json = run(PollBehaviour { answer, ..PollBehaviour::default() }, "hold", "--duration 1h").await;
        assert_eq!(json["unexpected_closes"], 5, "{json:#}");
        assert_eq!(json["close_codes"], json!({code: 5}), "{json:#}");
        assert_eq!(json["traffic"]["messages"], messages, "{json:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resume_sends_an_acknowledgement() {
    let behaviour = PollBehaviour { hold: Duration::from_mins(1), ..PollBehaviour::default() };
    let server = FakePolls::start(behaviour).await;
    let json = run_on(&server, "storm", "--duration 300ms").await;
    assert_eq!((&json["resumed"], &json["errors"]), (&json!(5), &json!(0)), "{json:#}");
    let requests = server.requests();
    let acks =
        requests.iter().filter(|it| *it == r#"POST /poll?resume=s_1.secret HTTP/1.1 {"ack":{"seq":0}}"#);
    assert_eq!(acks.count(), 5, "{requests:?}");
    let json = run(PollBehaviour { keeps_sessions: false, ..behaviour }, "storm", "--duration 300ms").await;
    assert_eq!(json["resumed"], 0, "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leaving_client_ends_its_session() {
    let server =
        FakePolls::start(PollBehaviour { hold: Duration::from_mins(1), ..PollBehaviour::default() }).await;
    let (url, options) = (server.url(), "--rate 50 --duration 1s --lifetime fixed:100ms --json -");
    let json = loadgen(&format!("churn {url} --target poll {options}")).await.json();
    assert_eq!(json["unexpected_closes"], 0, "{json:#}");
    let goodbyes = server.requests().iter().filter(|it| it.ends_with(r#" {"close":{}}"#)).count();
    assert!(goodbyes > 0 && number(&json, "/left") > 0.0, "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_options_are_refused_before_the_run() {
    let held = "--connections 20 --rate 1 --duration 1s";
    for (words, part) in [
        (format!("mute http://127.0.0.1:1/poll {held}"), "mute needs pings that require an answer"),
        (format!("late http://127.0.0.1:1/poll {held}"), "late needs pings that require an answer"),
        (format!("hold http://127.0.0.1:1/poll {held} --ping-every 1s"), "hold needs answers to pings"),
        ("fanout http://127.0.0.1:1/poll --ack-every 1".to_owned(), "a poll acknowledges implicitly"),
        ("slow http://127.0.0.1:1/poll".to_owned(), "slow needs messages that are pushed"),
        ("abuse http://127.0.0.1:1/poll --attack publishes".to_owned(), "the json dialect over WebSocket"),
        (format!("hold ws://127.0.0.1:1/ws {held}"), "--target poll requires a URL with http://"),
    ] {
        let ended = loadgen(&format!("{words} --target poll")).await;
        ended.assert_code(2);
        assert!(ended.stderr.contains(part), "{part} for {words} in {}", ended.stderr);
    }
}
