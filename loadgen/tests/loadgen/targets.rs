//! Tests of targets other than Encke.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::fake_targets::{FakeTarget, FakeTargetKind};
use crate::run::{assert_none_early, command, ended, loadgen, number};

/// One server of each kind of target.
const KINDS: [FakeTargetKind; 3] = [FakeTargetKind::Plain, FakeTargetKind::Sse, FakeTargetKind::Socketio];

/// Runs five clients against a server of this kind, and asserts that all of them connect.
async fn run(scenario: &str, kind: FakeTargetKind, options: &str) -> Value {
    run_on(&FakeTarget::start(kind).await, scenario, options).await
}

async fn run_on(server: &FakeTarget, scenario: &str, options: &str) -> Value {
    let (url, target) = (server.url(), server.target());
    let words = format!("{scenario} {url} --target {target} --connections 5 --rate 1000 --json - {options}");
    let ended = loadgen(&words).await;
    ended.assert_code(0);
    let json = ended.json();
    assert_eq!(json["connected"], 5, "{}", ended.stderr);
    assert_eq!((&json["target"], &json["url"]), (&json!(target), &json!(url)));
    json
}

/// Returns the sum of a count over all seconds.
fn sum(json: &Value, name: &str) -> f64 {
    let column = json["series"]["counts"][name].as_array().unwrap_or_else(|| panic!("{name}: {json:#}"));
    column.iter().filter_map(Value::as_f64).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_servers_are_held_and_pinged() {
    let json =
        run_on(&FakeTarget::patient(FakeTargetKind::Plain).await, "hold", "--duration 2s --ping-every 100ms")
            .await;
    assert_eq!(json["unexpected_closes"], 0, "{json:#}");
    assert!(number(&json, "/pings") >= 10.0, "{json:#}");
    let [sent, pongs, timed] = ["/pings_sent", "/pongs", "/pong_ms/count"].map(|path| number(&json, path));
    assert!(sent >= pongs && pongs >= 10.0, "{json:#}");
    assert_eq!((pongs, sum(&json, "pongs")), (timed, pongs), "{json:#}");
    assert!(number(&json, "/pong_ms/p50") >= number(&json, "/pong_from_start_ms/p50"), "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_servers_detect_mute_clients() {
    let json = run("mute", FakeTargetKind::Plain, "--duration 1h --pong-timeout 300ms").await;
    // Servers other than Encke use their own close code, or none.
    assert_eq!(json["closed"], 5, "{json:#}");
    assert_none_early(&json);
    assert_eq!(json["close_codes"], json!({"1001": 5}));
    assert!(number(&json, "/lateness_ms/p50") >= 30.0, "{json:#}");
    let json = run("mute", FakeTargetKind::Plain, "--duration 1h --pong-timeout 3s").await;
    assert_eq!(
        (&json["closed"], &json["early"]),
        (&json!(5), &json!(5)),
        "early relative to the given timeout: {json:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_servers_and_socketio_detect_late_answers() {
    for (kind, more) in [(FakeTargetKind::Plain, "--pong-timeout 300ms"), (FakeTargetKind::Socketio, "")] {
        // The margin leaves as much time as possible for the answers: this process may not run for a while on
        // a busy machine.
        let json = run("late", kind, &format!("--duration 1500ms --margin 250ms {more}")).await;
        assert_eq!((&json["closed_in_time"], &json["forgiven"]), (&json!(0), &json!(0)), "{json:#}");
        assert_eq!(json["closed"], 2, "{json:#}");
        assert_none_early(&json);
        assert!(number(&json, "/in_time") >= 3.0, "{json:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn socketio_is_held_and_its_pings_are_answered() {
    let json = run_on(
        &FakeTarget::patient(FakeTargetKind::Socketio).await,
        "hold",
        "--duration 2s --ping-every 100ms",
    )
    .await;
    assert_eq!(json["unexpected_closes"], 0, "{json:#}");
    assert!(number(&json, "/pings") >= 10.0, "{json:#}");
    assert!(number(&json, "/pongs") >= 10.0, "pongs to WebSocket pings: {json:#}");
    assert_eq!(json["traffic"]["messages"], 5, "one event per connection, without the greeting: {json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn socketio_detects_mute_clients() {
    let json = run("mute", FakeTargetKind::Socketio, "--duration 1h").await;
    assert_eq!(json["closed"], 5, "{json:#}");
    assert_none_early(&json);
    assert_eq!(json["lateness_ms"]["count"], 5, "the server announces its timeout: {json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn socketio_connections_are_recovered() {
    let server = FakeTarget::start(FakeTargetKind::Socketio).await;
    let json = run_on(&server, "storm", "--duration 500ms").await;
    assert_eq!((&json["dropped"], &json["resumed"]), (&json!(5), &json!(5)), "{json:#}");
    assert_eq!(json["errors"], 0, "{json:#}");
    let first_inputs = server.first_inputs();
    assert!(first_inputs[..5].iter().all(String::is_empty), "{first_inputs:?}");
    for connect in &first_inputs[5..] {
        assert!(connect.contains(r#""offset":"offset1""#), "{connect}");
    }
    // The server never ends a session, so clients that reconnect after the window still find theirs.
    let json =
        run("vanish", FakeTargetKind::Socketio, "--duration 200ms --reconnect-window 500ms --margin 200ms")
            .await;
    assert_eq!((&json["resumed"], &json["overdue"]), (&json!(3), &json!(2)), "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn event_streams_are_held() {
    let server = FakeTarget::start(FakeTargetKind::Sse).await;
    let json = run_on(&server, "hold", "--duration 300ms").await;
    assert_eq!(json["unexpected_closes"], 0, "{json:#}");
    assert_eq!((&json["traffic"]["messages"], &json["pings"]), (&json!(10), &json!(5)), "{json:#}");
    assert!(
        server.first_inputs()[0].contains("Accept: text/event-stream\r\n"),
        "{:?}",
        server.first_inputs()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn event_streams_resume_after_the_last_id() {
    let server = FakeTarget::start(FakeTargetKind::Sse).await;
    let json = run_on(&server, "storm", "--duration 500ms").await;
    assert_eq!((&json["resumed"], &json["errors"]), (&json!(5), &json!(0)), "{json:#}");
    let first_inputs = server.first_inputs();
    assert!(first_inputs[..5].iter().all(|head| !head.contains("Last-Event-ID")), "{first_inputs:?}");
    assert!(first_inputs[5..].iter().all(|head| head.contains("Last-Event-ID: 2\r\n")), "{first_inputs:?}");
    let json = run("storm", FakeTargetKind::SseWithoutIds, "--duration 100ms").await;
    assert_eq!(json["error_kinds"], json!({"not_recovered": 5}), "there is no id to resume from: {json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn closes_by_the_server_are_counted() {
    for (kind, code, messages) in [
        (FakeTargetKind::PlainThatCloses(4002), "4002", 0),
        (FakeTargetKind::SocketioThatDisconnects, "1005", 5),
        (FakeTargetKind::SseThatEnds, "1005", 5),
        (FakeTargetKind::SseThatBreaks, "1006", 5),
    ] {
        // The run ends when no connection is left.
        let json = run("hold", kind, "--duration 1h").await;
        assert_eq!(json["unexpected_closes"], 5, "{kind:?}: {json:#}");
        assert_eq!(json["close_codes"], json!({code: 5}), "{kind:?}: {json:#}");
        assert_eq!(sum(&json, &format!("closes.{code}")), 5.0, "{kind:?}: {json:#}");
        assert_eq!(json["traffic"]["messages"], messages, "{kind:?}: {json:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_clients_are_errors() {
    for (kind, error) in [
        (FakeTargetKind::SseNoContent, "http_204"),
        (FakeTargetKind::Page, "no_event_stream"),
        (FakeTargetKind::SocketioThatRefuses, "unwelcome"),
    ] {
        let server = FakeTarget::start(kind).await;
        let (url, target) = (server.url(), server.target());
        let held = "--connections 3 --rate 1000 --duration 0s --json -";
        let ended = loadgen(&format!("hold {url} --target {target} {held}")).await;
        ended.assert_code(1);
        assert_eq!(ended.json()["error_kinds"], json!({error: 3}), "{}", ended.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_target_runs_in_several_processes_with_its_cost() {
    for kind in KINDS {
        let pid = std::process::id();
        let options = format!("--duration 2500ms --processes 2 --pid {pid} --assert connected==5");
        let json = run("hold", kind, &options).await;
        assert_eq!(json["loadgen"]["processes"], 2);
        assert_eq!((&json["unexpected_closes"], &json["errors"]), (&json!(0), &json!(0)), "{json:#}");
        assert_eq!(json["series"]["gauges"]["connections"][0], 5.0, "{kind:?}: {json:#}");
        assert_eq!(json["server"]["steady_connections"], 5, "{kind:?}: {json:#}");
        assert!(number(&json, "/traffic/pings") >= 5.0, "{kind:?}: {json:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_every_target_with_the_partial_result() {
    for kind in KINDS {
        let server = FakeTarget::start(kind).await;
        let (url, target) = (server.url(), server.target());
        let held = "--connections 1000 --rate 50 --duration 1h --json -";
        let mut command = command(&format!("hold {url} --target {target} {held}"));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        server.has_first_inputs(10).await;
        let pid = Pid::from_raw(child.id().try_into().expect("process ids fit into i32"));
        kill(pid, Signal::SIGINT).expect("the child is running");
        let output = spawn_blocking(move || child.wait_with_output()).await.expect("the task does not panic");
        let ended = ended(&output.expect("the child exits"));
        ended.assert_code(0);
        let json = ended.json();
        assert_eq!(json["interrupted"], true);
        assert!((1.0..1000.0).contains(&number(&json, "/connected")), "{kind:?}: {json:#}");
    }
}

/// Runs this plan.
async fn mix(server: &FakeTarget, plan: &str) -> crate::run::Ended {
    crate::run::mix(&format!("{} --target {}", server.url(), server.target()), plan).await
}

const PLAN: &str = r#"
    [[phase]]
    kind = "ramp"
    duration = "100ms"
    run = [{ scenario = "hold", connections = 5 }]

    [[phase]]
    kind = "soak"
    duration = "500ms"
    run = [
        { scenario = "storm", connections = 5, rate = 1000, duration = "200ms" },
        { scenario = "mute", name = "the silent", connections = 5, rate = 1000 },
    ]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_runs_on_another_target() {
    let ended = mix(&FakeTarget::start(FakeTargetKind::Socketio).await, PLAN).await;
    ended.assert_code(0);
    let json = ended.json();
    let soak = &json["plan"]["soak"]["runs"];
    assert_eq!((&soak["storm"]["resumed"], &json["errors"]), (&soak["storm"]["dropped"], &json!(0)));
    assert!(number(soak, "/the_silent/closed") >= 5.0, "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_runs_of_a_plan_are_refused_by_phase_and_run() {
    let server = FakeTarget::start(FakeTargetKind::Sse).await;
    let plan = format!(
        "{PLAN}\n[[phase]]\nkind = 'hold'\nduration = '1s'\nrun = [{{ scenario = 'fanout', connections = 5 }}]"
    );
    let ended = mix(&server, &plan).await;
    ended.assert_code(2);
    assert_eq!(
        ended.stderr,
        "loadgen: phase \"soak\", run \"the silent\": mute needs pings that require an answer, which --target sse does not support\n\
         loadgen: phase \"hold\", run \"fanout\": fanout needs channels, which --target sse does not support\n"
    );
    assert_eq!(server.first_inputs(), [""; 0], "no client connected");
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_scenarios_are_refused_before_the_run() {
    let held = "--connections 2 --rate 1 --duration 1s";
    for (words, parts) in [
        ("fanout ws://127.0.0.1:1/ --target plain".to_owned(), ["fanout", "channels", "plain"]),
        ("slow ws://127.0.0.1:1/ --target socketio".to_owned(), ["slow", "channels", "socketio"]),
        ("resume http://127.0.0.1:1/ --target sse".to_owned(), ["resume", "channels", "sse"]),
        (format!("mute http://127.0.0.1:1/ --target sse {held}"), ["mute", "pings", "sse"]),
        (format!("mute ws://127.0.0.1:1/ --target plain {held}"), ["mute", "--pong-timeout", "plain"]),
        (format!("storm ws://127.0.0.1:1/ --target plain {held}"), ["storm", "resuming", "plain"]),
        (
            format!("vanish ws://127.0.0.1:1/ --target socketio {held}"),
            ["vanish", "--reconnect-window", "socketio"],
        ),
        (format!("vanish http://127.0.0.1:1/ --target sse {held}"), ["vanish", "recovered", "sse"]),
        (
            format!("takeover ws://127.0.0.1:1/ --target socketio {held}"),
            ["takeover", "live sessions", "socketio"],
        ),
        (
            format!("hold http://127.0.0.1:1/ --target sse {held} --ping-every 1s"),
            ["hold", "answers to pings", "sse"],
        ),
        (format!("hold ws://127.0.0.1:1/ --target sse {held}"), ["http://", "sse", "ws://"]),
        (format!("hold http://127.0.0.1:1/ {held}"), ["ws://", "encke", "http://"]),
        (format!("hold ws://127.0.0.1:1/ --target comet {held}"), ["comet", "socketio", "--target"]),
    ] {
        let ended = loadgen(&words).await;
        ended.assert_code(2);
        for part in parts {
            assert!(ended.stderr.contains(part), "{part} for {words} in {}", ended.stderr);
        }
    }
}
