use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use encke_tests::tokens::token;
use encke_tests::waiting::{let_pass, until};
use encke_tests::{Admin, Backend, Client, EventStream, Launch, ServerOutput};
use schemathesis::Schemathesis;
use serde_json::{Value, json};

use crate::webhooks::SECRET as WEBHOOK_SECRET;

// Runs of schemathesis.
mod schemathesis;

const KEY: &str = "openapi-key-0123456789";
const DISCONNECTED: u16 = 4007;

/// Operation that schemathesis does not test, because its response is an endless stream. See `live.rs`.
const STREAM: &str = "watch";

/// Channel to which the test subscribes and publishes throughout.
const CHANNEL: &str = "news";
const CHANNELS: [&str; 4] = [CHANNEL, "a/b c", "é*", "%2F"];

/// Reminder ids that requests use often.
const REMINDERS: [&str; 3] = ["game-7/turn", "a b", "é"];

/// Number of sessions that the tested requests may end.
const DOOMED: usize = 40;

/// Tests the server with schemathesis. `ENCKE_SEED=<n>` selects other requests, although timing has some
/// influence as well.
#[test]
fn api_matches_its_description() {
    let backend = Backend::start();
    let webhook = format!(
        "{{name=\"backend\",url=\"{}\",events=[\"reminder.due\"],secret=\"{WEBHOOK_SECRET}\"}}",
        backend.url("/")
    );
    // No message is evicted and no session expires, however slow the machine is.
    let launch = Launch::with_tokens(&["session.reconnect_window=1h", "channel.history_messages=100000"]);
    let mut server =
        launch.set(&format!("webhook=[{webhook}]")).set(&format!("auth.api_keys=[\"{KEY}\"]")).start();
    server.admin = server.admin.with_key(KEY);
    let query = &format!("token={}", token("alice", json!({})));

    let recording = Client::connect(server.public, query);
    let mut sessions = vec![recording.hello.session.clone()];
    let (last, stop) = (Arc::new(AtomicU64::new(u64::MAX)), Arc::new(AtomicBool::new(false)));
    let recorder = record_messages(recording, server.public, query.clone(), Arc::clone(&last));
    let publisher = publish_until(Arc::clone(&stop), server.admin);
    let doomed: Vec<_> = (0..DOOMED).map(|_| subscriber(server.public, query)).collect();
    let idle: Vec<_> = (0..3).map(|_| subscriber(server.public, query)).collect();
    let suspended = server.suspend(subscriber(server.public, query)).session;
    let mut events = EventStream::open(server.public, &format!("channels={CHANNEL}&{query}"));
    sessions.extend([suspended, events.hello().session]);
    sessions.extend(ids(&idle).into_iter().map(ToOwned::to_owned));

    let seed = std::env::var("ENCKE_SEED").unwrap_or_else(|_| "1".to_owned());
    let document = server.admin.get("/api/openapi.json");
    let schemathesis = Schemathesis::of(&document.body)
        .dictionary("sessions", sessions.iter().map(|session| &**session))
        .dictionary("doomed", ids(&doomed))
        .dictionary("channels", CHANNELS)
        .dictionary("users", ["alice", "mallory"])
        .dictionary("reminders", REMINDERS)
        .environment("ENCKE_API_KEY", KEY)
        .environment("ENCKE_KEPT", &sessions.join(","))
        .environment("ENCKE_DOOMED", &ids(&doomed).join(","));
    schemathesis.check_document();
    let (report, seen) = schemathesis.test(&format!("http://{}", server.admin.address()), &seed);

    assert_all_operations_reached(&document.json(), &seen);

    stop.store(true, Ordering::Release);
    publisher.join().expect("the publisher does not panic");
    let newest = publish(server.admin);
    last.store(newest, Ordering::Release);
    until("the last message arrives", || recorder.is_finished());
    let received = recorder.join().expect("the subscriber does not panic");
    assert!(received.iter().map(|(seq, _)| *seq).eq(1..=received.len() as u64), "{received:?}");
    assert!(received.iter().filter_map(|(_, offset)| *offset).eq(1..=newest), "up to {newest}: {received:?}");
    for session in sessions {
        assert!(server.admin.phase(&session).is_some(), "{session} has ended");
    }
    assert_eq!(server.admin.get("/healthz").status, 200);
    let mut client = subscriber(server.public, query);
    client.close();
    println!("ENCKE_SEED={seed}\n{report}\n{seen}");
}

