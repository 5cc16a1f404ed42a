//! Tests of assertions on any path of the result, and of their effect on a run.

use crate::fake_server::{Behaviour, FakeServer, PONG_TIMEOUT};
use crate::run::{loadgen, number};

async fn impatient_server() -> FakeServer {
    FakeServer::start(|_| Behaviour::GiveUpAfter(PONG_TIMEOUT / 2)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn any_path_of_the_result_can_be_asserted() {
    let server = impatient_server().await;
    let ended = loadgen(&format!(
        "hold {} --connections 2 --rate 1000 --duration 0s --assert connect_ms.p99.9<60s \
         --assert phases[1].duration_seconds<30 --assert phases[0].start_seconds<1s --assert series.counts.connects[0]==2 \
         --assert loadgen.peak_resident_bytes<1GiB --assert traffic.connects==2",
        server.url()
    ))
    .await;
    ended.assert_code(0);
    assert_eq!(ended.stderr, "");
    for bad in ["phases[7].duration_seconds<30", "series.t[x]<1", "series.counts.connects<1"] {
        let run = format!("hold {} --connections 2 --rate 1000 --duration 0s --assert {bad}", server.url());
        loadgen(&run).await.assert_code(2);
    }
    loadgen("hold ws://127.0.0.1:1/ws --connections 2 --rate 1 --duration 0s --assert errors<2s")
        .await
        .assert_code(2);
    loadgen("hold ws://127.0.0.1:1/ws --connections 2 --rate 1 --duration 0s --abort-on-fail")
        .await
        .assert_code(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn abort_on_fail_ends_the_run() {
    let server = impatient_server().await;
    let ended = loadgen(&format!(
        "mute {} --connections 3000 --rate 50 --duration 1h --json - --abort-on-fail --assert muted<=3000 \
         --assert early==0 --assert still_open>=0",
        server.url()
    ))
    .await;
    ended.assert_code(99);
    let json = ended.json();
    assert_eq!((&json["aborted_by"], &json["interrupted"]), (&"early==0".into(), &false.into()));
    assert!(number(&json, "/elapsed_seconds") < 30.0, "3000 connections would take a minute: {json:#}");
    assert!(number(&json, "/connected") < 3000.0);
    assert_eq!(json["assertions"][1]["holds"], false);
    assert!(ended.stderr.contains("ended early: early==0 can no longer hold"), "{}", ended.stderr);
    assert!(ended.stderr.contains("still_open>=0 is checked only at the end"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assertion_that_may_still_hold_does_not_end_the_run() {
    let server = FakeServer::start(|_| Behaviour::GiveUpAfter(PONG_TIMEOUT * 20)).await;
    let ended = loadgen(&format!(
        "hold {} --connections 20 --rate 10 --duration 0s --json - --abort-on-fail --assert connect_ms.count==20",
        server.url()
    ))
    .await;
    ended.assert_code(0);
    assert_eq!(ended.json()["aborted_by"], serde_json::Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assertion_on_an_unknown_figure_is_refused_before_the_run() {
    let server = impatient_server().await;
    for (scenario, bad, why) in [
        ("hold", "resumed==2", "the result has no such path"),
        ("storm", "lateness_ms.p99<50", "the result has no such path"),
        ("mute", "connect_ms.p98<50", "the result has no such path"),
        ("hold", "loadgen.coers.peak<1", "the result has no such path"),
        ("hold", "server.cores.peak<1", "--pid or --admin"),
        ("hold --pid 1", "server.cores.pique<1", "the result has no such path"),
        ("hold --pid 1", "server.phases.resume.cores.peak<3", "the result has no such path"),
        ("storm --pid 1", "server.phases.resume.cores.pique<3", "the result has no such path"),
        ("storm --admin http://127.0.0.1:1", "server.phases.resume.cores.peak<3", "sampled only with --pid"),
        ("storm --pid 1", "server.timers.entries_peak<3", "sampled only with --admin"),
        ("hold", "phases[2].duration_seconds<3", "the result has no such path"),
        ("expire --after 1s --without upgrade", "connect_ms.p99<3s", "nothing was measured"),
        ("hold", "connect_ms<3", "not a number"),
        ("hold", "aborted_by==1", "nothing was measured"),
        ("hold", "interrupted==0", "not a number"),
        ("hold", "histograms.connect_ms==1", "not a number"),
        ("hold", "histograms.conect_ms.p99==1", "the result has no such path"),
        ("hold", "loadgen.warnings[0]==1", "the result has no such path"),
    ] {
        let ended = loadgen(&format!(
            "{scenario} {} --connections 2 --rate 1000 --duration 1h --assert errors==0 --assert {bad}",
            server.url()
        ))
        .await;
        ended.assert_code(2);
        let told = format!("invalid assertion: {bad} (");
        assert!(ended.stderr.contains(&told) && ended.stderr.contains(why), "{}", ended.stderr);
    }
    for (options, bad) in [
        ("", "resume_ms.p99<1s"),
        ("", "all_back_seconds<1"),
        ("--abort-on-fail", "resume_ms.max<1s"),
        ("", "cut_after_seconds<1"),
    ] {
        let ended =
            loadgen(&format!("fanout {} --connections 2 {options} --assert {bad}", server.url())).await;
        ended.assert_code(2);
        assert!(
            ended.stderr.contains(&format!("invalid assertion: {bad} (nothing was measured")),
            "{}",
            ended.stderr
        );
    }
    assert_eq!(server.seen(|seen| seen.greeted), 0);
}
