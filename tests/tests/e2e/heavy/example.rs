//! The chat in `tests/example` with a thousand sessions: clients are disconnected at random while the backend
//! is down for a minute. `ENCKE_SEED=<n>` repeats the same disconnects.

use std::time::{Duration, Instant};

use encke_tests::crowd::{CROWD_TIMEOUT, await_sessions, connect, require_descriptors};
use encke_tests::raw::RawClient;
use encke_tests::waiting::{eventually_within, heavy_test_lock, let_pass};
use encke_tests::{Client, Hello, RunningServer};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use crate::example::{BACKEND, Example, SERVER, names};

const SESSIONS: usize = 1_000;
const USERS: usize = 10;
/// How long the backend is down: long enough for sessions that are disconnected in the meantime and not
/// resumed to expire before the backend returns.
const BACKEND_DOWNTIME: Duration = Duration::from_secs(60);
const WINDOW: &str = "session.reconnect_window=20s";
/// Number of clients disconnected at a time, few enough that those which reconnect do so within the window,
/// even on a busy machine.
const DISCONNECT_BATCH: usize = 50;

/// Client, and the events that the backend must receive for its session.
struct Visitor {
    client: RawClient,
    hello: Hello,
    events: Vec<&'static str>,
}

/// Session that expires, and the events that the backend must receive for it.
type ExpectedEvents = (String, Vec<&'static str>);

/// Returns the token of a signed-in user.
fn token(example: &Example, user: usize) -> String {
    let answer = example.post("/login", &format!("name=user{user}"));
    let cookie = answer.header("set-cookie").and_then(|cookie| cookie.split(';').next());
    example.get("/token", &format!("Cookie: {}\r\n", cookie.expect("signing in sets a cookie")))
}

fn connect_visitors(server: &RunningServer, example: &Example) -> Vec<Visitor> {
    let tokens: Vec<_> = (0..USERS).map(|user| format!("token={}", token(example, user))).collect();
    let queries: Vec<_> = tokens.iter().cycle().take(SESSIONS).cloned().collect();
    let visitors = connect(server, &queries).into_iter();
    visitors.map(|(client, hello)| Visitor { client, hello, events: vec!["session.opened"] }).collect()
}

/// Disconnects half of the clients. Half of these reconnect immediately. Returns the sessions of the others,
/// which will expire.
fn disconnect_half(
    server: &RunningServer,
    random: &mut SmallRng,
    visitors: &mut Vec<Visitor>,
) -> Vec<ExpectedEvents> {
    visitors.shuffle(random);
    let mut disconnected = visitors.split_off(visitors.len() / 2);
    let mut lost = Vec::new();
    while !disconnected.is_empty() {
        let batch = disconnected.split_off(disconnected.len().saturating_sub(DISCONNECT_BATCH));
        let mut returning = Vec::new();
        for Visitor { client, hello, mut events } in batch {
            if random.random() {
                client.reset();
            } else {
                drop(client);
            }
            events.push("session.suspended");
            if random.random() {
                returning.push((hello, events));
            } else {
                events.push("session.expired");
                lost.push((hello.session, events));
            }
        }
        for (hello, _) in &returning {
            server.await_phase(&hello.session, "suspended");
        }
        let queries: Vec<_> =
            returning.iter().map(|(hello, _)| format!("resume={}&seq=0", hello.resume)).collect();
        for ((client, back), (hello, mut events)) in connect(server, &queries).into_iter().zip(returning) {
            assert!(back.recovered && back.session == hello.session, "{back:?}");
            events.push("session.resumed");
            visitors.push(Visitor { client, hello: back, events });
        }
    }
    lost
}

/// Disconnects all remaining clients permanently.
fn disconnect_all(visitors: Vec<Visitor>) -> Vec<ExpectedEvents> {
    let lost = visitors.into_iter().map(|Visitor { hello, mut events, .. }| {
        events.extend(["session.suspended", "session.expired"]);
        (hello.session, events)
    });
    lost.collect()
}

/// Waits until the backend has accepted `count` events and returns its events. The delay between two delivery
/// attempts is up to 30 s.
fn await_events(server: &RunningServer, example: &Example, count: usize) -> Vec<Value> {
    let delivered = r#"encke_webhook_events_total{webhook="0",outcome="delivered"}"#;
    eventually_within(CROWD_TIMEOUT + Duration::from_secs(60), format!("{count} events"), || {
        (server.admin.metrics().value(delivered) == count as f64).then_some(())
    });
    let events = example.events();
    assert_eq!(events.len(), count, "each event once");
    events
}

#[test]
fn events_of_a_thousand_sessions_are_delivered_once_and_in_order_despite_backend_downtime() {
    let _lock = heavy_test_lock();
    require_descriptors(SESSIONS);
    let seed = std::env::var("ENCKE_SEED")
        .map_or_else(|_| rand::random(), |seed| seed.parse().expect("ENCKE_SEED is a number"));
    println!("ENCKE_SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let example = Example::new();
    let backend = example.start_backend(BACKEND);
    let server = example.launch(SERVER).set(WINDOW).set("session.ping_interval=10m").start();

    let mut visitors = connect_visitors(&server, &example);
    let mut expired = disconnect_half(&server, &mut random, &mut visitors);
    // Stop the backend while it receives events.
    drop(backend);
    let killed = Instant::now();
    let before = expired.len();
    for _ in 0..2 {
        expired.extend(disconnect_half(&server, &mut random, &mut visitors));
    }
    assert_eq!(
        Client::refusal_code(server.public, "token=t"),
        4005,
        "authentication is impossible without the backend"
    );
    await_sessions(&server, "attached", visitors.len());
    await_sessions(&server, "suspended", 0);
    let queued = server.admin.metrics().value(r#"encke_webhook_queued{webhook="0"}"#);
    assert!(queued >= 2.0 * (expired.len() - before) as f64, "{queued} events are queued");
    let_pass(BACKEND_DOWNTIME.saturating_sub(killed.elapsed()));

    let _backend = example.start_backend(BACKEND);
    let remaining_events = visitors.iter().map(|visitor| visitor.events.len()).sum::<usize>();
    let expired_events = expired.iter().map(|(_, events)| events.len()).sum::<usize>();
    await_events(&server, &example, remaining_events + expired_events);
    println!("{} remain, {} have expired", visitors.len(), expired.len());

    expired.extend(disconnect_all(visitors));
    let count = expired.iter().map(|(_, events)| events.len()).sum();
    let events = await_events(&server, &example, count);
    assert_eq!(expired.len(), SESSIONS);
    for (session, expected) in &expired {
        assert_eq!(names(&events, session), *expected, "{session}");
    }
}
