//! A panic in a session's handler ends that session, and nothing else.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use encke_base::fail_point::{self, FailPoint};
use encke_sys::Unacknowledged;
use encke_timeouts::clock::UnixTime;
use futures_util::FutureExt;
use parking_lot::Mutex;

use super::{
    Parameters, ServerTotals, SimulatedEngine, SimulatedServer, SimulatedSocket, SimulatedTime, Task,
};
use crate::config::Settings;
use crate::events::NoHooks;
use crate::session::SessionHandle;

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Both directions of a connection.
#[derive(Default)]
struct Wire {
    input: VecDeque<u8>,
    is_input_over: bool,
    output: Vec<u8>,
    can_park: bool,
}

struct WireSocket(Arc<Mutex<Wire>>);

impl SimulatedSocket for WireSocket {
    fn poll_receive(&mut self, _: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut wire = self.0.lock();
        if wire.input.is_empty() && !wire.is_input_over {
            return Poll::Pending;
        }
        Poll::Ready(io::Read::read(&mut wire.input, into))
    }

    fn poll_send(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().output.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn end_stream(&mut self) {}

    fn holds_bytes(&self) -> bool {
        !self.0.lock().input.is_empty()
    }

    fn is_over(&self) -> bool {
        self.0.lock().is_input_over
    }

    fn unacknowledged(&self) -> Unacknowledged {
        Unacknowledged::default()
    }

    fn can_park(&self) -> bool {
        self.0.lock().can_park
    }

    fn poll_readable(&mut self, _: &mut Context<'_>) -> Poll<()> {
        if self.holds_bytes() || self.is_over() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// A client with one connection.
struct Client {
    wire: Arc<Mutex<Wire>>,
    /// Task of the connection, until it is parked for the first time.
    task: Option<Task>,
    session: String,
    token: String,
}

impl Client {
    /// Polls the connection's first task.
    fn poll(&mut self) {
        let Some(task) = &mut self.task else { return };
        if task.poll_unpin(&mut Context::from_waker(Waker::noop())).is_ready() {
            self.task = None;
        }
    }

    fn send(&self, opcode: u8, payload: &[u8]) {
        let length = u8::try_from(payload.len()).expect("a short frame");
        let frame = [0x80 | opcode, 0x80 | length, 0, 0, 0, 0];
        self.wire.lock().input.extend(frame.iter().chain(payload));
    }

    /// Disconnects without a Close frame.
    fn disconnect(&self) {
        self.wire.lock().is_input_over = true;
    }

    /// Returns the frames received so far: opcodes and payloads.
    fn frames(&self) -> Vec<(u8, Vec<u8>)> {
        let (output, mut frames) = (self.wire.lock().output.clone(), Vec::new());
        let mut rest = &output[..];
        while let [first, length, tail @ ..] = rest {
            let (length, tail) = match length {
                126 => (usize::from(u16::from_be_bytes([tail[0], tail[1]])), &tail[2..]),
                _ => (usize::from(*length), tail),
            };
            frames.push((first & 0xf, tail[..length].to_vec()));
            rest = &tail[length..];
        }
        frames
    }

    fn has_received(&self, text: &str) -> bool {
        self.frames().iter().any(|(_, payload)| String::from_utf8_lossy(payload).contains(text))
    }

    /// Whether the last frame closes the connection with this code.
    fn is_closed_with(&self, code: u16) -> bool {
        self.frames()
            .last()
            .is_some_and(|(opcode, body)| *opcode == 8 && body.starts_with(&code.to_be_bytes()))
    }
}

/// Log of a test, as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A server with two clients, both subscribed to the channel `a`, in this order.
struct World {
    server: SimulatedServer,
    time: Arc<SimulatedTime>,
    spawned: Arc<Mutex<Vec<Task>>>,
    clients: Vec<Client>,
    log: Log,
    _logging: tracing::subscriber::DefaultGuard,
}

impl World {
    /// Creates the world. If `parks`, the connections are parked.
    fn new(parks: bool) -> Self {
        let log = Log::default();
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let logging = tracing::subscriber::set_default(subscriber);
        let flags = ["channel.history_messages=0", "parking.after=0s"].map(str::to_owned).to_vec();
        let config = Settings { flags, ..Settings::default() }.resolve().expect("valid settings");
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(1_000)));
        let spawned = Arc::new(Mutex::new(Vec::new()));
        let tasks = Arc::clone(&spawned);
        let server = SimulatedServer::new(Parameters {
            config,
            seed: 1,
            time: Arc::clone(&time),
            hooks: Box::new(NoHooks),
            spawn: Box::new(move |task| tasks.lock().push(task)),
            io_threads: 1,
            wheel_waker: Waker::noop().clone(),
            dispatch_batches: 16,
            backend: None,
            engine: SimulatedEngine::Memory(Box::new(|| None)),
        });
        let mut world = Self { server, time, spawned, clients: Vec::new(), log, _logging: logging };
        for number in 0..2 {
            world.connect("");
            world.clients[number].send(1, br#"{"id":1,"subscribe":{"channel":"a"}}"#);
            world.settle();
        }
        for client in &world.clients {
            client.wire.lock().can_park = parks;
        }
        world.settle();
        assert_eq!(world.clients.iter().all(|client| client.task.is_none()), parks, "parked");
        world
    }

    /// Connects another client, and returns the first text that it receives.
    fn connect(&mut self, query: &str) -> serde_json::Value {
        let wire = Arc::<Mutex<Wire>>::default();
        let arrival = self.server.number_request();
        let task = self.server.serve_websocket(WireSocket(Arc::clone(&wire)), ADDRESS, query, arrival);
        let task = Some(task);
        self.clients.push(Client { wire, task, session: String::new(), token: String::new() });
        self.settle();
        let client = self.clients.last_mut().expect("it was just added");
        let (_, hello) = client.frames().swap_remove(0);
        let hello: serde_json::Value = serde_json::from_slice(&hello).expect("JSON");
        let text = |field: &str| hello["hello"][field].as_str().unwrap_or_default().to_owned();
        (client.session, client.token) = (text("session"), text("resume"));
        hello
    }

    fn settle(&mut self) {
        for _ in 0..20 {
            self.server.step_wheel();
            while self.server.work() {}
            while self.server.has_readable() {
                self.server.handle_readable();
            }
            self.clients.iter_mut().for_each(Client::poll);
            let tasks = std::mem::take(&mut *self.spawned.lock());
            let mut context = Context::from_waker(Waker::noop());
            let pending = tasks
                .into_iter()
                .filter_map(|mut task| task.poll_unpin(&mut context).is_pending().then_some(task));
            let pending: Vec<Task> = pending.collect();
            self.spawned.lock().extend(pending);
        }
    }

    /// Returns the session of the first client.
    fn first(&self) -> SessionHandle {
        let id = self.clients[0].session.parse().expect("an id");
        self.server.public.client.sessions.table.registry().get(id).expect("the session")
    }

    fn publish(&self, data: &str) {
        self.server.publish("a", data).expect("published");
    }

    /// Waits until pings are due. The wheel turns, but no expiry is handled.
    fn wait(&mut self) {
        for _ in 0..240 {
            self.time.advance(Duration::from_millis(250));
            self.server.step_wheel();
        }
    }

    /// Lets the first session's timer expire when its ping is due.
    fn expire(&mut self) {
        self.wait();
        let session = self.first();
        plant_panic();
        self.server
            .public
            .client
            .sessions
            .lifecycle
            .handle_timeout(session.reference().slot(), &mut Vec::new());
    }

    fn internal_ends(&self) -> u64 {
        let events = self.server.public.client.metrics.sessions.view().events;
        let json = serde_json::to_value(events).expect("JSON");
        let of_reason = |event: &&serde_json::Value| event["reason"] == "internal";
        let count = json.as_array().and_then(|events| events.iter().find(of_reason)?["count"].as_u64());
        count.unwrap_or_default()
    }
}

fn plant_panic() {
    fail_point::plant(FailPoint::SessionChange);
}

/// Makes a handler of the first client's session panic, and checks that only that session ends. If the
/// handler notices that the client has disconnected, the client receives nothing.
fn check(parks: bool, panic_in_handler: impl FnOnce(&mut World)) {
    let mut world = World::new(parks);
    panic_in_handler(&mut world);
    assert!(!fail_point::is_planted(), "the handler has panicked");
    world.settle();
    let first = &world.clients[0];
    assert!(first.is_closed_with(1011) || first.wire.lock().is_input_over, "{:?}", first.frames());
    assert_eq!(world.internal_ends(), 1);
    assert!(world.server.session(&first.session).is_none(), "the session is gone");
    let line = format!("the session is closed session={}", first.session);
    assert_eq!(String::from_utf8_lossy(&world.log.0.lock()).matches(&line).count(), 1);

    world.publish("\"later\"");
    world.settle();
    assert!(world.clients[1].has_received("later"), "the other session continues");
    assert!(world.server.session(&world.clients[1].session).is_some());
    if world.clients.len() == 2 {
        let hello = world.connect(&format!("resume={}", world.clients[0].token));
        assert_eq!(hello["hello"]["recovered"], false, "{hello}");
    }
    // Once all sessions have ended, no session, permit, connection or subscriber is left.
    for client in &world.clients {
        world.server.end(&client.session);
        client.disconnect();
    }
    world.settle();
    world.settle();
    let ServerTotals { sessions, held_sessions, permits, connections, open_connections, .. } =
        world.server.totals();
    assert_eq!((sessions, held_sessions, permits), (0, 0, 0));
    assert_eq!((connections, open_connections), (0, 0));
    assert_eq!(world.server.channel("a").map(|channel| channel.subscribers), Some(0));
}

#[test]
fn expiry_on_an_active_connection() {
    check(false, |world| world.expire());
}

#[test]
fn expiry_on_a_parked_connection() {
    check(true, |world| world.expire());
}

#[test]
fn client_command() {
    check(false, |world| {
        world.clients[0].send(1, br#"{"id":2,"subscribe":{"channel":"b"}}"#);
        plant_panic();
        world.clients[0].poll();
    });
}

#[test]
fn ping_answer_on_a_parked_connection() {
    check(true, |world| {
        world.wait();
        world.settle();
        let frames = world.clients[0].frames();
        let (_, ping) = frames.iter().find(|(opcode, _)| *opcode == 9).expect("a ping");
        world.clients[0].send(10, ping);
        plant_panic();
        world
            .server
            .public
            .client
            .sessions
            .lifecycle
            .handle_readable(world.first().reference(), world.server.now());
    });
}

#[test]
fn fan_out_to_an_active_connection() {
    check(false, |world| {
        plant_panic();
        world.publish("1");
    });
}

#[test]
fn fan_out_to_a_parked_connection() {
    check(true, |world| {
        plant_panic();
        world.publish("1");
    });
}

#[test]
fn delivery_by_the_task_of_a_connection() {
    check(false, |world| {
        world.publish("1");
        plant_panic();
        world.clients[0].poll();
        assert!(!world.clients[0].has_received("\"data\":1"), "the message may be incomplete");
    });
}

#[test]
fn attach_to_an_active_session() {
    check(false, attach);
}

#[test]
fn attach_to_a_parked_session() {
    check(true, attach);
}

fn attach(world: &mut World) {
    let query = format!("resume={}", world.clients[0].token);
    plant_panic();
    let hello = world.connect(&query);
    assert_eq!(hello["hello"]["recovered"], false, "{hello}");
}

#[test]
fn first_step_of_a_session() {
    let mut world = World::new(false);
    world.clients[0].disconnect();
    world.settle();
    plant_panic();
    let _ = world.connect("");
    let client = &world.clients[2];
    assert!(client.is_closed_with(1011), "{:?}", client.frames());
    assert_eq!(world.internal_ends(), 1);
}

#[test]
fn detach_of_an_active_connection() {
    check(false, |world| {
        world.clients[0].disconnect();
        plant_panic();
        world.clients[0].poll();
    });
}

#[test]
fn detach_of_a_parked_connection() {
    check(true, |world| {
        world.clients[0].disconnect();
        plant_panic();
        world
            .server
            .public
            .client
            .sessions
            .lifecycle
            .handle_readable(world.first().reference(), world.server.now());
    });
}

#[test]
fn kick_of_an_active_session() {
    check(false, kick);
}

#[test]
fn kick_of_a_parked_session() {
    check(true, kick);
}

fn kick(world: &mut World) {
    plant_panic();
    world.server.end(&world.clients[0].session);
}

/// An event stream ends with an event that gives the reason.
#[test]
fn kick_of_the_session_of_an_event_stream() {
    let mut world = World::new(false);
    let wire = Arc::<Mutex<Wire>>::default();
    let socket = WireSocket(Arc::clone(&wire));
    let arrival = world.server.number_request();
    let task = world.server.serve_events(socket, ADDRESS, "/events?channels=a", None, arrival);
    let task = task.expect("accepted");
    world.spawned.lock().push(task);
    world.settle();
    let is_new = |id: &String| world.clients.iter().all(|client| client.session != *id);
    let session =
        world.server.sessions().into_iter().map(|session| session.id).find(is_new).expect("a session");
    plant_panic();
    world.server.end(&session);
    world.settle();
    let output = String::from_utf8(wire.lock().output.clone()).expect("text");
    assert!(output.contains(r#"{"goaway":{"reason":"internal","#), "{output}");
}

#[test]
fn parking() {
    check(false, |world| {
        world.clients[0].wire.lock().can_park = true;
        plant_panic();
        world.settle();
    });
}

/// A panic while a message is being appended to a log and to those of its patterns. The logs are replaced:
/// otherwise, a message that only some of them contain would hide the next one.
#[test]
fn append_to_logs() {
    let mut world = World::new(false);
    for channel in ["/b/x", "/b/*"] {
        world.clients[0].send(1, format!(r#"{{"subscribe":{{"channel":"{channel}"}}}}"#).as_bytes());
    }
    world.settle();
    let epoch = |world: &World| world.server.channel("/b/x").expect("the channel").epoch;
    let before = epoch(&world);
    fail_point::plant(FailPoint::Append);
    let published =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.server.publish("/b/x", "1")));
    assert!(published.is_err(), "the publisher's request fails");
    assert_ne!(epoch(&world), before);
    world.settle();
    world.server.publish("/b/x", "2").expect("published");
    world.settle();
    let client = &world.clients[0];
    assert!(client.has_received(r#"{"gap":"#) && !client.has_received("\"data\":1"), "{:?}", client.frames());
    assert!(client.has_received("\"data\":2"), "{:?}", client.frames());
    assert_eq!(world.internal_ends(), 0, "the sessions continue");
}

#[test]
fn fan_out_to_a_suspended_session() {
    check(false, |world| {
        world.clients[0].disconnect();
        world.settle();
        plant_panic();
        world.publish("1");
    });
}
