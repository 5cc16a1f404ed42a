//! Which joins and leaves are told, and in which order.

mod model;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use encke_core::close::CloseReason;
use encke_core::dialect::{Beginning, DialectName};
use encke_core::message::Kind;
use encke_core::session::{ConnectionKind, Delivery, Heartbeat, Input};
use futures_util::FutureExt;
use parking_lot::Mutex;

use super::join_leave::MOST_WAITING;
use super::{AttachRequest, SessionHandle, Via};
use crate::auth::{Grant, Permission};
use crate::channel::{ChannelName, HistoryPart};
use crate::clock::{Clock, SimulatedTime, UnixTime};
use crate::config::Settings;
use crate::engine::slow::{Held, SlowEngine};
use crate::engine::{Answer, EngineError, LogEngine};
use crate::entropy::Entropy;
use crate::events::{HookSink, NoHooks};
use crate::executor::{Executor, Task};
use crate::session::Attached;
use crate::timeouts::Timeouts;
use crate::{client, context};

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const NO_STALL: Duration = Duration::from_hours(60 * 24);
const TOLD: &str = "namespace=[{prefix='/a/', join_leave=true}]";

/// Runs tasks when it is told to.
#[derive(Default)]
struct Tasks(Mutex<Vec<Task>>);

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tasks")
    }
}

impl Executor for Tasks {
    fn spawn(&self, task: Task) {
        self.0.lock().push(task);
    }
}

impl Tasks {
    /// Each goes on a little.
    fn turn(&self) {
        let tasks = std::mem::take(&mut *self.0.lock());
        let mut task_context = TaskContext::from_waker(Waker::noop());
        let waiting: Vec<Task> = tasks
            .into_iter()
            .filter_map(|mut task| task.poll_unpin(&mut task_context).is_pending().then_some(task))
            .collect();
        self.0.lock().extend(waiting);
    }

    fn len(&self) -> usize {
        self.0.lock().len()
    }
}

struct World {
    time: Arc<SimulatedTime>,
    context: client::Context,
    tasks: Arc<Tasks>,
    engine: Arc<Held>,
}

impl World {
    fn new() -> Self {
        let world = Self::with(&[TOLD]);
        world.context.sessions.begin_telling();
        world
    }

    fn with(flags: &[&str]) -> Self {
        const SECRET: &str = "auth.secret=0123456789abcdef0123456789abcdef";
        const KEPT: [&str; 3] = ["channel.history_messages=0", "channel.history_age=off", SECRET];
        let flags = flags.iter().chain(&KEPT).map(ToString::to_string).collect();
        let config = Settings { flags, ..Settings::default() }.resolve().expect("valid");
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(1_000)));
        let clock = Arc::new(Clock::simulated(Arc::clone(&time), NO_STALL));
        let (timeouts, _) = Timeouts::new(clock, Duration::ZERO, config.limits.slots());
        let (tasks, engine) = (Arc::new(Tasks::default()), Arc::new(Held::default()));
        engine.answers.store(true, Ordering::Relaxed);
        let executor = Arc::clone(&tasks) as Arc<dyn Executor>;
        let events = Box::new(HookSink(Box::new(NoHooks)));
        let slow =
            |memory| -> Arc<dyn LogEngine<_>> { Arc::new(SlowEngine { memory, held: Arc::clone(&engine) }) };
        let context = context::client_on(&config, timeouts, Entropy::system(), executor, events, slow);
        Self { time, context, tasks, engine }
    }

    fn attach(&self, user: &str, allowed: &str, resume: Option<String>) -> Attached {
        let channels = [(allowed.to_owned(), vec![Permission::Subscribe])].into();
        let grant = Grant { sub: user.to_owned(), issued: None, expires: None, channels, join: Vec::new() };
        let token = self.context.auth.sign(&grant, None).expect("it can be signed");
        let now = self.context.timeouts.clock().unix_now();
        let identity = self.context.auth.identify(Some(&token), now).expect("it was just signed");
        let request = AttachRequest {
            resume,
            seq: None,
            identity,
            address: ADDRESS,
            kind: ConnectionKind::Stream(Heartbeat::Frame),
            dialect: DialectName::Json,
            delivery: Delivery::AtLeastOnce,
            may_open: true,
            only_resume: false,
        };
        let permit = self.context.permits.take(ADDRESS);
        self.context.sessions.attach(&request, permit, || false).expect("a session")
    }

    fn subscribe(&self, session: &SessionHandle, channel: &str) -> bool {
        let via = Via::request(ADDRESS);
        let subscribed = self.context.sessions.subscribe(session, via, &name(channel), &Beginning::Now);
        is_ok(subscribed)
    }

    fn unsubscribe(&self, session: &SessionHandle, channel: &str) {
        self.context.sessions.unsubscribe(session, Via::request(ADDRESS), channel);
    }

    fn kick(&self, session: &SessionHandle) {
        self.context.sessions.handle(session, Input::Close(CloseReason::Kicked));
    }

    /// All that can be told is.
    fn settle(&self) {
        while self.tasks.len() > 0 {
            self.tasks.turn();
            self.time.advance(Duration::from_millis(10));
        }
        assert!(self.context.sessions.all_told().now_or_never().is_some());
    }

    /// What the channel has: `+` or `-`, and of whom.
    fn told(&self, channel: &str) -> Vec<String> {
        let Some(log) = self.context.logs.channels.get(channel) else { return Vec::new() };
        let (_, messages) =
            log.history(HistoryPart::After(0), usize::MAX, self.context.timeouts.clock().now());
        let told = messages.into_iter().map(|message| {
            assert_eq!(message.user, None, "whose it is, the server does not say beside it");
            match message.kind {
                Kind::Data => message.data,
                Kind::Joined => format!("+{}", message.data),
                Kind::Left => format!("-{}", message.data),
            }
        });
        told.collect()
    }

    fn untold(&self) -> u64 {
        let text = self.context.metrics.encode(&crate::metrics::Readings::default(), &[]);
        let line = text.lines().find_map(|line| line.strip_prefix("encke_join_leave_lost_total "));
        line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    }
}

