//! Tests of when users come online and go offline, in virtual time.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use encke_base::entropy::Entropy;
use encke_base::executor::{Executor, NoTasks};
use encke_core::close::CloseReason;
use encke_core::dialect::DialectName;
use encke_core::session::{ConnectionId, ConnectionInput, ConnectionKind, Heartbeat, Input};
use encke_seeds::with_seeds;
use encke_timeouts::clock::{Clock, SimulatedTime, UnixTime};
use encke_timeouts::{ExpiryWorker, SteppedWheel, Timeouts};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::UserSink;
use crate::auth::{Grant, Identity};
use crate::client;
use crate::config::Settings;
use crate::events::{HookSink, NoHooks, Sinks};
use crate::server::assembly;
use crate::server::expiry::ExpiryDispatcher;
use crate::server::persistence::{begin_move, finish_move, snapshot_state};
use crate::session::{Arrival, AttachRequest, SessionRequest};
use crate::snapshot::{self, LoadOutcome, SnapshotSettings};

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const NO_STALL: Duration = Duration::from_hours(60 * 24);
const WINDOW_S: u64 = 120;
const POLL_GAP_S: u64 = 30;

/// Records each change with the time in seconds: `10 +a`.
struct RecordingSink {
    changes: Mutex<Vec<(u64, String)>>,
    time: Arc<SimulatedTime>,
}

impl UserSink for RecordingSink {
    fn online(&self, user: &Arc<str>) {
        self.changes.lock().push((self.time.elapsed().as_secs(), format!("+{user}")));
    }

    fn offline(&self, user: &Arc<str>) {
        self.changes.lock().push((self.time.elapsed().as_secs(), format!("-{user}")));
    }
}

/// A client's session and its latest connection.
struct Client {
    resume: String,
    connection: ConnectionId,
}

struct Process {
    services: Arc<client::Services>,
    wheel: SteppedWheel,
    worker: ExpiryWorker<ExpiryDispatcher>,
}

/// Server processes, one after the other. The first letter of a session's name is its user; `_` is anonymous.
struct World {
    time: Arc<SimulatedTime>,
    sink: Arc<RecordingSink>,
    process: Process,
    clients: BTreeMap<String, Client>,
}

impl Process {
    fn start(
        time: &Arc<SimulatedTime>,
        sink: &Arc<RecordingSink>,
        offline_after: &str,
        flags: &[&str],
    ) -> Self {
        let (window, gap) = (format!("{WINDOW_S}s"), format!("{POLL_GAP_S}s"));
        let mut flags: Vec<_> = flags.iter().map(ToString::to_string).collect();
        for (key, value) in [
            ("session.reconnect_window", &*window),
            ("session.poll_gap", &*gap),
            ("session.offline_after", offline_after),
            ("session.lifetime", "off"),
            ("auth.secret", "0123456789abcdef0123456789abcdef"),
        ] {
            flags.push(format!("{key}={value}"));
        }
        let config = Settings { flags, ..Settings::default() }.resolve().expect("valid");
        let clock = Arc::new(Clock::simulated(Arc::clone(time), NO_STALL));
        let (timeouts, to_arm) = Timeouts::new(clock, Duration::ZERO, config.limits.session_slots());
        let sinks = Sinks {
            users: Some(Arc::clone(sink) as Arc<dyn UserSink>),
            ..Sinks::from(Box::new(HookSink(Box::new(NoHooks))))
        };
        let executor: Arc<dyn Executor> = Arc::new(NoTasks);
        let services = Arc::new(assembly::client_services(
            &config,
            Arc::clone(&timeouts),
            Entropy::system(),
            Arc::clone(&executor),
            sinks,
        ));
        let (sender, batches) = crossbeam_channel::bounded(64);
        let handler = Arc::new(ExpiryDispatcher { services: Arc::clone(&services), executor });
        let worker = ExpiryWorker::new(0, batches, handler, Arc::clone(&timeouts));
        let wheel =
            SteppedWheel::new(config.wheel_settings(), timeouts, to_arm, sender, Waker::noop().clone());
        Self { services, wheel, worker }
    }
}

