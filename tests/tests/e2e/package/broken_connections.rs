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

use super::{
    ClientKind, KINDS, KINDS_WITH_ONE_PAGE, assert_news, await_open, await_subscribed, data, publish,
    session_id, states,
};

/// Number of messages by which publishing may be ahead of the client. Less than a channel's history.
const MAX_AHEAD: usize = 100;

/// Short intervals, so that broken connections are detected soon, including with long-polling.
const SHORT_TIMEOUTS: [&str; 3] =
    ["session.ping_interval=500ms", "session.pong_timeout=400ms", "session.poll_hold=500ms"];

fn seed() -> u64 {
    std::env::var("ENCKE_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"))
}

/// Starts a relay that breaks this many connections at random positions and counts all connections.
fn breaking_relay(server: &RunningServer, seed: u64, broken: usize) -> (Relay, Arc<AtomicUsize>) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let relay = Relay::new(server.public, move || {
        match (count.fetch_add(1, Ordering::AcqRel), rng.random_range(0..8)) {
            (nth, _) if nth >= broken => Fate::Intact,
            // Cut within the first response, the hello, or the replies.
            (_, 0..3) => Fate::Cut(rng.random_range(0..650)),
            (_, 3..7) => Fate::Cut(rng.random_range(500..10_000)),
            (_, _) => Fate::Silent(rng.random_range(0..10_000)),
        }
    });
    (relay, connections)
}

/// Returns the client's progress and its last states, for failure messages.
fn progress(client: &Script) -> String {
    let states = client.values("state");
    let last = &states[states.len().saturating_sub(10)..];
    format!(
        "{} messages, {} hellos, {last:?}; {}",
        client.count("message"),
        client.count("hello"),
        client.stderr_text()
    )
}

/// Publishes 1, 2, 3 and so on to each channel until `enough` returns `true`. Returns the last number.
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
        let count = usize::try_from(published).expect("a small number") * channels.len();
        let what =
            fmt::from_fn(|f| write!(f, "the client keeps up with {count} messages: {}", progress(client)));
        until(what, || client.count("message") + MAX_AHEAD >= count);
    }
    published
}

