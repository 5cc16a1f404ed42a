use std::thread;
use std::time::{Duration, Instant};

use encke_server::config::TimerScheme;
use encke_tests::raw::{PING, PONG, masked};
use encke_tests::waiting::{LATE, eventually, let_pass};
use encke_tests::{RawClient, RunningServer};

const TICK: Duration = Duration::from_millis(10);
const INTERVAL: Duration = Duration::from_secs(1);
const PONG_TIMEOUT: Duration = Duration::from_millis(800);
const WINDOW: Duration = Duration::from_millis(1500);
/// For the way from the kernel's send to our receive; the server counts from when the ping left.
const WAY: Duration = Duration::from_millis(20);

/// A server on each scheme, all at once. The thread's name says which one failed.
fn on_every_scheme(test: impl Fn(&RunningServer, TimerScheme) + Sync) {
    thread::scope(|scope| {
        for scheme in TimerScheme::ALL {
            let test = &test;
            let run = move || {
                let server = RunningServer::with(&[
                    &format!("timers.scheme={scheme}"),
                    "timers.tick=10ms",
                    "timers.ping_slack=50ms",
                    "session.ping_interval=1s",
                    "session.pong_timeout=800ms",
                    "session.reconnect_window=1500ms",
                ]);
                test(&server, scheme);
                assert_eq!(server.admin.get("/api/timers").json()["scheme"], scheme.to_string());
                server.assert_unharmed();
            };
            thread::Builder::new().name(scheme.to_string()).spawn_scoped(scope, run).expect("a thread");
        }
    });
}

/// What took `at_least` and `at_most` was to take `expected`, and what the scheme may add to it.
#[track_caller]
fn assert_took(scheme: TimerScheme, at_least: Duration, at_most: Duration, expected: Duration) {
    assert!(at_most + WAY >= expected, "early: {at_most:?} instead of {expected:?}");
    let late = LATE + scheme.lateness(TICK, expected);
    assert!(at_least <= expected + late, "late: {at_least:?} instead of {expected:?}");
}

#[test]
fn pings_come_on_every_scheme() {
    on_every_scheme(|server, scheme| {
        let (mut client, hello) = RawClient::greeted(server.public, "");
        let mut answered = None;
        for _ in 0..3 {
            let ping = client.frame_of(PING);
            if let Some(answered) = answered {
                assert_took(scheme, ping.not_before - answered, ping.not_after - answered, INTERVAL);
            }
            answered = Some(Instant::now());
            client.send(&masked(PONG, &ping.payload));
        }
        server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
    });
}

#[test]
fn a_mute_client_is_noticed_and_expires_once_on_every_scheme() {
    on_every_scheme(|server, scheme| {
        let (mut client, hello) = RawClient::greeted(server.public, "");
        let ping = client.frame_of(PING);
        let (code, reason, close) = client.close_frame();
        assert_eq!((code, &*reason), (4000, "pong_timeout"));
        assert_took(scheme, close.not_before - ping.not_after, close.not_after - ping.not_before, PONG_TIMEOUT);

        server.await_gone(&hello.session);
        let gone = Instant::now();
        assert_took(scheme, gone - close.not_after, gone - ping.not_before - PONG_TIMEOUT, WINDOW);
        let events = [("opened", "connect"), ("suspended", "pong_timeout"), ("expired", "reconnect_window")];
        server.logs.await_lifecycle(&hello.session, &events);
        let metrics = server.admin.metrics();
        assert_eq!(metrics.events("suspended", "pong_timeout"), 1.0);
        assert_eq!(metrics.events("expired", "reconnect_window"), 1.0);
        assert!(!server.resume(&hello.resume).hello.recovered);
    });
}

#[test]
fn the_window_is_open_to_its_end_on_every_scheme() {
    on_every_scheme(|server, _| {
        let client = server.client();
        let from = Instant::now();
        let left = client.drop_connection();
        let_pass(WINDOW - Duration::from_millis(300));
        let again = server.resume(&left.resume);
        // On a machine that lets this test sleep for too long, it is over.
        let over = from.elapsed() >= WINDOW;
        assert!(over || again.hello.recovered, "gone after {:?}", from.elapsed());
        if again.hello.recovered {
            assert_eq!(again.hello.session, left.session);
            let again = again.into_background();
            again.await_more_pings(2);
            assert!(from.elapsed() > WINDOW && !again.has_ended(), "it lives on beyond the old window");
            let events = [("opened", "connect"), ("suspended", "connection_lost"), ("resumed", "reconnect")];
            server.logs.await_lifecycle(&left.session, &events);
        }
    });
}

#[test]
fn timers_are_counted_on_every_scheme() {
    on_every_scheme(|server, scheme| {
        let clients: Vec<_> = (0..3).map(|_| server.client()).collect();
        eventually(format!("their timers are shown on {scheme}"), || {
            let timers = server.admin.get("/api/timers").json();
            let levels = timers["levels"].as_array().expect("an array").iter();
            let entries: u64 = levels.map(|level| level.as_u64().expect("a number")).sum();
            (timers["entries"] == entries && entries >= 3).then_some(())
        });
        drop(clients);
    });
}
