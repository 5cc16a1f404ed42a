//! Connections that break at random positions. `ENCKE_SEED=<n>` repeats a run with the same seed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use encke_tests::process::Signal;
use encke_tests::relay::Fate;
use encke_tests::waiting::until;
use encke_tests::{Relay, RunningServer, Script};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use super::{
    KINDS, KINDS_WITH_ONE_PAGE, assert_news, await_open, await_subscribed, data, session_id, states,
};

/// Number of messages by which publishing may be ahead of the client. Less than a channel's history.
const MAX_AHEAD: usize = 100;

/// Short intervals, so that broken connections are detected soon, including with long-polling.
const SHORT_TIMEOUTS: [&str; 3] =
    ["session.ping_interval=500ms", "session.pong_timeout=400ms", "session.poll_hold=500ms"];

/// Number of connections that break.
const BROKEN: usize = 8;

/// Starts a relay that breaks the first connections at random positions and counts all connections.
fn breaking_relay(server: &RunningServer, seed: u64) -> (Relay, Arc<AtomicUsize>) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let relay = Relay::new(server.public, move || {
        match (count.fetch_add(1, Ordering::AcqRel), rng.random_range(0..8)) {
            (BROKEN.., _) => Fate::Intact,
            // Cut within the first response, the hello, or the replies.
            (_, 0..3) => Fate::Cut(rng.random_range(0..650)),
            (_, 3..7) => Fate::Cut(rng.random_range(500..10_000)),
            (_, _) => Fate::Silent(rng.random_range(0..10_000)),
        }
    });
    (relay, connections)
}

/// Breaks the connections of a client that `start` starts with these subscriptions. Asserts that every message
/// arrives once and in order. One of the subscriptions is a pattern that overlaps another. Some sessions expire
/// before the client reconnects.
pub(crate) fn break_connections(
    name: &str,
    seed: u64,
    start: impl FnOnce(&RunningServer, SocketAddr, &[&str]) -> Script,
) {
    const SUBSCRIPTIONS: [&str; 2] = ["/n/news", "/n/*"];
    const CHANNELS: [&str; 2] = ["/n/news", "/n/chat"];
    let server = RunningServer::with(&[&SHORT_TIMEOUTS[..], &["session.reconnect_window=400ms"]].concat());
    let (relay, connections) = breaking_relay(&server, seed);
    // Publish a first message to each channel: an empty log is removed with its last subscriber, and the next
    // log has another epoch, which the client would see as a gap.
    let mut keeper = server.client();
    SUBSCRIPTIONS.iter().for_each(|name| _ = keeper.subscribe(name));
    CHANNELS.iter().for_each(|channel| _ = server.admin.publish(channel, 0));
    keeper.send(r#"{"close":{}}"#);
    let client = start(&server, relay.address, &SUBSCRIPTIONS);
    await_subscribed(&client, &SUBSCRIPTIONS);
    let mut last = 0;
    while last == 0 || connections.load(Ordering::Acquire) <= BROKEN {
        last += 1;
        CHANNELS.iter().for_each(|channel| _ = server.admin.publish(channel, last));
        let count = usize::try_from(last).expect("a small number") * CHANNELS.len();
        until(format!("{name} keeps up"), || client.count("message") + MAX_AHEAD >= count);
    }
    client.await_object("message", usize::try_from(last).expect("a small number") * CHANNELS.len());
    for channel in CHANNELS {
        assert_eq!(data(&client, channel), Vec::from_iter(1..=last), "{name}, {channel}");
    }
    for fault in ["gap", "unsubscribed", "closed"] {
        assert_eq!(client.count(fault), 0, "{name}: {:?}", client.values(fault));
    }
}

#[test]
fn every_message_arrives_once_and_in_order_despite_broken_connections() {
    let seed = encke_seeds::seed();
    for kind in KINDS {
        break_connections(&format!("{kind:?}"), seed, |server, base, subscriptions| {
            kind.start(server, base, &json!({"channels": subscriptions, "hello_ms": 1_000}))
        });
    }
}

/// The client chooses the idempotency keys and has no user. Its sessions are kept throughout.
#[test]
fn every_publish_takes_effect_once_and_in_order_despite_broken_connections() {
    let seed = encke_seeds::seed();
    for kind in KINDS_WITH_ONE_PAGE {
        let server =
            RunningServer::with(&[&SHORT_TIMEOUTS[..], &["channel.history_messages=10000"]].concat());
        let (relay, connections) = breaking_relay(&server, seed);
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

/// The client is not notified that its connection is dead. The old connection stays open and is then closed as
/// replaced, which must not disturb the client.
#[test]
fn a_client_reconnects_to_a_server_that_was_stopped() {
    for kind in KINDS_WITH_ONE_PAGE {
        let server = RunningServer::with(&SHORT_TIMEOUTS);
        let (client, _) =
            kind.start_subscribed(&server, server.public, &["news"], &json!({"hello_ms": 1_000}));
        server.admin.publish_each("news", 1..=5);
        client.await_object("message", 5);
        server.signal(Signal::STOP);
        until("the client notices the disconnect", || {
            states(&client).last().is_some_and(|state| state != "open")
        });
        server.signal(Signal::CONT);
        await_open(&client, 2);
        server.admin.publish_each("news", 6..=10);
        assert_news(&client, 10);
        assert!(!states(&client).contains(&"closed".to_owned()), "{kind:?}");
    }
}

/// The loss is reported once, even if the session has been removed in the meantime.
#[test]
fn lost_messages_are_reported_once() {
    for kind in KINDS_WITH_ONE_PAGE {
        let server = RunningServer::with(&["channel.history_messages=4", "session.reconnect_window=2s"]);
        let (client, hello) = kind.start_subscribed(&server, server.public, &["news"], &json!({}));
        server.admin.publish_each("news", [1, 2]);
        client.await_object("message", 2);
        server.signal(Signal::STOP);
        server.signal(Signal::CONT);
        assert_eq!(server.admin.disconnect(session_id(&hello)).status, 204);
        server.admin.publish_each("news", 3..=9);
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