/// Breaks the connections of a client that subscribes to `subscriptions` while numbers are published on
/// `channels`.
fn break_connections(kind: ClientKind, seed: u64, subscriptions: &[&str], channels: [&str; 2]) {
    const BROKEN: usize = 8;
    let server = RunningServer::with(&[&SHORT_TIMEOUTS[..], &["session.reconnect_window=400ms"]].concat());
    let (relay, connections) = breaking_relay(&server, seed, BROKEN);
    // Publish a first message to each channel: an empty log is removed with its last subscriber, and the next
    // log has another epoch, which the client would see as a gap.
    let mut keeper = server.client();
    subscriptions.iter().for_each(|name| _ = keeper.subscribe(name));
    for channel in channels {
        server.admin.publish(channel, 0);
    }
    keeper.send(r#"{"close":{}}"#);
    let client = kind.start(&server, relay.address, &json!({"channels": subscriptions, "hello_ms": 1_000}));
    await_subscribed(&client, subscriptions);
    let last = publish_until(&server, &client, &channels, || connections.load(Ordering::Acquire) > BROKEN);
    let messages = usize::try_from(last).expect("a small number") * channels.len();
    client.await_object("message", messages);
    for channel in channels {
        assert_eq!(data(&client, channel), Vec::from_iter(1..=last), "{kind:?}, {channel}");
    }
    assert_eq!((client.values("gap"), client.values("unsubscribed")), (vec![], vec![]), "{kind:?}");
}

#[test]
fn every_message_arrives_once_and_in_order_despite_broken_connections() {
    let seed = seed();
    println!("ENCKE_SEED={seed}");
    for kind in KINDS {
        break_connections(kind, seed, &["news", "chat"], ["news", "chat"]);
    }
}

/// One of the subscriptions is a pattern that overlaps another subscription.
#[test]
fn every_pattern_message_arrives_once_and_in_order_despite_broken_connections() {
    let seed = seed();
    println!("ENCKE_SEED={seed}");
    for kind in KINDS {
        break_connections(kind, seed, &["/n/news", "/n/*"], ["/n/news", "/n/chat"]);
    }
}

/// The client chooses the idempotency keys and has no user. Its sessions are kept throughout.
#[test]
fn every_publish_takes_effect_once_and_in_order_despite_broken_connections() {
    const BROKEN: usize = 8;
    let seed = seed();
    println!("ENCKE_SEED={seed}");
    for kind in KINDS_WITH_ONE_PAGE {
        let server =
            RunningServer::with(&[&SHORT_TIMEOUTS[..], &["channel.history_messages=10000"]].concat());
        let (relay, connections) = breaking_relay(&server, seed, BROKEN);
        let mut client = kind.start(&server, relay.address, &json!({"hello_ms": 1_000}));
        client.await_object("ready", 1);
        let mut sent = 0;
        while connections.load(Ordering::Acquire) <= BROKEN {
            sent += 1;
            client.send_command(&json!({"ask": ["publish", "out", sent]}));
            until("all but five publishes are answered", || {
                client.count("answer") + client.count("failed") + 5 >= sent
            });
        }
        client.await_object("answer", sent);
        assert_eq!(client.count("failed"), 0, "{kind:?}: {:?}", client.values("failed"));
        let history = server.admin.get("/api/channels/out/history?limit=1000").json();
        let history = history["messages"].as_array().expect("an array");
        let published = history.iter().map(|message| message["data"].as_u64().expect("a number"));
        assert_eq!(Vec::from_iter(published), Vec::from_iter(1..=sent as u64), "{kind:?}");
        // The replies are in the same order.
        let answers = client.values("answer");
        let offsets = answers.iter().map(|answer| answer["offset"].as_u64().expect("an offset"));
        assert_eq!(Vec::from_iter(offsets), Vec::from_iter(1..=sent as u64), "{kind:?}");
    }
}

/// The client is not notified that its connection is dead. It reconnects before or after the server notices.
#[test]
fn a_client_detects_a_silent_connection_and_reconnects() {
    for kind in KINDS {
        let server = RunningServer::with(&SHORT_TIMEOUTS);
        let relay = Relay::new(server.public, || Fate::Intact);
        let (client, hello) =
            kind.start_subscribed(&server, relay.address, &["news"], &json!({"hello_ms": 1_000}));
        publish(&server, 1..=3);
        client.await_object("message", 3);
        relay.silence_all();
        publish(&server, 4..=6);
        assert_news(&client, 6);
        await_open(&client, 2);
        assert_eq!(client.count("gap"), 0);
        let hellos = client.values("hello");
        assert!(hellos.iter().all(|other| session_id(other) == session_id(&hello)), "{kind:?}: {hellos:?}");
    }
}

/// The old connection stays open and is then closed as replaced, which must not disturb the client.
#[test]
fn a_client_reconnects_to_a_server_that_was_stopped() {
    for kind in KINDS_WITH_ONE_PAGE {
        let server = RunningServer::with(&SHORT_TIMEOUTS);
        let (client, _) =
            kind.start_subscribed(&server, server.public, &["news"], &json!({"hello_ms": 1_000}));
        publish(&server, 1..=5);
        client.await_object("message", 5);
        server.signal(Signal::STOP);
        until("the client notices the disconnect", || {
            states(&client).last().is_some_and(|state| state != "open")
        });
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
fn a_client_continues_in_a_new_session() {
    for kind in KINDS_WITH_ONE_PAGE {
        let server = RunningServer::with(&["session.reconnect_window=2s"]);
        let (fate_sender, fates) = mpsc::channel();
        // When the sender is dropped, later connections are left intact.
        let relay = Relay::new(server.public, move || fates.recv().unwrap_or(Fate::Intact));
        for _ in 0..8 {
            fate_sender.send(Fate::Intact).expect("the relay is running");
        }
        let (client, hello) = kind.start_subscribed(&server, relay.address, &["news"], &json!({}));
        publish(&server, 1..=5);
        client.await_object("message", 5);
        relay.cut_all();
        // Also cut connections that are established before the session is removed.
        until("the session is removed", || {
            relay.cut_all();
            server.admin.phase(session_id(&hello)).is_none()
        });
        publish(&server, 6..=8);
        drop(fate_sender);
        publish(&server, [9]);
        assert_news(&client, 9);
        let resumed = |other: &Value| session_id(other) == session_id(&hello);
        assert!(!client.values("hello").iter().all(resumed), "{kind:?}");
        assert_eq!(client.count("gap"), 0, "{kind:?}");
    }
}

/// The loss is reported once, even if the session has been removed in the meantime.
#[test]
fn lost_messages_are_reported_once() {
    for kind in KINDS_WITH_ONE_PAGE {
        let server = RunningServer::with(&["channel.history_messages=4", "session.reconnect_window=2s"]);
        let (client, hello) = kind.start_subscribed(&server, server.public, &["news"], &json!({}));
        publish(&server, [1, 2]);
        client.await_object("message", 2);
        server.signal(Signal::STOP);
        server.signal(Signal::CONT);
        assert_eq!(server.admin.disconnect(session_id(&hello)).status, 204);
        publish(&server, 3..=9);
        client.await_object("message", 3);
        until("the last message arrives", || data(&client, "news").last() == Some(&9));
        let received = data(&client, "news");
        let lost: u64 = client
            .values("gap")
            .iter()
            .map(|gap| gap["to"].as_u64().expect("a number") - gap["from"].as_u64().expect("a number") + 1)
            .sum();
        // The client may have reconnected before everything was published.
        assert_eq!(received.len() as u64 + lost, 9, "{kind:?}: {received:?}");
        assert!(received.is_sorted(), "{kind:?}: {received:?}");
    }
}

/// Two clients in one browser, each with its own session and transport.
#[test]
fn two_tabs_each_receive_everything() {
    for transport in ["websocket", "events", "poll"] {
        let server = RunningServer::with(&SHORT_TIMEOUTS);
        let relay = Relay::new(server.public, || Fate::Intact);
        let kind = ClientKind { place: "page", transport };
        let client = kind.start(&server, relay.address, &json!({"channels": ["news"], "tabs": 2}));
        until("both clients are subscribed", || {
            client.values("reply").iter().filter(|reply| reply["ok"]["channel"] == "news").count() == 2
        });
        for round in 0..3 {
            publish(&server, 10 * round + 1..=10 * round + 10);
            let count = 20 * usize::try_from(round + 1).expect("a small number");
            client.await_object("message", count);
            relay.cut_all();
        }
        let received = client.take_objects();
        for tab in 0..2 {
            let of_tab =
                received.iter().filter(|(_, object)| object["tab"] == tab && object.get("message").is_some());
            let numbers = of_tab.map(|(_, object)| object["message"]["data"].as_u64().expect("a number"));
            assert_eq!(Vec::from_iter(numbers), Vec::from_iter(1..=30), "{transport}, tab {tab}");
        }
    }
}
