use std::thread;
use std::time::{Duration, Instant};

use encke_tests::raw::{PING, PONG, masked};
use encke_tests::server::FREQUENT_PINGS;
use encke_tests::waiting::{MAX_LATENESS, eventually, let_pass};
use encke_tests::{Launch, RawClient, RunningServer};
use encke_timeouts::TimerScheme;

const TICK: Duration = Duration::from_millis(10);
/// Pong timeout and ping interval of [`FREQUENT_PINGS`].
const PONG_TIMEOUT: Duration = Duration::from_secs(6);
const INTERVAL: Duration = PONG_TIMEOUT;
const WINDOW: Duration = Duration::from_millis(1500);
/// Allowance for the time between the kernel's send and the client's receive: the server measures from when
/// the ping was sent.
const TRANSIT: Duration = Duration::from_millis(20);

/// Starts a server with this scheme.
fn server(scheme: TimerScheme) -> RunningServer {
    Launch::with(&FREQUENT_PINGS)
        .set(&format!("timers.scheme={scheme}"))
        .set("timers.tick=10ms")
        .set("timers.ping_slack=50ms")
        .set("session.reconnect_window=1500ms")
        .start()
}

/// Asserts that a wait of `expected`, which took between `at_least` and `at_most`, ended neither early nor
/// later than the scheme allows.
#[track_caller]
fn assert_took(scheme: TimerScheme, at_least: Duration, at_most: Duration, expected: Duration) {
    assert!(at_most + TRANSIT >= expected, "early: {at_most:?} instead of {expected:?}");
    let late = MAX_LATENESS + scheme.lateness(TICK, expected);
    assert!(at_least <= expected + late, "late: {at_least:?} instead of {expected:?}");
}

/// Tests all schemes in parallel. The thread's name shows which scheme failed.
#[test]
fn timeouts_are_kept_on_every_scheme() {
    thread::scope(|scope| {
        for scheme in TimerScheme::ALL {
            let run = move || {
                let server = server(scheme);
                mute_client_is_detected_and_expires_once(&server, scheme);
                reconnect_window_is_open_to_its_end(&server);
                assert_eq!(server.admin.get("/api/timers").json()["scheme"], scheme.to_string());
                server.assert_healthy();
            };
            thread::Builder::new().name(scheme.to_string()).spawn_scoped(scope, run).expect("a thread");
        }
    });
}

/// The client answers the first ping, but not the second.
fn mute_client_is_detected_and_expires_once(server: &RunningServer, scheme: TimerScheme) {
    let (mut client, hello) = RawClient::greeted(server.public, "");
    eventually(format!("the timer of the session is shown on {scheme}"), || {
        let timers = server.admin.get("/api/timers").json();
        let levels = timers["levels"].as_array().expect("an array").iter();
        let entries: u64 = levels.map(|level| level.as_u64().expect("a number")).sum();
        (timers["entries"] == entries && entries >= 1).then_some(())
    });
    let first = client.frame_of(PING);
    let answered = Instant::now();
    client.send(masked(PONG, &first.payload));
    let ping = client.frame_of(PING);
    assert_took(scheme, ping.not_before - answered, ping.not_after - answered, INTERVAL);
    let (code, reason, close) = client.close_frame();
    assert_eq!((code, &*reason), (4000, "pong_timeout"));
    assert_took(scheme, close.not_before - ping.not_after, close.not_after - ping.not_before, PONG_TIMEOUT);

    server.await_removal(&hello.session);
    let expired = Instant::now();
    assert_took(scheme, expired - close.not_after, expired - ping.not_before - PONG_TIMEOUT, WINDOW);
    server
        .await_lifecycle(&hello.session, "opened connect, suspended pong_timeout, expired reconnect_window");
    let metrics = server.admin.metrics();
    assert_eq!(metrics.events("suspended", "pong_timeout"), 1.0);
    assert_eq!(metrics.events("expired", "reconnect_window"), 1.0);
    for deadline in ["pong", "reconnect"] {
        assert_eq!(metrics.value(&format!("encke_timer_expiries_total{{deadline=\"{deadline}\"}}")), 1.0);
    }
    assert!(!server.resume(&hello.resume).hello.recovered);
}

fn reconnect_window_is_open_to_its_end(server: &RunningServer) {
    let client = server.client();
    let from = Instant::now();
    let left = client.drop_connection();
    let_pass(WINDOW - Duration::from_millis(300));
    let again = server.resume(&left.resume);
    // The window has closed if the machine delayed this test for too long.
    let has_closed = from.elapsed() >= WINDOW;
    assert!(has_closed || again.hello.recovered, "expired after {:?}", from.elapsed());
    if again.hello.recovered {
        assert_eq!(again.hello.session, left.session);
        let again = again.into_background();
        again.await_more_pings(1);
        assert!(from.elapsed() > WINDOW && !again.has_ended(), "the session outlives the old window");
        server.await_lifecycle(&left.session, "opened connect, suspended connection_lost, resumed reconnect");
    }
}
