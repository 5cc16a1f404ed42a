use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use encke_tests::patience::{eventually_within, heavy};
use encke_tests::raw::{Dial, RawClient};
use encke_tests::{Hello, Launch, RunningServer};

const CLIENTS: usize = 10_000;
const CLIENTS_A_SOURCE: usize = 1_000;
/// How many requests are on their way at once. Each takes the server a buffer of 8 KB meanwhile, so more would make its
/// peak, and with it what the allocator keeps, a matter of chance.
const WAVE: usize = 100;
/// Ten thousand of anything take a while in a debug build.
const LONG: Duration = Duration::from_secs(60);
/// What the second and the third round may add to resident memory.
const GROWTH: f64 = 0.05;

/// Connects everyone, in waves.
fn connect(server: &RunningServer, queries: &[String]) -> Vec<(RawClient, Hello)> {
    let mut greeted = Vec::with_capacity(queries.len());
    for (wave, queries) in queries.chunks(WAVE).enumerate() {
        let first = wave * WAVE;
        let asked: Vec<_> = (first..)
            .zip(queries)
            .map(|(number, query)| {
                let host = u8::try_from(2 + number / CLIENTS_A_SOURCE).expect("few sources");
                let source = IpAddr::from(Ipv4Addr::new(127, 0, 0, host));
                let dial = Dial { source: Some(source), ..Dial::default() };
                let mut client = RawClient::over(dial.connect(server.public));
                client.ask_upgrade(query);
                client
            })
            .collect();
        greeted.extend(asked.into_iter().map(|mut client| {
            client.await_upgrade();
            let hello = client.hello();
            (client, hello)
        }));
    }
    greeted
}

fn await_sessions(server: &RunningServer, phase: &str, count: usize) {
    eventually_within(LONG, format!("{count} sessions are {phase}"), || {
        (server.admin.metrics().sessions(phase) == count as f64).then_some(())
    });
}

/// Everyone connects, loses the connection, comes back to the same session, and ends it.
fn round(server: &RunningServer) {
    let first = connect(server, &vec![String::new(); CLIENTS]);
    await_sessions(server, "attached", CLIENTS);
    let sessions: Vec<Hello> = first.into_iter().map(|(_, hello)| hello).collect();
    await_sessions(server, "suspended", CLIENTS);

    let queries: Vec<_> = sessions.iter().map(|hello| format!("resume={}&seq=0", hello.resume)).collect();
    let mut second = connect(server, &queries);
    for ((_, hello), before) in second.iter().zip(&sessions) {
        assert!(hello.recovered, "{hello:?}");
        assert_eq!(hello.session, before.session);
    }
    for (client, _) in &mut second {
        client.text(r#"{"close":{}}"#);
    }
    for (client, _) in &mut second {
        assert_eq!(client.close_code(), 1000);
    }
    drop(second);
    await_sessions(server, "attached", 0);
    await_sessions(server, "suspended", 0);
}

#[test]
fn ten_thousand_come_back_three_times() {
    let _turn = heavy();
    let descriptors = rlimit::increase_nofile_limit(u64::MAX).expect("the limit can be read");
    assert!(descriptors > CLIENTS as u64 + 500, "{descriptors} descriptors are too few for this test");
    let settings = [
        "session.ping_interval=10m",
        "session.reconnect_window=10m",
        "limits.handshake_timeout=60s",
        "log.level=warn",
    ];
    // Which thread allocates what is a matter of chance, too, and each arena of the allocator keeps its own peak.
    let server = Launch::with(&settings).environment("MALLOC_ARENA_MAX", "1").start();
    // Before anyone has come: what closes a little later must not be counted.
    let open = server.descriptors();
    server.assert_unharmed();
    let mut resident = Vec::new();
    for number in 1..=3 {
        round(&server);
        eventually_within(LONG, format!("round {number}: the descriptors are back"), || {
            (server.descriptors() <= open).then_some(())
        });
        let metrics = server.admin.metrics();
        let opened = (number * CLIENTS + 1) as f64;
        assert_eq!(metrics.events("opened", "connect"), opened);
        assert_eq!(metrics.events("closed", "client"), opened);
        assert_eq!(metrics.events("resumed", "reconnect"), (number * CLIENTS) as f64);
        assert_eq!(metrics.connections(), 0.0);
        resident.push(server.resident_bytes());
    }
    for (number, bytes) in (2..).zip(&resident[1..]) {
        let growth = *bytes as f64 / resident[0] as f64 - 1.0;
        assert!(growth < GROWTH, "round {number} has grown by {growth:.3}: {resident:?}");
    }
    server.assert_unharmed();
}