impl World {
    fn new(offline_after: &str, flags: &[&str]) -> Self {
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(1_000)));
        let sink = Arc::new(RecordingSink { changes: Mutex::default(), time: Arc::clone(&time) });
        let process = Process::start(&time, &sink, offline_after, flags);
        Self { time, sink, process, clients: BTreeMap::new() }
    }

    /// Attaches a connection to the session, which is opened if it does not exist.
    fn attach(&mut self, name: &str, kind: ConnectionKind) {
        let services = &self.process.services;
        let auth = &services.access.auth;
        let identity = if name.starts_with('_') {
            Identity::ANONYMOUS
        } else {
            let (sub, channels, join) = (name[..1].to_owned(), BTreeMap::new(), Vec::new());
            let grant = Grant { sub, issued: None, expires: None, channels, join };
            let token = auth.sign(&grant, None).expect("it can be signed");
            auth.identify(Some(&token), services.timeouts.clock().unix_now()).expect("it was just signed")
        };
        let resume = self.clients.get(name).map(|client| client.resume.clone());
        let request = AttachRequest {
            wanted: SessionRequest { resume, ..SessionRequest::new(kind, DialectName::Json) },
            identity,
            address: ADDRESS,
            arrival: Arrival::default(),
            has_session: false,
            can_open: true,
        };
        let permit = services.limits.permits.take(ADDRESS);
        let attached = services.sessions.attach(&request, permit, || false).expect("a session");
        let resume = attached.session.resume_token().expose().to_string();
        self.clients.insert(name.to_owned(), Client { resume, connection: attached.mailbox.id });
    }

    fn handle(&self, name: &str, input: Input) {
        let sessions = &self.process.services.sessions;
        if let Some(session) = sessions.find(&self.clients[name].resume) {
            sessions.lifecycle.handle(&session, input);
        }
    }

    fn act(&mut self, action: &str, name: &str) {
        let stream = ConnectionKind::Stream(Heartbeat::Frame);
        let poll = ConnectionKind::Poll { hold: Duration::from_secs(20) };
        match action {
            "attach" => self.attach(name, stream),
            "poll" => self.attach(name, poll),
            "answer" => {
                let answered = ConnectionInput::Answered { pause: Duration::ZERO };
                self.handle(name, Input::Connection(self.clients[name].connection, answered));
            }
            "drop" => self.handle(name, Input::Disconnect),
            "kick" => self.handle(name, Input::Close(CloseReason::Kicked)),
            action => panic!("{action}"),
        }
    }

    fn turn(&mut self) -> encke_core::Timestamp {
        let until = self.process.wheel.turn();
        self.process.wheel.prepare_sleep(until);
        self.process.wheel.end_sleep();
        until
    }

    /// Lets time pass until this second, and every timeout fire when it is due.
    fn pass_until(&mut self, second: u64) {
        let end = Duration::from_secs(second);
        loop {
            let wake_up = self.turn();
            while self.process.worker.handle_next() {}
            let now = self.process.services.timeouts.clock().now();
            let (step, left) = (wake_up.since(now), end.saturating_sub(self.time.elapsed()));
            if left.is_zero() {
                break;
            }
            self.time.advance(step.clamp(Duration::from_millis(10), left.max(Duration::from_millis(10))));
        }
        self.turn();
        while self.process.worker.handle_next() {}
    }

    /// Moves all sessions to another process, which starts `downtime` later.
    fn restart(&mut self, offline_after: &str, downtime: Duration) {
        let folder = tempfile::tempdir().expect("a temporary directory can be created");
        let path = folder.path().join("snapshot");
        let client = Arc::clone(&self.process.services);
        let file = begin_move(&path, &client).expect("the file can be created");
        assert!(finish_move(&path, file, &client));
        self.time.advance(downtime);
        self.process = Process::start(&self.time, &self.sink, offline_after, &[]);
        let client = &self.process.services;
        let settings = SnapshotSettings { path, max_age: NO_STALL };
        let now = client.timeouts.clock().unix_now();
        let loaded = snapshot::load(&settings, &snapshot_state(client), now).expect("the file can be moved");
        let LoadOutcome::Restored { skipped: 0, channels, taken, .. } = loaded else { panic!("{loaded:?}") };
        client.logs.engine.adopt_restored(channels);
        taken.remove().expect("the file exists");
    }

    fn changes(&self) -> Vec<String> {
        let changes = self.sink.changes.lock();
        changes.iter().map(|(second, change)| format!("{second} {change}")).collect()
    }
}

