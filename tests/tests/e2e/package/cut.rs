//! Connections that break at random positions. `ENCKE_SEED=<n>` repeats a run with the same seed.

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

/// How far publishing may be ahead of the client, in messages. A channel keeps more than that.
const AHEAD: usize = 100;

/// Short intervals, so that broken connections are detected soon, also with long-polling.
const SOON: [&str; 3] =
    ["session.ping_interval=500ms", "session.pong_timeout=400ms", "session.poll_hold=500ms"];

fn seed() -> u64 {
    std::env::var("ENCKE_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"))
}

/// A relay that breaks this many connections at random positions, and counts all connections.
fn breaking(server: &RunningServer, seed: u64, broken: usize) -> (Relay, Arc<AtomicUsize>) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let relay = Relay::new(server.public, move || {
        match (count.fetch_add(1, Ordering::AcqRel), rng.random_range(0..8)) {
            (nth, _) if nth >= broken => Fate::Intact,
            // Within the first response, the hello, or the replies.
            (_, 0..3) => Fate::Cut(rng.random_range(0..650)),
            (_, 3..7) => Fate::Cut(rng.random_range(500..10_000)),
            (_, _) => Fate::Silent(rng.random_range(0..10_000)),
        }
    });
    (relay, connections)
}

/// Progress of the client and its last states, for failure messages.
fn told(client: &Script) -> String {
    let states = client.values("state");
    let last = &states[states.len().saturating_sub(10)..];
    format!(
        "{} messages, {} hellos, {last:?}; {}",
        client.count("message"),
        client.count("hello"),
        client.stderr_text()
    )
}

/// Publishes 1, 2, 3 and so on to each channel until `enough` returns true. Returns the last number.
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

/// Breaks the connections of a client that subscribes to `follows` while numbers are published on `channels`.
fn break_connections(kind: Kind, seed: u64, follows: &[&str], channels: [&str; 2]) {
    const BROKEN: usize = 8;
    let server = RunningServer::with(&[&SOON[..], &["session.reconnect_window=400ms"]].concat());
    let (relay, connections) = breaking(&server, seed, BROKEN);
    // An empty log would be removed with its last subscriber; the next log has another epoch, which the
    // client would see as a gap.
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
    assert_eq!((client.values("gap"), client.values("unsubscribed")), (vec![], vec![]), "{kind:?}");
}

#[test]
fn wherever_connections_break_every_message_comes_once_and_in_order() {
    let seed = seed();
    println!("ENCKE_SEED={seed}");
    for kind in KINDS {
        break_connections(kind, seed, &["news", "chat"], ["news", "chat"]);
    }
}

/// One of the subscriptions is a pattern that overlaps with another subscription.
#[test]
fn wherever_connections_break_every_message_by_patterns_comes_once_and_in_order() {
    let seed = seed();
    println!("ENCKE_SEED={seed}");
    for kind in KINDS {
        break_connections(kind, seed, &["/n/news", "/n/*"], ["/n/news", "/n/chat"]);
    }
}

/// The client chooses the idempotency keys and has no user; its sessions last throughout.
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
            client.send_command(&json!({"ask": ["publish", "out", asked]}));
            until("it is answered", || client.count("answer") + client.count("failed") + 5 >= asked);
        }
        client.await_object("answer", asked);
        assert_eq!(client.count("failed"), 0, "{kind:?}: {:?}", client.values("failed"));
        let history = server.admin.get("/api/channels/out/history?limit=1000").json();
        let history = history["messages"].as_array().expect("an array");
        let published = history.iter().map(|message| message["data"].as_u64().expect("a number"));
        assert_eq!(Vec::from_iter(published), Vec::from_iter(1..=asked as u64), "{kind:?}");
        // The replies have the same order.
        let answers = client.values("answer");
        let offsets = answers.iter().map(|answer| answer["offset"].as_u64().expect("an offset"));
        assert_eq!(Vec::from_iter(offsets), Vec::from_iter(1..=asked as u64), "{kind:?}");
    }
}