fn name(text: &str) -> ChannelName {
    ChannelName::new(text, 255).expect("a name")
}

fn is_ok<T: Send + 'static, E: Send + 'static>(answer: Answer<Result<T, E>>) -> bool {
    answer.into_future().now_or_never().expect("the engine answers").is_ok()
}

fn line(sign: char, session: &SessionHandle) -> String {
    let user = session.identity().user().map_or(String::new(), |user| format!(r#","user":"{user}""#));
    format!(r#"{sign}{{"session":"{}"{user}}}"#, session.id())
}

#[test]
fn those_who_come_and_go_are_told_in_their_order() {
    let world = World::new();
    let [ann, bob] = ["ann", "bob"].map(|user| world.attach(user, "*", None).session);
    assert!(world.subscribe(&ann, "/a/x") && world.subscribe(&bob, "/a/x"));
    assert!(world.subscribe(&ann, "/a/x"), "again changes nothing");
    assert!(world.subscribe(&ann, "/b") && world.subscribe(&bob, "/a/*") && world.subscribe(&bob, "/a/y"));
    world.settle();
    world.unsubscribe(&ann, "/a/x");
    world.unsubscribe(&ann, "/a/x");
    world.kick(&bob);
    world.settle();
    let expected = [line('+', &ann), line('+', &bob), line('-', &ann), line('-', &bob)];
    assert_eq!(world.told("/a/x"), expected);
    assert_eq!(world.told("/a/y"), [line('+', &bob), line('-', &bob)]);
    assert!(world.told("/b").is_empty(), "it is in another namespace");
    assert_eq!(world.untold(), 0);
}

#[test]
fn nothing_is_told_or_kept_where_no_namespace_says_so() {
    let world = World::with(&["namespace=[{prefix='/a/', at_ms=true}]"]);
    world.context.sessions.begin_telling();
    let session = world.attach("ann", "*", None).session;
    assert!(world.subscribe(&session, "/a/x"));
    world.unsubscribe(&session, "/a/x");
    assert!(world.context.sessions.join_leave.is_none());
    assert_eq!((world.tasks.len(), world.told("/a/x").len()), (0, 0));
}

#[test]
fn an_engine_that_cannot_be_reached_is_asked_again() {
    let world = World::new();
    for error in [EngineError::Unavailable, EngineError::OutcomeUnknown, EngineError::Overloaded] {
        let session = world.attach("ann", "*", None).session;
        let before = world.told("/a/x");
        *world.engine.refusal.lock() = Some(error);
        assert!(world.subscribe(&session, "/a/x"));
        world.kick(&session);
        for _ in 0..100 {
            world.tasks.turn();
            world.time.advance(Duration::from_millis(100));
        }
        assert_eq!(world.told("/a/x"), before);
        *world.engine.refusal.lock() = None;
        world.settle();
        assert_eq!(world.told("/a/x")[before.len()..], [line('+', &session), line('-', &session)]);
    }
    assert_eq!(world.untold(), 0);
}

#[test]
fn what_is_too_much_is_lost_and_counted() {
    let world = World::new();
    let (session, other) = (world.attach("ann", "*", None).session, world.attach("bob", "*", None).session);
    *world.engine.refusal.lock() = Some(EngineError::Unavailable);
    for _ in 0..MOST_WAITING / 2 {
        assert!(world.subscribe(&session, "/a/x"));
        world.unsubscribe(&session, "/a/x");
    }
    assert_eq!(world.untold(), 0);
    assert!(world.subscribe(&session, "/a/x") && world.subscribe(&other, "/a/y"));
    assert_eq!(world.untold(), 2);
    *world.engine.refusal.lock() = None;
    // It is not too many for a log that has no limits but bytes.
    while world.tasks.len() > 0 {
        world.tasks.turn();
        world.time.advance(Duration::from_millis(1));
    }
    world.kick(&session);
    world.kick(&other);
    world.settle();
    assert_eq!(world.told("/a/x").last(), Some(&line('-', &session)));
    assert_eq!(world.told("/a/y"), [line('-', &other)]);
    assert_eq!(world.untold(), 2);
}

#[test]
fn where_there_is_no_room_for_the_channel_nobody_is_told() {
    let world = World::new();
    let session = world.attach("ann", "*", None).session;
    *world.engine.refusal.lock() =
        Some(EngineError::TooManyChannels(crate::channel::TooManyChannels::Here { limit: 1 }));
    assert!(world.subscribe(&session, "/a/x"));
    world.settle();
    assert_eq!((world.told("/a/x").len(), world.untold()), (0, 1));
}

#[test]
fn what_is_not_told_at_the_end_the_next_process_tells() {
    let (world, next) = (World::new(), World::with(&[TOLD]));
    let [ann, bob] = ["ann", "bob"].map(|user| world.attach(user, "*", None).session);
    assert!(world.subscribe(&ann, "/a/x") && world.subscribe(&bob, "/a/y"));
    world.settle();
    let sessions = &world.context.sessions;
    sessions.stop_telling();
    world.context.logs.channels.close();
    world.kick(&ann);
    sessions.move_all();
    world.settle();
    let stored = sessions.snapshot_tellings();
    assert_eq!(world.told("/a/x"), [line('+', &ann)]);
    assert_eq!(stored.len(), 1, "{stored:?}");
    for telling in &stored {
        next.context.sessions.restore_telling(telling).expect("it goes on");
    }
    // Nothing is asked of its engine before that knows what it goes on with.
    let late = next.attach("carol", "*", None).session;
    assert!(next.subscribe(&late, "/a/x"));
    next.settle();
    assert!(next.told("/a/x").is_empty());
    next.context.sessions.begin_telling();
    next.settle();
    assert_eq!(next.told("/a/x"), [line('-', &ann), line('+', &late)]);
    let elsewhere = World::with(&[]);
    elsewhere.context.sessions.restore_telling(&stored[0]).expect("nobody wants to know any more");
    assert!(elsewhere.context.sessions.snapshot_tellings().is_empty());
}

/// The channels are closed, and a task has found out before anyone has said so.
#[test]
fn what_a_closed_log_does_not_take_stays() {
    let world = World::new();
    let session = world.attach("ann", "*", None).session;
    assert!(world.subscribe(&session, "/a/x"));
    world.context.logs.channels.close();
    world.settle();
    assert_eq!((world.context.sessions.snapshot_tellings().len(), world.untold()), (1, 0));
}

/// Whatever happens between them, of one session on one channel the one comes after the other.
#[test]
fn threads_that_race_tell_of_each_in_its_order() {
    let world = World::new();
    let sessions: Vec<_> = (0..200).map(|_| world.attach("ann", "*", None).session).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| sessions.iter().for_each(|session| _ = world.subscribe(session, "/a/x")));
        scope.spawn(|| sessions.iter().for_each(|session| world.unsubscribe(session, "/a/x")));
        scope.spawn(|| sessions.iter().for_each(|session| world.kick(session)));
    });
    world.settle();
    let told = world.told("/a/x");
    for session in &sessions {
        let (come, gone) = (line('+', session), line('-', session));
        let of_it: Vec<_> = told.iter().filter(|line| [&come, &gone].contains(line)).collect();
        for pair in of_it.chunks(2) {
            assert_eq!(pair, [&come, &gone], "{told:?}");
        }
    }
}

