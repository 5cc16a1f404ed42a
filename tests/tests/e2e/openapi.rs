use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::{let_pass, until};
use encke_tests::{Admin, Backend, Client, EventStream, Launch, RunningServer, Schemathesis, ServerOutput};
use parking_lot::Mutex;
use serde_json::{Value, json};

const KEY: &str = "openapi-key-0123456789";
const DISCONNECTED: u16 = 4007;

/// Operation that schemathesis does not test, because its response is an endless stream. See `live.rs`.
const STREAM: &str = "watch";

/// Channel to which the test subscribes and publishes throughout.
const CHANNEL: &str = "news";
const CHANNELS: [&str; 4] = [CHANNEL, "a/b c", "é*", "%2F"];

/// Reminder ids that requests use often.
const REMINDERS: [&str; 3] = ["game-7/turn", "a b", "é"];
const WEBHOOK_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Number of sessions that the tested requests may end.
const DOOMED: usize = 40;

/// Configures a server on which no message is evicted and no session expires, however slow the machine is.
fn launch(backend: &Backend) -> Launch {
    let webhook = format!(
        "{{name=\"backend\",url=\"{}\",events=[\"reminder.due\"],secret=\"{WEBHOOK_SECRET}\"}}",
        backend.url("/")
    );
    Launch::with(&["session.reconnect_window=1h", "channel.history_messages=100000"])
        .set(&format!("webhook=[{webhook}]"))
}

#[test]
fn api_matches_its_description_without_keys() {
    let server = launch(&Backend::start()).start();
    println!("{}", check_against_description(&server, false, ""));
}

#[test]
fn api_matches_its_description_with_keys() {
    let launch = launch(&Backend::start()).set(&format!("auth.api_keys=[\"{KEY}\"]"));
    let mut server = launch.environment("ENCKE_AUTH__SECRET", SECRET).start();
    server.admin = server.admin.with_key(KEY);
    let claims = json!({"sub": "alice", "channels": {"*": ["subscribe", "publish", "presence"]}});
    let token = sign(&claims, SECRET);
    println!("{}", check_against_description(&server, true, &format!("token={token}")));
}

