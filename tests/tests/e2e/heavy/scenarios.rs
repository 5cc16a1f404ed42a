use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use encke_tests::loadgen::{LoadgenReport, LoadgenRun};
use encke_tests::waiting::{heavy_test_lock, until};
use encke_tests::{RunningServer, binaries};

/// Returns the number of clients that resumed, including clients whose outcome is undecided.
fn resumed_or_undecided(report: &LoadgenReport) -> f64 {
    // On a busy machine, a hello may arrive after the window although it was requested within it. Such an
    // attempt proves nothing and is undecided.
    report.number("resumed") + report.number("undecided")
}

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

#[test]
fn late_only_pongs_after_the_deadline_end_a_connection() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["session.ping_interval=1s", "session.pong_timeout=1s"]);
    let arguments = ["--connections", "100", "--rate", "400", "--duration", "6s", "--margin", "500ms"];
    let report = LoadgenReport::run("late", &server, &arguments);
    report.assert(&[
        ("connected", 100.0),
        ("errors", 0.0),
        ("closed_in_time", 0.0),
        ("too_late", 50.0),
        ("closed", 50.0),
        ("forgiven", 0.0),
        ("still_open", 0.0),
        ("other_closes", 0.0),
    ]);
    assert!(report.number("in_time") >= 50.0, "{report:?}");
    report.assert_none_early();
}

#[test]
fn mute_closes_received_while_loadgen_was_stopped_are_not_counted_as_early() {
    const CONNECTIONS: f64 = 100.0;
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["session.ping_interval=1s", "session.pong_timeout=1s"]);
    let arguments = ["--connections", "100", "--rate", "1000", "--duration", "20s"];
    let running = LoadgenRun::start("mute", &server, &arguments);
    until("all clients are connected", || server.admin.metrics().sessions("attached") == CONNECTIONS);
    // The first pings are sent half a second to a second after the hello. The server closes the connections a
    // second later.
    running.process.freeze(Duration::from_millis(1200));
    let report = running.report(Duration::from_secs(60));
    report.assert(&[("muted", CONNECTIONS), ("closed", CONNECTIONS), ("early", 0.0), ("still_open", 0.0)]);
    let judged = report.number("/lateness_ms/count");
    assert_eq!(judged + report.number("stalled"), CONNECTIONS, "{report:?}");
}

#[test]
fn expire_timeouts_end_connections_on_time() {
    let _lock = heavy_test_lock();
    for (setting, options) in [
        ("session.idle=2s", ["--after", "2s", "--code", "4004"].as_slice()),
        ("session.lifetime=2s", &["--after", "2s", "--code", "4006"]),
        ("limits.handshake_timeout=2s", &["--after", "2s", "--without", "upgrade"]),
    ] {
        let server = RunningServer::with(&[setting]);
        let common = ["--connections", "100", "--rate", "400", "--duration", "20s"];
        let report = LoadgenReport::run("expire", &server, &[&common, options].concat());
        report.assert(&[
            ("connected", 100.0),
            ("errors", 0.0),
            ("closed", 100.0),
            ("early", 0.0),
            ("still_open", 0.0),
            ("other_closes", 0.0),
            ("/lateness_ms/count", 100.0),
        ]);
    }
}

#[test]
fn vanish_sessions_expire_at_the_end_of_the_window() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["session.reconnect_window=2s"]);
    for kill in ["rst", "fin"] {
        let common = ["--connections", "100", "--rate", "400", "--duration", "300ms", "--margin", "700ms"];
        let report = LoadgenReport::run("vanish", &server, &[common.as_slice(), &["--kill", kill]].concat());
        report.assert(&[
            ("connected", 100.0),
            ("errors", 0.0),
            ("killed", 100.0),
            ("early", 0.0),
            ("refused", 50.0),
            ("overdue", 0.0),
            ("unexpected_closes", 0.0),
        ]);
        assert_eq!(resumed_or_undecided(&report), 50.0, "{report:?}");
    }
}

#[test]
fn takeover_the_second_connection_gets_the_session() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&[]);
    let arguments = ["--connections", "200", "--rate", "400", "--duration", "500ms"];
    let report = LoadgenReport::run("takeover", &server, &arguments);
    report.assert(&[
        ("connected", 200.0),
        ("errors", 0.0),
        ("taken", 200.0),
        ("replaced", 200.0),
        ("other_closes", 0.0),
        ("still_open", 0.0),
        ("unexpected_closes", 0.0),
        ("/close_codes/4100", 200.0),
    ]);
    assert_eq!(server.admin.metrics().events("resumed", "take_over"), 200.0);
}

