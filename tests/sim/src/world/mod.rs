//! The world: a server, its clients, what is between them, and the one scheduler that decides what happens next.

mod bayeux;
mod browsers;
mod checks;
mod ending;
mod network;
mod polls;
mod redis;
mod restart;
mod stepping;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use browsers::{BrowserPoll, HeldOf};
use encke_core::session::LifecycleEvent;
use encke_server::SessionId;
use encke_server::clock::UnixTime;
use encke_server::events::Hooks;
use encke_server::simulation::{Answer, Server, SimulatedTime};
use parking_lot::Mutex;
use polls::Polled;
use rand::RngExt;
use rand::rngs::SmallRng;
use redis::TheRedis;
use restart::{Given, Lives};

use crate::client::{Client, Post, Request};
use crate::engine_delays::EngineDelays;
use crate::fault::{FaultCounts, Faults};
use crate::lifecycle::Lifecycles;
use crate::scenario::Scenario;
use crate::schedule::{Action, ConnectionNumber, PostNumber, Schedule, Stage};
use crate::tasks::{TaskId, Tasks};
use crate::trace::Trace;
use crate::truth::{START_MS, Truth};
use crate::wire::{News, Shared, Times};

/// Whom a task of the server serves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Served {
    Connection(ConnectionNumber),
    Post(PostNumber),
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) invariant: &'static str,
    pub(crate) what: String,
}

/// What a run was.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) violation: Option<Violation>,
    pub(crate) hash: u64,
    pub(crate) steps: u64,
    pub(crate) deliveries: u64,
    pub(crate) published: u64,
    pub(crate) events: u64,
    /// Lifetimes of all sessions together, in nanoseconds.
    pub(crate) session_nanos: u128,
    pub(crate) faults: FaultCounts,
    pub(crate) tail: Vec<String>,
}

/// A connection, as the scheduler knows it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) wire: Shared,
    pub(crate) client: u32,
    pub(crate) task: Option<TaskId>,
    /// The session that its client was told.
    pub(crate) session: Option<String>,
    /// The poll that has not arrived.
    pub(crate) request: Option<Box<Request>>,
    /// When it came, other pages of its browser had as many requests held as they may.
    pub(crate) browser_was_full: bool,
    /// How long bytes take, in nanoseconds.
    pub(crate) latency: u64,
    /// A move is planned, each way.
    moving: [bool; 2],
    pub(crate) read_planned: bool,
    /// Its client has left it and does not even read.
    pub(crate) is_deaf: bool,
    /// The channels to which its client has published on it, as bits.
    pub(crate) published_to: u8,
}

/// What the server told its hooks.
#[derive(Clone, Debug, Default)]
struct ToldEvents(Arc<Mutex<Vec<(SessionId, LifecycleEvent)>>>);

impl Hooks for ToldEvents {
    fn session_event(&self, session: SessionId, _: Option<&str>, event: LifecycleEvent) {
        self.0.lock().push((session, event));
    }
}

/// Set when the wheel's sleep is to end.
#[derive(Debug, Default)]
struct WheelWoken(AtomicBool);

impl Wake for WheelWoken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// See the module.
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    /// The machine's clock, in nanoseconds since the start.
    pub(crate) now: u64,
    given: Given,
    times: Arc<Times>,
    news: News,
    /// Counts the turns that were planned: an earlier plan is void.
    wheel_plan: u32,
    work_planned: bool,
    look_planned: bool,
    pub(crate) server: Server,
    lives: Lives,
    redis: Option<TheRedis>,
    pub(crate) tasks: Tasks,
    /// The connection that a task serves, by the task's index.
    served_by: Vec<Option<Served>>,
    pub(crate) schedule: Schedule,
    ready: Vec<Action>,
    woken: Vec<TaskId>,
    rng: SmallRng,
    connections: Vec<Option<Box<Connection>>>,
    pub(crate) clients: Vec<Client>,
    /// Requests with commands.
    pub(crate) posts: Vec<Option<Box<Post>>>,
    /// What the server has answered to them, until the scheduler knows.
    pub(crate) answers: Arc<Mutex<Vec<(PostNumber, Answer)>>>,
    /// Requests with a `/meta/connect` that have got their sessions, until the scheduler knows.
    pub(crate) held: Arc<Mutex<Vec<HeldOf>>>,
    /// Those of browsers' pages that are held.
    browser_polls: Vec<BrowserPoll>,
    /// Sessions whose last connection was a poll.
    polled: BTreeMap<SessionId, Polled>,
    /// The polls whose tasks have not ended.
    served_polls: BTreeSet<ConnectionNumber>,
    pub(crate) truth: Truth,
    lifecycles: Lifecycles,
    stage: Stage,
    /// When something last came late for a reason.
    disturbed_at: u64,
    /// Moments without anything to do, since the last one that was checked.
    unchecked: usize,
    pub(crate) fault_counts: FaultCounts,
    pub(crate) deliveries: u64,
    messages: u64,
    published: u64,
    steps: u64,
    session_nanos: u128,
    pub(crate) trace: Trace,
    pub(crate) violation: Option<Violation>,
}