/// Tests the server with schemathesis and returns a report. `ENCKE_SEED=<n>` selects other requests, although
/// timing has some influence as well.
fn check_against_description(server: &RunningServer, keyed: bool, query: &str) -> String {
    let recorder = RecordingSubscriber::begin(server.public, query);
    let publisher = Publisher::begin(server.admin);
    let doomed: Vec<_> = (0..DOOMED).map(|_| subscriber(server.public, query)).collect();
    let idle: Vec<_> = (0..3).map(|_| subscriber(server.public, query)).collect();
    let suspended = subscriber(server.public, query).drop_connection().session;
    server.await_phase(&suspended, "suspended");
    let mut events = EventStream::open(server.public, &format!("channels={CHANNEL}&{query}"));
    let mut sessions = vec![recorder.session.clone(), suspended, events.hello().session];
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
        .environment("ENCKE_DOOMED", &ids(&doomed).join(","))
        .environment("ENCKE_HAS_KEYS", if keyed { "1" } else { "" });
    schemathesis.check_document();
    let (report, seen) = schemathesis.test(&format!("http://{}", server.admin.address()), &seed);

    assert_all_operations_reached(&document.json(), &seen, keyed);

    publisher.end();
    recorder.assert_exact(publish(server.admin));
    for session in sessions {
        assert!(server.admin.phase(&session).is_some(), "{session} has ended");
    }
    let health = server.admin.get("/healthz");
    assert_eq!(health.status, 200, "{health:?}");
    let mut client = subscriber(server.public, query);
    client.send(r#"{"close":{}}"#);
    assert_eq!(client.close_code(), Some(1000));
    format!("ENCKE_SEED={seed}\n{report}\n{seen}")
}

/// Asserts that each operation succeeded at least once, and that it was refused without a key.
fn assert_all_operations_reached(document: &Value, seen: &Value, keyed: bool) {
    let paths = document["paths"].as_object().expect("paths");
    let items = paths.values().flat_map(|path| path.as_object().expect("an object").values());
    for operation in items.filter(|item| item["operationId"].is_string()) {
        let name = operation["operationId"].as_str().expect("a string");
        if name == STREAM {
            continue;
        }
        for status in operation["responses"].as_object().expect("an object").keys() {
            if status.starts_with('2') || (keyed && status == "401") {
                assert!(seen[name][status].is_u64(), "{name} was never answered with {status}: {seen}");
            }
        }
    }
}

/// Publishes to the channel and returns the offset.
fn publish(admin: Admin) -> u64 {
    let answer = admin.post("/api/publish", &json!({"channel": CHANNEL, "data": "a message"}).to_string());
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

/// Client that subscribes to the channel, resumes when its connection is dropped, and records what it
/// receives.
struct RecordingSubscriber {
    session: String,
    received: Arc<Mutex<Vec<Numbered>>>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl RecordingSubscriber {
    /// Subscribes before the channel has any messages.
    fn begin(address: SocketAddr, query: &str) -> Self {
        let mut client = Client::connect(address, query);
        client.subscribe(CHANNEL);
        let (session, query) = (client.hello.session.clone(), query.to_owned());
        let (received, stop) = <(Arc<Mutex<Vec<_>>>, Arc<AtomicBool>)>::default();
        let thread = std::thread::spawn({
            let (received, stop) = (Arc::clone(&received), Arc::clone(&stop));
            move || {
                while !stop.load(Ordering::Acquire) {
                    match client.next_within(Duration::from_millis(10)) {
                        Some(ServerOutput::Object(object)) => {
                            // The tested requests subscribe the session to other channels as well, with or
                            // without history.
                            if object["subscribed"].is_object() {
                                continue;
                            }
                            let numbered = ["message", "gap"].map(|kind| object[kind]["seq"].as_u64());
                            let seq = numbered.into_iter().flatten().next();
                            let message = &object["message"];
                            let offset = message["offset"].as_u64();
                            let offset = offset.filter(|_| message["channel"] == CHANNEL);
                            received.lock().push((seq.unwrap_or_else(|| panic!("{object}")), offset));
                        }
                        Some(ServerOutput::Close(DISCONNECTED, _)) => {
                            let seq = received.lock().last().map_or(0, |(seq, _)| *seq);
                            let (session, token) = (&client.hello.session, &client.hello.resume);
                            let next = Client::connect(address, &format!("resume={token}&seq={seq}&{query}"));
                            assert!(next.hello.recovered && next.hello.session == *session);
                            client = next;
                        }
                        Some(ServerOutput::Ping(_)) | None => {}
                        Some(other) => panic!("{other:?}"),
                    }
                }
            }
        });
        Self { session, received, stop, thread }
    }

    /// Asserts that every message up to offset `last` of the channel arrives, once and in order.
    fn assert_exact(self, last: u64) {
        until("the last message has arrived", || {
            self.thread.is_finished()
                || self.received.lock().iter().rev().find_map(|(_, offset)| *offset) >= Some(last)
        });
        self.stop.store(true, Ordering::Release);
        self.thread.join().expect("the subscriber does not panic");
        let received = self.received.lock();
        assert!(received.iter().map(|(seq, _)| *seq).eq(1..=received.len() as u64), "{received:?}");
        assert!(received.iter().filter_map(|(_, offset)| *offset).eq(1..=last), "up to {last}: {received:?}");
    }
}

/// Publishes until it is stopped.
struct Publisher {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Publisher {
    fn begin(admin: Admin) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                while !stop.load(Ordering::Acquire) {
                    publish(admin);
                    let_pass(Duration::from_millis(20));
                }
            }
        });
        Self { stop, thread }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Release);
        self.thread.join().expect("the publisher does not panic");
    }
}