/// The client is not notified that its connection is dead. It reconnects before or after the server notices.
#[test]
fn a_client_that_hears_nothing_comes_back_by_itself() {
    for kind in KINDS {
        let server = RunningServer::with(&SOON);
        let relay = Relay::new(server.public, || Fate::Intact);
        let (client, hello) = kind.follow(&server, relay.address, &["news"], &json!({"hello_ms": 1_000}));
        publish(&server, 1..=3);
        client.await_object("message", 3);
        relay.silence_all();
        publish(&server, 4..=6);
        assert_news(&client, 6);
        await_open(&client, 2);
        assert_eq!(client.count("gap"), 0);
        let hellos = client.values("hello");
        assert!(hellos.iter().all(|other| id(other) == id(&hello)), "{kind:?}: {hellos:?}");
    }
}

/// The old connection stays open and is then closed as replaced, which must not disturb the client.
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

/// A new session continues after the last messages of the removed one, even if its first connections break
/// before delivering any.
#[test]
fn a_client_whose_session_is_gone_goes_on_where_it_was() {
    for kind in WITH_ONE_PAGE {
        let server = RunningServer::with(&["session.reconnect_window=2s"]);
        let (tell, fates) = mpsc::channel();
        // When the sender is dropped, all further connections are left intact.
        let relay = Relay::new(server.public, move || fates.recv().unwrap_or(Fate::Intact));
        for _ in 0..8 {
            tell.send(Fate::Intact).expect("the relay is there");
        }
        let (client, hello) = kind.follow(&server, relay.address, &["news"], &json!({}));
        publish(&server, 1..=5);
        client.await_object("message", 5);
        relay.cut_all();
        // Connections that are established before the session is removed are cut as well.
        until("its session is gone", || {
            relay.cut_all();
            server.admin.phase(id(&hello)).is_none()
        });
        publish(&server, 6..=8);
        drop(tell);
        publish(&server, [9]);
        assert_news(&client, 9);
        let resumed = |other: &Value| id(other) == id(&hello);
        assert!(!client.values("hello").iter().all(resumed), "{kind:?}");
        assert_eq!(client.count("gap"), 0, "{kind:?}");
    }
}

/// The loss is reported once, even if the session has been removed in the meantime.
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
            .values("gap")
            .iter()
            .map(|gap| gap["to"].as_u64().expect("a number") - gap["from"].as_u64().expect("a number") + 1)
            .sum();
        // The client may have reconnected before everything was published.
        assert_eq!(heard.len() as u64 + lost, 9, "{kind:?}: {heard:?}");
        assert!(heard.is_sorted(), "{kind:?}: {heard:?}");
    }
}

/// Two clients in one browser, each with its own session and transport.
#[test]
fn two_tabs_hear_everything_each() {
    for transport in ["websocket", "events", "poll"] {
        let server = RunningServer::with(&SOON);
        let relay = Relay::new(server.public, || Fate::Intact);
        let kind = Kind { place: "page", transport };
        let client = kind.start(&server, relay.address, &json!({"channels": ["news"], "tabs": 2}));
        until("both are open", || {
            client.values("reply").iter().filter(|reply| reply["ok"]["channel"] == "news").count() == 2
        });
        for round in 0..3 {
            publish(&server, 10 * round + 1..=10 * round + 10);
            let count = 20 * usize::try_from(round + 1).expect("a few");
            client.await_object("message", count);
            relay.cut_all();
        }
        let heard = client.take_objects();
        for tab in 0..2 {
            let of_tab =
                heard.iter().filter(|(_, object)| object["tab"] == tab && object.get("message").is_some());
            let numbers = of_tab.map(|(_, object)| object["message"]["data"].as_u64().expect("a number"));
            assert_eq!(Vec::from_iter(numbers), Vec::from_iter(1..=30), "{transport}, tab {tab}");
        }
    }
}