/// Each step is a second, an action and a session.
#[test]
fn users_come_online_and_go_offline_in_time() {
    let table: &[(&str, &str, &str)] = &[
        ("60s", "0 attach a1", "0 +a"),
        ("60s", "0 attach _1, 5 kick _1", ""),
        ("60s", "0 attach a1, 5 kick a1", "0 +a, 5 -a"),
        // Two sessions of one user.
        ("60s", "0 attach a1, 1 attach a2, 2 kick a1, 3 kick a2", "0 +a, 3 -a"),
        ("60s", "0 attach a1, 1 attach b1, 2 kick a1, 3 kick b1", "0 +a, 1 +b, 2 -a, 3 -b"),
        ("60s", "0 attach a1, 0 attach a2, 10 drop a1, 30 drop a2", "0 +a, 90 -a"),
        ("60s", "0 attach a1, 0 attach a2, 10 drop a1, 30 kick a2", "0 +a, 70 -a"),
        ("60s", "0 attach a1, 0 attach a2, 10 drop a1, 80 kick a2", "0 +a, 80 -a"),
        // A session that comes back in time, at the last moment, too late.
        ("60s", "0 attach a1, 10 drop a1, 69 attach a1", "0 +a"),
        ("60s", "0 attach a1, 10 drop a1, 70 attach a1", "0 +a, 70 -a, 70 +a"),
        ("60s", "0 attach a1, 10 drop a1, 71 attach a1, 80 drop a1", "0 +a, 70 -a, 71 +a, 140 -a"),
        // A session that no longer counts may end unnoticed.
        ("60s", "0 attach a1, 10 drop a1, 80 kick a1", "0 +a, 70 -a"),
        ("60s", "0 attach a1, 10 drop a1, 80 attach a2, 90 kick a2", "0 +a, 70 -a, 80 +a, 90 -a"),
        // The reconnect window.
        ("120s", "0 attach a1, 10 drop a1", "0 +a, 130 -a"),
        ("off", "0 attach a1, 10 drop a1", "0 +a, 130 -a"),
        ("off", "0 attach a1, 10 drop a1, 129 attach a1, 140 drop a1", "0 +a, 260 -a"),
        // Another connection of the same session.
        ("60s", "0 attach a1, 10 attach a1, 20 drop a1", "0 +a, 80 -a"),
        // Between polls a session has a connection. It counts from the last answer, and is suspended after 30 s.
        ("60s", "0 poll a1, 10 answer a1, 35 poll a1, 40 answer a1", "0 +a, 100 -a"),
        ("20s", "0 poll a1, 10 answer a1, 39 poll a1, 40 drop a1", "0 +a, 60 -a"),
        ("20s", "0 poll a1, 10 answer a1", "0 +a, 40 -a"),
    ];
    for (offline_after, script, expected) in table {
        let mut world = World::new(offline_after, &[]);
        for step in script.split(", ") {
            let [second, action, name] = step.split(' ').collect::<Vec<_>>()[..] else { panic!("{step}") };
            world.pass_until(second.parse().expect("a number"));
            world.act(action, name);
        }
        world.pass_until(if expected.matches('-').count() == 0 { 100 } else { 500 });
        assert_eq!(world.changes().join(", "), *expected, "{offline_after}: {script}");
    }
}

