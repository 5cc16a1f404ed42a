//! A run: the server, its clients, their connections, and the scheduler that chooses the next event.

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

use browsers::{BrowserPoll, HeldConnect};
use encke_core::session::LifecycleEvent;
use encke_server::SessionId;
use encke_server::events::Hooks;
use encke_server::testing::simulation::{HttpResponse, SimulatedServer};
use encke_timeouts::clock::{SimulatedTime, UnixTime};
use parking_lot::Mutex;
use polls::LastPoll;
use rand::RngExt;
use rand::rngs::SmallRng;
use redis::ScheduledRedis;
use restart::{ServerInputs, ServerSequence};

use crate::client::{PollRequest, Post, SimClient};
use crate::engine_delays::EngineDelays;
use crate::fault::{FaultCounts, Faults};
use crate::lifecycle::Lifecycles;
use crate::scenario::Scenario;
use crate::schedule::{Action, ConnectionNumber, PostNumber, Schedule, Stage};
use crate::tasks::{TaskId, Tasks};
use crate::trace::Trace;
use crate::truth::{START_MS, Truth};
use crate::wire::{ChangedConnections, Clocks, SharedWire};

/// Connection or request that a task of the server serves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TaskSubject {
    Connection(ConnectionNumber),
    Post(PostNumber),
}

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) invariant: &'static str,
    pub(crate) what: String,
}

/// Result of a run.
#[derive(Debug, Default)]
pub(crate) struct RunOutcome {
    pub(crate) violation: Option<Violation>,
    pub(crate) hash: u64,
    pub(crate) steps: u64,
    pub(crate) deliveries: u64,
    pub(crate) published: u64,
    pub(crate) events: u64,
    /// Total lifetime of all sessions, in nanoseconds.
    pub(crate) session_nanos: u128,
    pub(crate) faults: FaultCounts,
    pub(crate) tail: Vec<String>,
}

/// State of a connection.
#[derive(Debug)]
pub(crate) struct SimConnection {
    pub(crate) wire: SharedWire,
    pub(crate) client: u32,
    pub(crate) task: Option<TaskId>,
    /// Id of the session, once the server has confirmed it.
    pub(crate) session: Option<String>,
    /// Poll in transit.
    pub(crate) request: Option<Box<PollRequest>>,
    /// Whether the browser already had the maximum number of held requests when this one arrived.
    pub(crate) browser_was_full: bool,
    /// Latency in nanoseconds.
    pub(crate) latency: u64,
    /// Whether a move is planned, for each direction.
    moving: [bool; 2],
    pub(crate) read_planned: bool,
    /// Whether the client has abandoned the connection and does not even read from it.
    pub(crate) ignores_input: bool,
    /// Bit set of the channels to which the client has published on this connection.
    pub(crate) published_to: u8,
}

/// Events received by the hooks.
#[derive(Clone, Debug, Default)]
struct RecordedEvents(Arc<Mutex<Vec<(SessionId, LifecycleEvent)>>>);

impl Hooks for RecordedEvents {
    fn session_event(&self, session: SessionId, _: Option<&str>, event: LifecycleEvent) {
        self.0.lock().push((session, event));
    }
}

/// Waker of the wheel. Records that the wheel must wake up.
#[derive(Debug, Default)]
struct WheelWoken(AtomicBool);

