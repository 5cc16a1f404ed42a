//! A thousand sessions of the chat in `tests/example` are disconnected at random while its backend is down
//! for a minute. `ENCKE_SEED=<n>` repeats the same disconnects.

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
/// How long the backend is down. Sessions that are disconnected during that time and do not reconnect expire
/// before it ends.
const DOWN: Duration = Duration::from_secs(60);
const WINDOW: &str = "session.reconnect_window=20s";
/// Number of clients disconnected at a time: few enough for those that reconnect to do so within the window,
/// even on a busy machine.
const CUT: usize = 50;

/// Client, with the events that the backend must receive for its session.
struct Visitor {
    client: RawClient,
    hello: Hello,
    events: Vec<&'static str>,
}

/// Session that expires, with the events that the backend must receive for it.
type Told = (String, Vec<&'static str>);

/// Returns the token of a signed-in user.
fn token(example: &Example, user: usize) -> String {
    let answer = example.post("/login", &format!("name=user{user}"));
    let cookie = answer.header("set-cookie").and_then(|cookie| cookie.split(';').next());
    example.get("/token", &format!("Cookie: {}\r\n", cookie.expect("who signs in gets a cookie")))
}

fn enter(server: &RunningServer, example: &Example) -> Vec<Visitor> {
    let tokens: Vec<_> = (0..USERS).map(|user| format!("token={}", token(example, user))).collect();
    let queries: Vec<_> = tokens.iter().cycle().take(SESSIONS).cloned().collect();
    let visitors = connect(server, &queries).into_iter();
    visitors.map(|(client, hello)| Visitor { client, hello, events: vec!["session.opened"] }).collect()
}

/// Disconnects half of the clients. Half of these reconnect at once; the sessions of the others, which will
/// expire, are returned.
fn cut_half(server: &RunningServer, random: &mut SmallRng, visitors: &mut Vec<Visitor>) -> Vec<Told> {
    visitors.shuffle(random);
    let mut cut = visitors.split_off(visitors.len() / 2);
    let mut lost = Vec::new();
    while !cut.is_empty() {
        let some = cut.split_off(cut.len().saturating_sub(CUT));
        let mut returning = Vec::new();
        for Visitor { client, hello, mut events } in some {
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

/// Disconnects all remaining clients for good.
fn lose(visitors: Vec<Visitor>) -> Vec<Told> {
    let lost = visitors.into_iter().map(|Visitor { hello, mut events, .. }| {
        events.extend(["session.suspended", "session.expired"]);
        (hello.session, events)
    });
    lost.collect()
}

/// Waits until the backend has accepted `count` events, and returns its events. The delay between two
/// delivery attempts is up to 30 s.
fn await_events(server: &RunningServer, example: &Example, count: usize) -> Vec<Value> {
    let delivered = r#"encke_webhook_events_total{webhook="0",outcome="delivered"}"#;
    eventually_within(CROWD_TIMEOUT + Duration::from_secs(60), format!("{count} events"), || {
        (server.admin.metrics().value(delivered) == count as f64).then_some(())
    });
    let events = example.events();
    assert_eq!(events.len(), count, "each once");
    events
}

#[test]
fn a_thousand_sessions_are_told_once_and_in_order_though_the_backend_was_down() {
    let _turn = heavy_test_lock();
    require_descriptors(SESSIONS);
    let seed =
        std::env::var("ENCKE_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"));
    println!("ENCKE_SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let example = Example::new();
    let backend = example.start_backend(BACKEND);
    let server = example.launch(SERVER).set(WINDOW).set("session.ping_interval=10m").start();

    let mut visitors = enter(&server, &example);
    let mut told = cut_half(&server, &mut random, &mut visitors);
    // The backend ends while it receives events.
    drop(backend);
    let killed = Instant::now();
    let before = told.len();
    for _ in 0..2 {
        told.extend(cut_half(&server, &mut random, &mut visitors));
    }
    assert_eq!(Client::refusal_code(server.public, "token=t"), 4005, "nobody can say who that is");
    await_sessions(&server, "attached", visitors.len());
    await_sessions(&server, "suspended", 0);
    let queued = server.admin.metrics().value(r#"encke_webhook_queued{webhook="0"}"#);
    assert!(queued >= 2.0 * (told.len() - before) as f64, "{queued} events wait for the backend");
    let_pass(DOWN.saturating_sub(killed.elapsed()));

    let _backend = example.start_backend(BACKEND);
    let staying = visitors.iter().map(|visitor| visitor.events.len()).sum::<usize>();
    let gone = told.iter().map(|(_, events)| events.len()).sum::<usize>();
    await_events(&server, &example, staying + gone);
    println!("{} have stayed, {} have expired", visitors.len(), told.len());

    told.extend(lose(visitors));
    let count = told.iter().map(|(_, events)| events.len()).sum();
    let events = await_events(&server, &example, count);
    assert_eq!(told.len(), SESSIONS);
    for (session, expected) in &told {
        assert_eq!(names(&events, session), *expected, "{session}");
    }
}