/// Asserts that each operation succeeded at least once, and that it was refused without a key.
fn assert_all_operations_reached(document: &Value, seen: &Value) {
    let paths = document["paths"].as_object().expect("paths");
    let items = paths.values().flat_map(|path| path.as_object().expect("an object").values());
    for operation in items.filter(|item| item["operationId"].is_string()) {
        let name = operation["operationId"].as_str().expect("a string");
        if name == STREAM {
            continue;
        }
        for status in operation["responses"].as_object().expect("an object").keys() {
            if status.starts_with('2') || status == "401" {
                assert!(seen[name][status].is_u64(), "{name} was never answered with {status}: {seen}");
            }
        }
    }
}

/// Publishes to the channel and returns the offset.
fn publish(admin: Admin) -> u64 {
    let answer = admin.post("/api/publish", json!({"channel": CHANNEL, "data": "a message"}));
    answer.json()["offset"].as_u64().unwrap_or_else(|| panic!("{answer:?}"))
}

fn ids(clients: &[Client]) -> Vec<&str> {
    clients.iter().map(|client| &*client.hello.session).collect()
}

fn subscriber(address: SocketAddr, query: &str) -> Client {
    let mut client = Client::connect(address, query);
    client.subscribe(CHANNELS[1]);
    client
}

/// Seq of a message or gap, and the offset if the message is on the channel.
type Numbered = (u64, Option<u64>);

/// Starts a thread with a client that subscribes to the channel before it has any messages, and resumes when
/// its connection is dropped. The thread returns everything received up to offset `last` of the channel.
fn record_messages(
    mut client: Client,
    address: SocketAddr,
    query: String,
    last: Arc<AtomicU64>,
) -> JoinHandle<Vec<Numbered>> {
    client.subscribe(CHANNEL);
    std::thread::spawn(move || {
        let mut received: Vec<Numbered> = Vec::new();
        while received.iter().rev().find_map(|(_, offset)| *offset).unwrap_or(0)
            < last.load(Ordering::Acquire)
        {
            match client.next_within(Duration::from_millis(10)) {
                // The tested requests subscribe the session to other channels as well, with or without
                // history.
                Some(ServerOutput::Object(object)) if object["subscribed"].is_object() => {}
                Some(ServerOutput::Object(object)) => {
                    let numbered = ["message", "gap"].map(|kind| object[kind]["seq"].as_u64());
                    let seq = numbered.into_iter().flatten().next();
                    let message = &object["message"];
                    let offset = message["offset"].as_u64().filter(|_| message["channel"] == CHANNEL);
                    received.push((seq.unwrap_or_else(|| panic!("{object}")), offset));
                }
                Some(ServerOutput::Close(DISCONNECTED, _)) => {
                    let seq = received.last().map_or(0, |(seq, _)| *seq);
                    let resume = format!("resume={}&seq={seq}&{query}", client.hello.resume);
                    let next = Client::connect(address, &resume);
                    assert!(next.hello.recovered && next.hello.session == client.hello.session);
                    client = next;
                }
                Some(ServerOutput::Ping(_)) | None => {}
                Some(other) => panic!("{other:?}"),
            }
        }
        received
    })
}

/// Starts a thread that publishes until it is stopped.
fn publish_until(stop: Arc<AtomicBool>, admin: Admin) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while !stop.load(Ordering::Acquire) {
            publish(admin);
            let_pass(Duration::from_millis(20));
        }
    })
}