/// What may be told by now, presence says as well, also while the channel still has the session among its subscribers: so a list that begins with it stays right.
#[test]
fn nobody_is_present_who_may_be_told_to_have_left() {
    let world = World::new();
    let sessions = &world.context.sessions;
    let [ann, bob] = ["ann", "bob"].map(|user| world.attach(user, "*", None).session);
    assert!(world.subscribe(&ann, "/a/x") && world.subscribe(&bob, "/a/x") && world.subscribe(&bob, "/a/y"));
    let present = |channel: &str| {
        let present = world.context.logs.channels.present(channel, 0, usize::MAX);
        present.members.into_iter().map(|(_, member)| member.id).collect::<Vec<_>>()
    };
    // As another thread sees it that looks in between.
    let left = sessions.step(&bob, |state, _| {
        let (slot, followed) = state.find("/a/x").map(|(slot, followed)| (slot, followed.clone()))?;
        state.machine.outbox_mut().unsubscribe(slot);
        sessions.note_left(&bob, &state.identity, &followed.channel);
        Some(followed)
    });
    sessions.tell(&name("/a/x"));
    world.settle();
    assert_eq!(world.told("/a/x").last(), Some(&line('-', &bob)));
    assert_eq!((present("/a/x"), present("/a/y")), (vec![ann.id().to_string()], vec![bob.id().to_string()]));
    sessions.release(&left.expect("it was followed"));
    assert_eq!(present("/a/x"), [ann.id().to_string()]);
}