impl World {
    pub(crate) fn new(scenario: Scenario, in_words: bool) -> Self {
        let tasks = Tasks::default();
        let lives = Lives::new(&scenario);
        let redis = TheRedis::of(&scenario);
        let given = Given {
            time: Arc::new(SimulatedTime::new(UnixTime::from_secs(START_MS / 1000))),
            told: ToldEvents::default(),
            wheel_woken: Arc::default(),
            engine_delays: EngineDelays::new(&scenario),
            redis: redis.as_ref().map(|it| it.redis.clone()),
        };
        let server = Self::start_server(&scenario, lives.number, &given, &tasks);
        server.begin_anew();
        let mut world = Self {
            now: 0,
            given,
            times: Arc::default(),
            news: News::default(),
            wheel_plan: 0,
            work_planned: false,
            look_planned: false,
            server,
            lives,
            redis,
            tasks,
            served_by: Vec::new(),
            schedule: Schedule::default(),
            ready: vec![Action::Wheel { plan: 0 }],
            woken: Vec::new(),
            rng: scenario.rng(1),
            connections: Vec::new(),
            clients: (0..scenario.clients).map(|number| Client::new(number, &scenario)).collect(),
            posts: Vec::new(),
            answers: Arc::default(),
            held: Arc::default(),
            browser_polls: Vec::new(),
            polled: BTreeMap::new(),
            served_polls: BTreeSet::new(),
            truth: Truth::new(scenario.redis),
            lifecycles: Lifecycles::new(&scenario.config.session),
            stage: Stage::Busy,
            disturbed_at: 0,
            unchecked: 0,
            fault_counts: FaultCounts::default(),
            deliveries: 0,
            messages: 0,
            published: 0,
            steps: 0,
            session_nanos: 0,
            trace: Trace::new(in_words),
            violation: None,
            scenario,
        };
        world.tell_times();
        world.plan_beginning();
        world
    }

    fn plan_beginning(&mut self) {
        let pause = self.scenario.pause;
        for number in 0..self.scenario.clients {
            let at = self.rng.random_range(0..pause);
            self.schedule.plan(at, Action::Act(number, 0));
        }
        self.schedule.plan(self.rng.random_range(0..self.scenario.publish_pause), Action::Publish);
        self.schedule.plan(self.rng.random_range(0..pause * 4), Action::Administrate);
        self.schedule.plan(self.rng.random_range(0..self.scenario.length), Action::Stall);
        self.schedule.plan(self.scenario.length, Action::EndStage(Stage::Busy));
        self.plan_restart();
        self.plan_trouble_with_redis();
    }

    /// Runs to the end, or to the first invariant that does not hold.
    pub(crate) fn run(mut self) -> Outcome {
        while self.stage != Stage::Over && self.violation.is_none() {
            self.step();
        }
        Outcome {
            violation: self.violation,
            hash: self.trace.hash(),
            steps: self.steps,
            deliveries: self.deliveries,
            published: self.published,
            events: self.lifecycles.events(),
            session_nanos: self.session_nanos,
            faults: self.fault_counts,
            tail: self.trace.tail().map(str::to_owned).collect(),
        }
    }

    /// What may go wrong now.
    pub(crate) fn faults_now(&self) -> Faults {
        if self.stage == Stage::Busy { self.scenario.faults } else { Faults::default() }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.stage == Stage::Busy
    }

    /// An invariant does not hold. The first counts.
    pub(crate) fn violate(&mut self, invariant: &'static str, what: String) {
        self.violation.get_or_insert(Violation { invariant, what });
    }

    /// A number for the next message.
    pub(crate) fn next_message(&mut self) -> u64 {
        self.messages += 1;
        self.messages
    }

    pub(crate) fn connection(&self, number: ConnectionNumber) -> Option<&Connection> {
        self.connections.get(number as usize)?.as_deref()
    }

    pub(crate) fn connection_mut(&mut self, number: ConnectionNumber) -> Option<&mut Connection> {
        self.connections.get_mut(number as usize)?.as_deref_mut()
    }

    /// A session that a client asked for is not there for it: it must have ended.
    pub(crate) fn check_session_may_be_lost(&mut self, session: &str, is_future: bool) {
        // It may have ended just now.
        self.hear_events();
        let has_ended = session.parse().is_ok_and(|id| self.lifecycles.has_ended(id));
        if !is_future && !has_ended {
            self.violate("resume", format!("{session} is there, and its client did not get it"));
        }
    }
}
