//! A thousand sessions of the chat of `tests/example`, cut at random, and its backend killed for a minute meanwhile. `ENCKE_SEED=<n>` makes
//! the same cuts again.

use std::time::{Duration, Instant};

use encke_tests::crowd::{CROWD_TIMEOUT, await_sessions, connect, require_descriptors};
use encke_tests::raw::RawClient;
use encke_tests::waiting::{eventually_within, heavy, let_pass};
use encke_tests::{Client, Hello, RunningServer};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use crate::example::{BACKEND, Example, SERVER, names};

const SESSIONS: usize = 1_000;
const USERS: usize = 10;
/// For how long the backend is down. All who are cut then and do not come back expire within it.
const DOWN: Duration = Duration::from_secs(60);
const WINDOW: &str = "session.reconnect_window=20s";
/// How many are cut at a time: few enough that those of them who come back do so within the window, also on a busy machine.
const CUT: usize = 50;

/// A client, and what the backend is to be told of its session.
struct Visitor {
    client: RawClient,
    hello: Hello,
    events: Vec<&'static str>,
}

/// A session that expires, and what the backend is to be told of it.
type Told = (String, Vec<&'static str>);

/// The token of a user who has signed in.
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

/// Cuts half of these. Of those, half come back at once, and the sessions of the others are returned: they will expire.
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

/// Those who are still there lose their connection for good.
fn lose(visitors: Vec<Visitor>) -> Vec<Told> {
    let lost = visitors.into_iter().map(|Visitor { hello, mut events, .. }| {
        events.extend(["session.suspended", "session.expired"]);
        (hello.session, events)
    });
    lost.collect()
}

/// Waits until the backend has accepted so many events, and returns what it has. A pause between two tries is up to 30 s.
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
    let _turn = heavy();
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
    // In the middle of what it is told.
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