#[test]
fn an_evicted_session_makes_its_user_go_offline() {
    let mut world = World::new("60s", &["limits.max_sessions=1"]);
    world.act("attach", "a1");
    world.act("drop", "a1");
    world.act("attach", "b1");
    assert_eq!(world.changes(), ["0 +a", "0 -a", "0 +b"]);
}

#[test]
fn a_shutdown_without_a_snapshot_makes_users_go_offline() {
    let mut world = World::new("60s", &[]);
    ["a1", "a2", "b1"].iter().for_each(|name| world.act("attach", name));
    world.act("drop", "b1");
    world.process.services.sessions.drain();
    let mut changes = world.changes().split_off(2);
    changes.sort();
    assert_eq!(changes, ["0 -a", "0 -b"]);
    // Sessions that have moved end if the snapshot cannot be written.
    let mut world = World::new("60s", &[]);
    ["a1", "b1"].iter().for_each(|name| world.act("attach", name));
    world.act("drop", "a1");
    world.process.services.sessions.move_all();
    world.pass_until(200);
    assert_eq!(world.changes(), ["0 +a", "0 +b"]);
    world.process.services.sessions.end_moved();
    let mut changes = world.changes().split_off(2);
    changes.sort();
    assert_eq!(changes, ["200 -a", "200 -b"]);
}

/// The window counts from the move for sessions that had a connection. The time between the processes does not
/// count.
#[test]
fn a_restart_repeats_no_event() {
    let mut world = World::new("60s", &[]);
    ["a1", "b1", "c1", "c2"].iter().for_each(|name| world.act("attach", name));
    ["b1", "c1"].iter().for_each(|name| world.act("drop", name));
    world.pass_until(50);
    world.act("attach", "d1");
    world.act("drop", "d1");
    world.pass_until(80);
    assert_eq!(world.changes().split_off(3), ["50 +d", "60 -b"]);
    world.restart("60s", Duration::from_secs(1_000));
    world.pass_until(1_090);
    world.act("attach", "b1");
    world.act("attach", "a1");
    world.pass_until(1_200);
    assert_eq!(world.changes().split_off(5), ["1090 +b", "1110 -d", "1140 -c"]);

    // The next process has a shorter time.
    let mut world = World::new("60s", &[]);
    ["a1", "a2", "b1"].iter().for_each(|name| world.act("attach", name));
    ["a1", "b1"].iter().for_each(|name| world.act("drop", name));
    world.pass_until(40);
    world.restart("30s", Duration::ZERO);
    assert_eq!(world.changes(), ["0 +a", "0 +b", "40 -b"]);
    world.pass_until(100);
    assert_eq!(world.changes().split_off(3), ["70 -a"]);
}

/// A session of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Model {
    Attached { poll: bool },
    Answered { at: u64 },
    Suspended { since: u64, counts: bool },
    Ended,
}

/// Computes when users should come online and go offline, by examining every session in every second.
struct Expected {
    offline_after: u64,
    sessions: BTreeMap<String, Model>,
    online: BTreeMap<char, bool>,
    changes: Vec<(u64, String)>,
}

impl Expected {
    fn check(&mut self, second: u64) {
        for session in self.sessions.values_mut() {
            if let Model::Answered { at } = *session
                && second >= at + POLL_GAP_S
            {
                *session = Model::Suspended { since: at, counts: true };
            }
            if let Model::Suspended { since, counts } = session {
                *counts &= second < *since + self.offline_after;
                if second >= *since + WINDOW_S {
                    *session = Model::Ended;
                }
            }
        }
        for user in ['a', 'b', 'c'] {
            let counts = |session: &Model| match session {
                Model::Attached { .. } | Model::Answered { .. } => true,
                Model::Suspended { counts, .. } => *counts,
                Model::Ended => false,
            };
            let is_online = self.sessions.iter().any(|(name, it)| name.starts_with(user) && counts(it));
            if self.online.insert(user, is_online).unwrap_or(false) != is_online {
                let sign = if is_online { '+' } else { '-' };
                self.changes.push((second, format!("{sign}{user}")));
            }
        }
    }
}