#[test]
fn resume_delivers_everything_once_and_in_order() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["session.reconnect_window=3s"]);
    let report = LoadgenReport::run(
        "resume",
        &server,
        &[
            ["--connections", "50", "--rate", "500", "--messages", "60", "--publish-rate", "20"].as_slice(),
            &["--cuts", "3", "--away", "500ms", "--outside", "0.2", "--margin", "700ms", "--grace", "3s"],
        ]
        .concat(),
    );
    report.assert(&ONCE_AND_IN_ORDER);
    report.assert(&[
        ("connected", 50.0),
        ("published", 60.0),
        ("received", 40.0 * 60.0),
        ("cut", 40.0 * 3.0 + 10.0),
        ("early", 0.0),
        ("refused", 10.0),
        ("overdue", 0.0),
        ("gone", 0.0),
    ]);
    assert_eq!(resumed_or_undecided(&report), 120.0, "{report:?}");
}

/// Publishes 5 MB while 4 of 20 subscribers read slowly. The log keeps everything for subscribers that fall
/// behind.
fn slow(settings: &[&str], options: &[&str]) -> (RunningServer, LoadgenReport) {
    let room = ["channel.history_messages=10000", "channel.history_bytes=64MiB", "limits.send_buffer=16KiB"];
    let server = RunningServer::with(&[&room, settings].concat());
    let common = [
        ["--connections", "20", "--rate", "500", "--messages", "100", "--publish-rate", "25"].as_slice(),
        &["--size", "50000", "--share", "0.2", "--grace", "3s"],
        options,
    ];
    let report = LoadgenReport::run("slow", &server, &common.concat());
    report.assert(&ONCE_AND_IN_ORDER);
    report.assert(&[("slow", 4.0), ("published", 100.0), ("received", 1600.0), ("other_closes", 0.0)]);
    (server, report)
}

#[test]
fn slow_a_client_that_does_not_read_is_closed_and_delays_no_other() {
    let _lock = heavy_test_lock();
    let (server, report) = slow(&["session.write_timeout=1s"], &["--slow-for", "3s"]);
    report.assert(&[("closed", 4.0), ("still_open", 0.0)]);
    assert_eq!(server.admin.metrics().events("suspended", "slow_consumer"), 4.0);
}

#[test]
fn slow_a_client_that_reads_with_pauses_is_kept() {
    let _lock = heavy_test_lock();
    let (server, report) = slow(
        &["session.write_timeout=3s"],
        &["--read-rate", "400000", "--read-every", "1s", "--slow-for", "100ms"],
    );
    report.assert(&[("closed", 0.0), ("still_open", 4.0)]);
    assert_eq!(server.admin.metrics().events("suspended", "slow_consumer"), 0.0);
}

#[test]
fn slow_links_are_not_considered_dead() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["session.ping_interval=1s", "session.pong_timeout=1s"]);
    // The slow clients receive 200 KB at 6 KB/s, with pings queued behind the messages.
    let report = LoadgenReport::run(
        "slow",
        &server,
        &[
            ["--connections", "4", "--messages", "40", "--publish-rate", "40", "--size", "5000"].as_slice(),
            &["--share", "0.5", "--read-rate", "48kbit/s", "--slow-for", "6s", "--grace", "3s"],
        ]
        .concat(),
    );
    report.assert(&ONCE_AND_IN_ORDER);
    report.assert(&[("slow", 2.0), ("received", 80.0), ("closed", 0.0), ("other_closes", 0.0)]);
    report.assert(&[("still_open", 2.0), ("read_rate", 6000.0)]);
}

#[test]
fn churn_all_arriving_clients_are_served() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["session.ping_interval=1s", "session.pong_timeout=1s"]);
    let report = LoadgenReport::run(
        "churn",
        &server,
        &["--rate", "100", "--duration", "4s", "--lifetime", "exp:500ms"],
    );
    report.assert(&[("errors", 0.0), ("skipped", 0.0), ("unexpected_closes", 0.0)]);
    let [arrived, connected, left] = ["arrived", "connected", "left"].map(|name| report.number(name));
    // Expect 400 arrivals, with a tolerance of five standard deviations.
    assert!((300.0..500.0).contains(&arrived), "{report:?}");
    assert!(left <= connected && connected <= arrived, "{report:?}");
    assert!(left >= 100.0, "{report:?}");
}

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
      scenario = "resume"
      connections = 20
      rate = 200
      messages = 20
      publish_rate = 20
      cuts = 2
      away = "200ms"
      channel = "resumed"
      [[phase.run]]
      scenario = "mute"
      connections = 20
      rate = 200
      duration = "10s"
      share = 0.5
      [[phase.run]]
      scenario = "takeover"
      connections = 20
      rate = 200
      duration = "200ms"
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
    for run in ["storm", "resume", "mute", "takeover", "churn"] {
        assert!(soak(&format!("{run}/times")) >= 1.0, "{run} in {report:?}");
    }
    assert_eq!(soak("storm/resumed"), soak("storm/dropped"), "{report:?}");
    assert_eq!(soak("takeover/replaced"), soak("takeover/connected"), "{report:?}");
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
    let [public, admin] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port is free"));
    let [public, admin] = [public, admin].map(|it| it.local_addr().expect("the listener is bound"));
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
}

#[test]
fn restart_admin_api_publishes_arrive_once() {
    let _lock = heavy_test_lock();
    assert_restarted("admin", 100.0);
}
