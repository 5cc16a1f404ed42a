//! Connections that break, wherever they please. `ENCKE_SEED=<n>` gives the random tests the same seed again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use encke_tests::process::Signal;
use encke_tests::relay::Fate;
use encke_tests::waiting::until;
use encke_tests::{Relay, RunningServer, Script};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::{KINDS, Kind, WITH_ONE_PAGE, assert_news, await_followed, await_open, data, id, publish, states};

/// How far ahead of the clients is published, in messages: less than a channel keeps.
const AHEAD: usize = 100;

/// Soon, also for clients that poll.
const SOON: [&str; 3] =
    ["session.ping_interval=500ms", "session.pong_timeout=400ms", "session.poll_hold=500ms"];

fn seed() -> u64 {
    std::env::var("ENCKE_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"))
}

/// A relay that breaks this many connections, anywhere, and counts them all.
fn breaking(server: &RunningServer, seed: u64, broken: usize) -> (Relay, Arc<AtomicUsize>) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let relay = Relay::new(server.public, move || {
        match (count.fetch_add(1, Ordering::AcqRel), rng.random_range(0..8)) {
            (nth, _) if nth >= broken => Fate::Whole,
            // Within the first answer, the hello, or the replies.
            (_, 0..3) => Fate::Cut(rng.random_range(0..650)),
            (_, 3..7) => Fate::Cut(rng.random_range(500..10_000)),
            (_, _) => Fate::Silent(rng.random_range(0..10_000)),
        }
    });
    (relay, connections)
}

/// How far the client has come, and its last states.
fn told(client: &Script) -> String {
    let states = client.heard("state");
    let last = &states[states.len().saturating_sub(10)..];
    format!(
        "{} messages, {} hellos, {last:?}; {}",
        client.count("message"),
        client.count("hello"),
        client.complaints()
    )
}

/// Publishes 1, 2, 3 and so on on each channel until it is enough: the last.
fn publish_until(
    server: &RunningServer,
    client: &Script,
    channels: &[&str],
    enough: impl Fn() -> bool,
) -> u64 {
    let mut published = 0;
    while published == 0 || !enough() {
        published += 1;
        for channel in channels {
            server.admin.publish(channel, published);
        }
        let count = usize::try_from(published).expect("not that many") * channels.len();
        let what = fmt::from_fn(|f| write!(f, "it keeps up with {count}, at {}", told(client)));
        until(what, || client.count("message") + AHEAD >= count);
    }
    published
}

