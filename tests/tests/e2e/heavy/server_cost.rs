use encke_tests::RunningServer;
use encke_tests::loadgen::LoadgenReport;
use encke_tests::waiting::heavy_test_lock;

const CONNECTIONS: f64 = 500.0;

#[test]
fn server_costs_are_reported() {
    let _lock = heavy_test_lock();
    // The interval is long enough for a busy machine to pause the load generator for a while.
    let server = RunningServer::with(&["session.ping_interval=3s", "session.pong_timeout=3s"]);
    let (pid, admin) = (server.id().to_string(), format!("http://{}", server.admin.address()));
    let report = LoadgenReport::run(
        "hold",
        &server,
        &[
            ["--connections", "500", "--rate", "500", "--duration", "8s"].as_slice(),
            &["--pid", &pid, "--admin", &admin],
        ]
        .concat(),
    );
    report.assert(&[("connected", CONNECTIONS), ("errors", 0.0), ("unexpected_closes", 0.0)]);
    assert!(report.number("/ping_lateness_ms/count") >= CONNECTIONS, "{report:?}");
    let measured = |path: &str| report.number(&format!("/server/{path}"));
    assert_eq!(measured("pid"), f64::from(server.id()));

    // The server used CPU time, on no more cores than it has threads.
    let threads = measured("threads_peak");
    assert!(threads >= 4.0, "{report:?}");
    assert!((0.0001..=threads).contains(&measured("cores/mean")), "{report:?}");
    let resident = server.resident_bytes() as f64;
    assert!((resident / 4.0..resident * 4.0).contains(&measured("resident_bytes/steady")), "{report:?}");
    // This is a debug build with few connections, so only the order of magnitude is checked.
    assert!((500.0..100_000.0).contains(&measured("bytes_per_connection")), "{report:?}");
    assert!(measured("descriptors/peak") >= measured("descriptors/before") + CONNECTIONS, "{report:?}");
    // The last sample of the steady period may miss up to 1 % of the connections.
    assert!((CONNECTIONS * 0.99..=CONNECTIONS).contains(&measured("steady_connections")), "{report:?}");

    // Each session has one timer, except while its timer is being fired, and each session was pinged.
    assert!(measured("timers/entries_peak") >= CONNECTIONS / 2.0, "{report:?}");
    assert!(measured("timers/expiries") >= CONNECTIONS, "{report:?}");
    let lateness = ["p50", "p99", "p99.9", "max"].map(|name| measured(&format!("timers/lateness_ms/{name}")));
    assert!(lateness.is_sorted() && lateness[0] >= 0.0, "{lateness:?}");

    // The same quantities are sampled every second.
    for name in ["cores", "resident_bytes", "timers.entries", "timers.dispatch_depth"] {
        let samples = report.samples("gauges", &format!("server.{name}"));
        assert!(samples.len() >= 3, "{name}: {samples:?}");
    }
}