/// Compares the events of each user with the model, with a wheel that is on time. With `late`, it is not;
/// then only their alternation is checked, and where they end.
fn run(seed: u64, late: bool) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let random_after = |rng: &mut SmallRng| [1, 10, 60, WINDOW_S][rng.random_range(0..4)];
    let offline_after = random_after(&mut rng);
    let mut world = World::new(&format!("{offline_after}s"), &[]);
    let (sessions, online) = (BTreeMap::new(), BTreeMap::new());
    let mut model = Expected { offline_after, sessions, online, changes: Vec::new() };
    let mut second = 0;
    for number in 0..60 {
        let names: Vec<_> = model.sessions.keys().cloned().collect();
        let name = if !names.is_empty() && rng.random_bool(0.8) {
            names[rng.random_range(0..names.len())].clone()
        } else {
            format!("{}{number}", ["a", "b", "c", "_"][rng.random_range(0..4)])
        };
        let state = model.sessions.get(&name).copied();
        let action = match rng.random_range(0..10) {
            0..3 => "attach",
            3 => "poll",
            4..6 => "answer",
            6..9 => "drop",
            _ => "kick",
        };
        let next = match (action, state) {
            (_, Some(Model::Ended)) => None,
            ("attach", _) => Some(Model::Attached { poll: false }),
            ("poll", _) => Some(Model::Attached { poll: true }),
            ("answer", Some(Model::Attached { poll: true })) => Some(Model::Answered { at: second }),
            ("drop", Some(Model::Attached { .. })) => Some(Model::Suspended { since: second, counts: true }),
            ("drop", Some(Model::Answered { at })) => Some(Model::Suspended { since: at, counts: true }),
            ("kick", Some(_)) => Some(Model::Ended),
            _ => None,
        };
        // A late wheel may not have ended a session yet.
        if let Some(next) = next {
            world.act(action, &name);
            model.sessions.insert(name, next);
            model.check(second);
        }
        if rng.random_bool(0.05) && !late {
            model.offline_after = random_after(&mut rng);
            for session in model.sessions.values_mut() {
                if let Model::Attached { .. } = session {
                    *session = Model::Suspended { since: second, counts: true };
                } else if let Model::Answered { at } = *session {
                    *session = Model::Suspended { since: at, counts: true };
                }
            }
            world.restart(&format!("{}s", model.offline_after), Duration::ZERO);
            model.check(second);
        }
        let pause = rng.random_range(0..40);
        for _ in 0..pause {
            second += 1;
            model.check(second);
        }
        if late && rng.random_bool(0.5) {
            world.time.advance(Duration::from_secs(pause));
        } else {
            world.pass_until(second);
        }
    }
    for _ in 0..2 * WINDOW_S {
        second += 1;
        model.check(second);
    }
    world.pass_until(second);
    let changes = world.sink.changes.lock();
    for user in ['a', 'b', 'c'] {
        let of_user = |changes: &[(u64, String)]| -> Vec<_> {
            changes.iter().filter(|(_, change)| change.ends_with(user)).cloned().collect()
        };
        let (found, expected) = (of_user(&changes), of_user(&model.changes));
        if late {
            let signs: String = found.iter().map(|(_, change)| &change[..1]).collect();
            let is_online = model.online[&user];
            assert_eq!(signs, "+-".repeat(signs.len() / 2) + if is_online { "+" } else { "" });
        } else {
            assert_eq!(found, expected, "{user}");
        }
    }
}

#[test]
fn events_are_those_of_the_model() {
    with_seeds(0..40, |seed| run(seed, false));
}

#[test]
fn events_alternate_although_the_wheel_is_late() {
    with_seeds(0..40, |seed| run(seed, true));
}