impl Wake for WheelWoken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// See the [module](self).
pub(crate) struct Simulation {
    pub(crate) scenario: Scenario,
    /// Monotonic clock, in nanoseconds since the start.
    pub(crate) now: u64,
    inputs: ServerInputs,
    clocks: Arc<Clocks>,
    changed: ChangedConnections,
    /// Number of the latest planned iteration of the wheel's loop; earlier plans are void.
    wheel_plan: u32,
    work_planned: bool,
    read_parked_planned: bool,
    pub(crate) server: SimulatedServer,
    servers: ServerSequence,
    redis: Option<ScheduledRedis>,
    pub(crate) tasks: Tasks,
    /// Connection or request that each task serves, by the task's index.
    served_by: Vec<Option<TaskSubject>>,
    pub(crate) schedule: Schedule,
    ready: Vec<Action>,
    woken: Vec<TaskId>,
    rng: SmallRng,
    connections: Vec<Option<Box<SimConnection>>>,
    pub(crate) clients: Vec<SimClient>,
    /// Requests with commands, by number.
    pub(crate) posts: Vec<Option<Box<Post>>>,
    /// Responses of the server to these requests, until the scheduler takes them.
    pub(crate) answers: Arc<Mutex<Vec<(PostNumber, HttpResponse)>>>,
    /// Accepted requests with a `/meta/connect`, until the scheduler takes them.
    pub(crate) held: Arc<Mutex<Vec<HeldConnect>>>,
    /// Held requests that count toward the limit of a browser.
    browser_polls: Vec<BrowserPoll>,
    /// Sessions whose latest connection was a poll.
    polled: BTreeMap<SessionId, LastPoll>,
    /// Polls whose tasks have not ended.
    served_polls: BTreeSet<ConnectionNumber>,
    pub(crate) truth: Truth,
    lifecycles: Lifecycles,
    stage: Stage,
    /// Time until which lateness is tolerated because of a fault.
    lateness_excused_until: u64,
    /// Number of instants without possible actions since the last check.
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

impl Simulation {
    pub(crate) fn new(scenario: Scenario, in_words: bool) -> Self {
        let tasks = Tasks::default();
        let servers = ServerSequence::new(&scenario);
        let redis = ScheduledRedis::of(&scenario);
        let inputs = ServerInputs {
            time: Arc::new(SimulatedTime::new(UnixTime::from_secs(START_MS / 1000))),
            recorded: RecordedEvents::default(),
            wheel_woken: Arc::default(),
            engine_delays: EngineDelays::new(&scenario),
            redis: redis.as_ref().map(|it| it.redis.clone()),
        };
        let server = Self::start_server(&scenario, servers.number, &inputs, &tasks);
        server.start_empty();
        let mut world = Self {
            now: 0,
            inputs,
            clocks: Arc::default(),
            changed: ChangedConnections::default(),
            wheel_plan: 0,
            work_planned: false,
            read_parked_planned: false,
            server,
            servers,
            redis,
            tasks,
            served_by: Vec::new(),
            schedule: Schedule::default(),
            ready: vec![Action::Wheel { plan: 0 }],
            woken: Vec::new(),
            rng: scenario.rng(1),
            connections: Vec::new(),
            clients: (0..scenario.clients).map(|number| SimClient::new(number, &scenario)).collect(),
            posts: Vec::new(),
            answers: Arc::default(),
            held: Arc::default(),
            browser_polls: Vec::new(),
            polled: BTreeMap::new(),
            served_polls: BTreeSet::new(),
            truth: Truth::new(scenario.redis),
            lifecycles: Lifecycles::new(&scenario.config.session),
            stage: Stage::Busy,
            lateness_excused_until: 0,
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
        world.update_clocks();
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
        self.plan_redis_fault();
    }

    /// Runs the scenario to the end, or to the first violation.
    pub(crate) fn run(mut self) -> RunOutcome {
        while self.stage != Stage::Over && self.violation.is_none() {
            self.step();
        }
        RunOutcome {
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

    /// Returns the classes of faults that are allowed now.
    pub(crate) fn faults_now(&self) -> Faults {
        if self.stage == Stage::Busy { self.scenario.faults } else { Faults::default() }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.stage == Stage::Busy
    }

    /// Records a violation. Only the first one counts.
    pub(crate) fn violate(&mut self, invariant: &'static str, what: String) {
        self.violation.get_or_insert(Violation { invariant, what });
    }

    /// Returns the number for the next message.
    pub(crate) fn next_message(&mut self) -> u64 {
        self.messages += 1;
        self.messages
    }

    pub(crate) fn connection(&self, number: ConnectionNumber) -> Option<&SimConnection> {
        self.connections.get(number as usize)?.as_deref()
    }

    pub(crate) fn connection_mut(&mut self, number: ConnectionNumber) -> Option<&mut SimConnection> {
        self.connections.get_mut(number as usize)?.as_deref_mut()
    }

    /// Checks that a session that its client could not resume has ended, unless the client sent a seq that
    /// does not exist (`is_future`).
    pub(crate) fn check_session_may_be_lost(&mut self, session: &str, is_future: bool) {
        // Process pending events first: the session may have ended in this step.
        self.process_events();
        let has_ended = session.parse().is_ok_and(|id| self.lifecycles.has_ended(id));
        if !is_future && !has_ended {
            self.violate("resume", format!("{session} exists, but its client did not get it"));
        }
    }
}
