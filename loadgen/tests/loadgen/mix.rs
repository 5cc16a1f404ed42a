//! Tests of `mix`, which runs a plan of phases.

use serde_json::json;

use crate::fake_channel::{ChannelFault, FakeChannel};
use crate::fake_server::{Behaviour, FakeServer, PONG_TIMEOUT};
use crate::run::{loadgen, number};

async fn mix(fault: ChannelFault, plan: &str, options: &str) -> crate::run::Ended {
    let server = FakeChannel::start(fault).await;
    crate::run::mix(&format!("{} {options}", server.url()), plan).await
}

const PLAN: &str = r#"
    [[phase]]
    kind = "ramp"
    duration = "200ms"
    run = [{ scenario = "hold", name = "crowd", connections = 10 }]

    [[phase]]
    kind = "soak"
    duration = "1s"
      [[phase.run]]
      scenario = "storm"
      connections = 5
      rate = 1000
      duration = "100ms"
      [[phase.run]]
      scenario = "fanout"
      connections = 5
      messages = 10
      publish_rate = 100

    [[phase]]
    name = "the end"
    kind = "spike"
    duration = "300ms"
    run = [{ scenario = "hold", connections = 20 }]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn phases_follow_each_other_and_soak_repeats_runs() {
    let ended = mix(
        ChannelFault::None,
        PLAN,
        "--assert lost==0 --assert plan.ramp.runs.crowd.connected==10 --assert resume_ms.count>0",
    )
    .await;
    ended.assert_code(0);
    let json = ended.json();
    let phases = json["plan"].as_object().expect("phases are an object");
    assert_eq!(phases.keys().collect::<Vec<_>>(), ["ramp", "soak", "the_end"]);
    let soak = &json["plan"]["soak"]["runs"];
    let storms = number(soak, "/storm/times");
    let fanouts = number(soak, "/fanout/times");
    assert!(storms >= 2.0 && fanouts >= 2.0, "{json:#}");
    assert_eq!(number(soak, "/storm/dropped"), storms * 5.0);
    assert_eq!(
        number(&json, "/connect_ms/count"),
        number(&json, "/connected"),
        "times of all runs are merged"
    );
    assert_eq!(number(soak, "/storm/resumed"), storms * 5.0);
    assert_eq!(number(soak, "/fanout/expected"), fanouts * 50.0);
    assert_eq!(number(soak, "/fanout/received"), fanouts * 50.0);
    assert_eq!(json["plan"]["the_end"]["runs"]["hold"]["connected"], 20);
    assert!(number(&json, "/plan/soak/duration_seconds") >= 1.0, "{json:#}");
    assert_eq!(
        number(&json, "/connected"),
        30.0 + storms * 5.0 + fanouts * 5.0,
        "the total is the sum: {json:#}"
    );
    for name in ["errors", "unexpected_closes", "lost", "duplicated", "early"] {
        assert_eq!(json[name], 0, "{name} in {json:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_a_run_count_in_the_total() {
    // Only the first session is affected.
    let plan = r#"
        [[phase]]
        kind = "soak"
        duration = "100ms"
        run = [{ scenario = "fanout", connections = 5, messages = 10, publish_rate = 100, grace = "300ms" }]
    "#;
    let json = mix(ChannelFault::Lose(3), plan, "").await.json();
    let fanout = &json["plan"]["soak"]["runs"]["fanout"];
    assert!(number(fanout, "/lost") >= 1.0, "{json:#}");
    assert_eq!(json["lost"], fanout["lost"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_count_in_their_run_and_in_the_total() {
    let json = mix(ChannelFault::Forget, PLAN, "").await.json();
    let storm = &json["plan"]["soak"]["runs"]["storm"];
    assert_eq!(storm["errors"], storm["dropped"]);
    assert_eq!(json["plan"]["ramp"]["runs"]["crowd"]["errors"], 0);
    assert_eq!(json["errors"], storm["errors"]);
    assert_eq!(json["error_kinds"], json!({"not_recovered": storm["errors"]}));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_plan_is_bad_usage() {
    let ended = mix(ChannelFault::None, &PLAN.replace("messages", "massages"), "").await;
    ended.assert_code(2);
    for part in ["phase \"soak\"", "run \"fanout\"", "'--massages'"] {
        assert!(ended.stderr.contains(part), "{part} in {}", ended.stderr);
    }
    loadgen("mix ws://127.0.0.1:1/ws --plan /nowhere/plan.toml").await.assert_code(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assertion_on_an_unknown_figure_is_refused_before_the_run() {
    for (bad, why) in [
        ("plan.ramp.runs.crowd.resumed==1", "no such path"),
        ("plan.soak.runs.tempest.resumed==1", "no such path"),
        ("phases[3].duration_seconds<1", "no such path"),
        ("connect_ms<1", "not a number"),
    ] {
        let ended = mix(ChannelFault::None, PLAN, &format!("--assert errors==0 --assert {bad}")).await;
        ended.assert_code(2);
        assert!(ended.stderr.contains(bad) && ended.stderr.contains(why), "{}", ended.stderr);
        assert!(ended.stdout.is_empty(), "{}", ended.stdout);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_run_is_checked_before_the_first() {
    let plan = |duration: &str| {
        format!(
            "phase = [
                {{ kind = 'hold', duration = '1s', run = [{{ scenario = 'hold', connections = 5, rate = 100 }}] }},
                {{ kind = 'spike', duration = '{duration}', run = [{{ scenario = 'mute', connections = 5 }}] }},
            ]"
        )
    };
    let server = FakeServer::start(|_| Behaviour::GiveUpAfter(PONG_TIMEOUT)).await;
    let ended = crate::run::mix(&server.url(), &plan("1s")).await;
    ended.assert_code(2);
    let why = "phase \"spike\", run \"mute\": --duration 1s: the server pings every 1s and waits 400ms";
    assert!(ended.stderr.contains(why), "{}", ended.stderr);
    assert_eq!(server.seen(|seen| seen.greeted), 1, "only the client that requested the timeouts");

    let ended = crate::run::mix(&server.url(), &plan("3s")).await;
    ended.assert_code(0);
    let json = ended.json();
    assert_eq!((&json["connected"], &json["traffic"]["connects"]), (&json!(10), &json!(10)), "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_connections_are_refused_before_the_run() {
    let plan = PLAN.replace("connections = 20", "connections = 4000000");
    let ended = mix(ChannelFault::None, &plan, "").await;
    ended.assert_code(1);
    assert!(ended.stderr.contains("4000010 connections do not fit"), "{}", ended.stderr);
}
