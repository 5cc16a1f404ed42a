use std::fs;

use encke_tests::loadgen::LoadgenReport;
use encke_tests::port::listen;
use encke_tests::waiting::heavy_test_lock;
use encke_tests::{RunningServer, binaries};

const ONCE_AND_IN_ORDER: [(&str, f64); 8] = [
    ("errors", 0.0),
    ("lost", 0.0),
    ("duplicated", 0.0),
    ("misordered", 0.0),
    ("foreign", 0.0),
    ("corrupted", 0.0),
    ("misnumbered", 0.0),
    ("unexpected_closes", 0.0),
];

const PLAN: &str = r#"
    [[phase]]
    kind = "ramp"
    duration = "1s"
    run = [{ scenario = "hold", name = "crowd", connections = 100 }]

    [[phase]]
    kind = "soak"
    duration = "2s"
      [[phase.run]]
      scenario = "storm"
      connections = 20
      rate = 200
      duration = "200ms"
      [[phase.run]]
      scenario = "mute"
      connections = 20
      rate = 200
      duration = "10s"
      share = 0.5
      [[phase.run]]
      scenario = "churn"
      rate = 20
      duration = "1s"
      lifetime = "exp:300ms"

    [[phase]]
    kind = "spike"
    duration = "1s"
      [[phase.run]]
      scenario = "fanout"
      connections = 100
      messages = 20
      publish_rate = 20
      cut_after = "300ms"
"#;

#[test]
fn mix_scenarios_run_together() {
    let _lock = heavy_test_lock();
    // Use long timeouts: on a busy machine, even clients that answer may be late. Mute clients must still be
    // detected before their scenario ends.
    let server = RunningServer::with(&["session.ping_interval=2s", "session.pong_timeout=2s"]);
    let plan = tempfile::NamedTempFile::new().expect("a temporary file can be created");
    fs::write(plan.path(), PLAN).expect("the file can be written");
    let report =
        LoadgenReport::run("mix", &server, &["--plan", plan.path().to_str().expect("the path is text")]);
    report.assert(&ONCE_AND_IN_ORDER);
    report.assert_none_early();
    let soak = |path: &str| report.number(&format!("/plan/soak/runs/{path}"));
    for run in ["storm", "mute", "churn"] {
        assert!(soak(&format!("{run}/times")) >= 1.0, "{run} in {report:?}");
    }
    assert_eq!(soak("storm/resumed"), soak("storm/dropped"), "{report:?}");
    assert_eq!(soak("mute/closed"), soak("mute/muted"), "{report:?}");
    report.assert(&[
        ("/plan/ramp/runs/crowd/connected", 100.0),
        ("/plan/soak/runs/mute/still_open", 0.0),
        ("/plan/spike/runs/fanout/received", 2000.0),
        ("/plan/spike/runs/fanout/resumed", 100.0),
        ("/plan/spike/runs/fanout/dropped", 100.0),
        ("/traffic/frame_faults", 0.0),
    ]);
}

/// Restarts the server under load and asserts that every session is resumed and every message delivered once
/// and in order.
fn assert_restarted(publisher: &str, sessions: f64) {
    let folder = tempfile::tempdir().expect("a temporary directory can be created");
    let [(_, public), (_, admin)] = [listen(), listen()];
    let snapshot = folder.path().join("snapshot");
    let encke = binaries::encke();
    let start = format!(
        "{} --set shutdown.snapshot={} --set shutdown.drain=15s",
        encke.display(),
        snapshot.display()
    );
    let admin = format!("http://{admin}");
    let crowd = ["--connections", "100", "--rate", "400", "--channels", "5", "--publishers", "2"];
    let messages = ["--messages", "200", "--publish-rate", "50", "--restart-after", "1s", "--grace", "20s"];
    let server = ["--start", &start, "--admin", &admin, "--publisher", publisher];
    let arguments = [&crowd[..], &messages, &server].concat();
    let report = LoadgenReport::run_at(&format!("ws://{public}/ws"), "restart", &arguments);
    report.assert(&ONCE_AND_IN_ORDER);
    report.assert(&[
        ("subscribed", 100.0),
        ("moved", sessions),
        ("resumed", sessions),
        ("not_recovered", 0.0),
        ("refused", 0.0),
        ("gaps", 0.0),
        ("published", 200.0),
        ("received", 4000.0),
    ]);
}

#[test]
fn restart_keeps_all_sessions_and_published_messages() {
    let _lock = heavy_test_lock();
    assert_restarted("ws", 102.0);
    assert_restarted("admin", 100.0);
}