/// Breaks the connections of a client that follows `follows` while something is published on `channels`.
fn break_connections(kind: Kind, seed: u64, follows: &[&str], channels: [&str; 2]) {
    const BROKEN: usize = 8;
    let server = RunningServer::with(&[&SOON[..], &["session.reconnect_window=400ms"]].concat());
    let (relay, connections) = breaking(&server, seed, BROKEN);
    // An empty log would end with its last subscriber; the next one's is another, which would be told in a gap.
    let mut keeper = server.client();
    follows.iter().for_each(|name| _ = keeper.subscribe(name));
    for channel in channels {
        server.admin.publish(channel, 0);
    }
    keeper.send(r#"{"close":{}}"#);
    let client = kind.start(&server, relay.address, &json!({"channels": follows, "hello_ms": 1_000}));
    await_followed(&client, follows);
    let last = publish_until(&server, &client, &channels, || connections.load(Ordering::Acquire) > BROKEN);
    let messages = usize::try_from(last).expect("not that many") * channels.len();
    client.await_object("message", messages);
    for channel in channels {
        assert_eq!(data(&client, channel), Vec::from_iter(1..=last), "{kind:?}, {channel}");
    }
    assert_eq!((client.heard("gap"), client.heard("unsubscribed")), (vec![], vec![]), "{kind:?}");
}

#[test]
fn wherever_connections_break_every_message_comes_once_and_in_order() {
    let seed = seed();
    println!("ENCKE_SEED={seed}");
    for kind in KINDS {
        break_connections(kind, seed, &["news", "chat"], ["news", "chat"]);
    }
}

/// Where one of the subscriptions is a pattern, which brings what another brings as well.
#[test]
fn wherever_connections_break_every_message_by_patterns_comes_once_and_in_order() {
    let seed = seed();
    println!("ENCKE_SEED={seed}");
    for kind in KINDS {
        break_connections(kind, seed, &["/n/news", "/n/*"], ["/n/news", "/n/chat"]);
    }
}

/// With keys of the client's choice, for nobody by name: the sessions last.
#[test]
fn wherever_connections_break_every_publish_is_done_once_and_in_order() {
    const BROKEN: usize = 8;
    let seed = seed();
    println!("ENCKE_SEED={seed}");
    for kind in WITH_ONE_PAGE {
        let server = RunningServer::with(&[&SOON[..], &["channel.history_messages=10000"]].concat());
        let (relay, connections) = breaking(&server, seed, BROKEN);
        let mut client = kind.start(&server, relay.address, &json!({"hello_ms": 1_000}));
        client.await_object("ready", 1);
        let mut asked = 0;
        while connections.load(Ordering::Acquire) <= BROKEN {
            asked += 1;
            client.tell(&json!({"ask": ["publish", "out", asked]}));
            until("it is answered", || client.count("answer") + client.count("failed") + 5 >= asked);
        }
        client.await_object("answer", asked);
        assert_eq!(client.count("failed"), 0, "{kind:?}: {:?}", client.heard("failed"));
        let history = server.admin.get("/api/channels/out/history?limit=1000").json();
        let history = history["messages"].as_array().expect("an array");
        let published = history.iter().map(|message| message["data"].as_u64().expect("a number"));
        assert_eq!(Vec::from_iter(published), Vec::from_iter(1..=asked as u64), "{kind:?}");
        // In the order of their answers, too.
        let answers = client.heard("answer");
        let offsets = answers.iter().map(|answer| answer["offset"].as_u64().expect("an offset"));
        assert_eq!(Vec::from_iter(offsets), Vec::from_iter(1..=asked as u64), "{kind:?}");
    }
}

/// Nobody tells it that its connections are dead. It is back before the server has noticed, or after.
#[test]
fn a_client_that_hears_nothing_comes_back_by_itself() {
    for kind in KINDS {
        let server = RunningServer::with(&SOON);
        let relay = Relay::new(server.public, || Fate::Whole);
        let (client, hello) = kind.follow(&server, relay.address, &["news"], &json!({"hello_ms": 1_000}));
        publish(&server, 1..=3);
        client.await_object("message", 3);
        relay.silence_all();
        publish(&server, 4..=6);
        assert_news(&client, 6);
        await_open(&client, 2);
        assert_eq!(client.count("gap"), 0);
        let hellos = client.heard("hello");
        assert!(hellos.iter().all(|other| id(other) == id(&hello)), "{kind:?}: {hellos:?}");
    }
}

/// Its old connection, which is there all the time, is told that it was replaced; nobody minds.
#[test]
fn a_client_comes_back_to_a_server_that_was_stopped() {
    for kind in WITH_ONE_PAGE {
        let server = RunningServer::with(&SOON);
        let (client, _) = kind.follow(&server, server.public, &["news"], &json!({"hello_ms": 1_000}));
        publish(&server, 1..=5);
        client.await_object("message", 5);
        server.signal(Signal::STOP);
        until("it has noticed", || states(&client).last().is_some_and(|state| state != "open"));
        server.signal(Signal::CONT);
        await_open(&client, 2);
        publish(&server, 6..=10);
        assert_news(&client, 10);
        assert!(!states(&client).contains(&"closed".to_owned()), "{kind:?}");
    }
}

/// A new session goes on from the last messages of the one that is gone, also if it is cut before it has brought any.
#[test]
fn a_client_whose_session_is_gone_goes_on_where_it_was() {
    for kind in WITH_ONE_PAGE {
        let server = RunningServer::with(&["session.reconnect_window=2s"]);
        let (tell, fates) = mpsc::channel();
        // Once it is closed to all, it opens.
        let relay = Relay::new(server.public, move || fates.recv().unwrap_or(Fate::Whole));
        for _ in 0..8 {
            tell.send(Fate::Whole).expect("the relay is there");
        }
        let (client, hello) = kind.follow(&server, relay.address, &["news"], &json!({}));
        publish(&server, 1..=5);
        client.await_object("message", 5);
        relay.cut_all();
        // What comes before the end of its session is cut, too.
        until("its session is gone", || {
            relay.cut_all();
            server.admin.phase(id(&hello)).is_none()
        });
        publish(&server, 6..=8);
        drop(tell);
        publish(&server, [9]);
        assert_news(&client, 9);
        let resumed = |other: &Value| id(other) == id(&hello);
        assert!(!client.heard("hello").iter().all(resumed), "{kind:?}");
        assert_eq!(client.count("gap"), 0, "{kind:?}");
    }
}

/// Once, also if it is gone for so long that its session is, too.
#[test]
fn a_client_is_told_what_it_missed_for_good() {
    for kind in WITH_ONE_PAGE {
        let server = RunningServer::with(&["channel.history_messages=4", "session.reconnect_window=2s"]);
        let (client, hello) = kind.follow(&server, server.public, &["news"], &json!({}));
        publish(&server, [1, 2]);
        client.await_object("message", 2);
        server.signal(Signal::STOP);
        server.signal(Signal::CONT);
        assert_eq!(server.admin.disconnect(id(&hello)).status, 204);
        publish(&server, 3..=9);
        client.await_object("message", 3);
        until("the last has come", || data(&client, "news").last() == Some(&9));
        let heard = data(&client, "news");
        let lost: u64 = client
            .heard("gap")
            .iter()
            .map(|gap| gap["to"].as_u64().expect("a number") - gap["from"].as_u64().expect("a number") + 1)
            .sum();
        // It may have been back before all were published.
        assert_eq!(heard.len() as u64 + lost, 9, "{kind:?}: {heard:?}");
        assert!(heard.is_sorted(), "{kind:?}: {heard:?}");
    }
}

/// Two clients of one page's browser, each with its own session and transport.
#[test]
fn two_tabs_hear_everything_each() {
    for transport in ["websocket", "events", "poll"] {
        let server = RunningServer::with(&SOON);
        let relay = Relay::new(server.public, || Fate::Whole);
        let kind = Kind { place: "page", transport };
        let client = kind.start(&server, relay.address, &json!({"channels": ["news"], "tabs": 2}));
        until("both are open", || {
            client.heard("reply").iter().filter(|reply| reply["ok"]["channel"] == "news").count() == 2
        });
        for round in 0..3 {
            publish(&server, 10 * round + 1..=10 * round + 10);
            let count = 20 * usize::try_from(round + 1).expect("a few");
            client.await_object("message", count);
            relay.cut_all();
        }
        let heard = client.take_heard();
        for tab in 0..2 {
            let of_tab =
                heard.iter().filter(|(_, object)| object["tab"] == tab && object.get("message").is_some());
            let numbers = of_tab.map(|(_, object)| object["message"]["data"].as_u64().expect("a number"));
            assert_eq!(Vec::from_iter(numbers), Vec::from_iter(1..=30), "{transport}, tab {tab}");
        }
    }
}
