//! A run: the server, its clients, their connections, and the scheduler that chooses the next event.

mod bayeux;
mod checks;
mod client_publishes;
mod ending;
mod join_leave;
mod network;
mod polls;
mod progress;
mod publishing;
mod redis;
mod restart;
mod stepping;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use encke_server::SessionId;
use encke_server::testing::simulation::{HttpResponse, SimulatedServer};
use parking_lot::Mutex;
use rand::RngExt;
use rand::rngs::SmallRng;

use crate::client::{Post, SimClient};
use crate::fault::{Fault, Faults};
use crate::lifecycle::Lifecycles;
use crate::outcome::{RunOutcome, Totals, Violation};
use crate::redis::RedisConnection;
use crate::scenario::Scenario;
use crate::schedule::{Action, ConnectionNumber, PostNumber, Schedule, Stage};
use crate::tasks::{TaskNumber, Tasks};
use crate::trace::Trace;
use crate::truth::{MAX_CHANNELS, Truth};
use bayeux::{BrowserPoll, HeldConnect};
use client_publishes::ClientPublish;
use join_leave::Roster;
pub(crate) use network::SimConnection;
use polls::LastPoll;
use restart::{ServerInputs, ServerSequence};

/// See the [module](self).
pub(crate) struct Simulation {
    pub(crate) scenario: Scenario,
    /// Monotonic clock, in nanoseconds since the start.
    pub(crate) now: u64,
    inputs: ServerInputs,
    /// Number of the latest planned iteration of the wheel's loop; earlier plans are void.
    wheel_plan: u32,
    work_planned: bool,
    read_parked_planned: bool,
    pub(crate) server: SimulatedServer,
    servers: ServerSequence,
    /// Connections to Redis with a planned action: execution of commands (`true`) or delivery of answers
    /// (`false`).
    redis_planned: BTreeSet<(RedisConnection, bool)>,
    pub(crate) tasks: Tasks,
    pub(crate) schedule: Schedule,
    ready: Vec<Action>,
    woken: Vec<TaskNumber>,
    pub(crate) rng: SmallRng,
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
    pub(crate) totals: Totals,
    /// Number of the last command.
    commands: u64,
    /// Messages sent by clients, by number.
    client_publishes: BTreeMap<u64, ClientPublish>,
    /// Whether messages have left a log before they were observed.
    misses_messages: bool,
    /// Subscribers of each channel according to its joins and leaves.
    rosters: Vec<Roster>,
    pub(crate) trace: Trace,
    pub(crate) violation: Option<Violation>,
}

impl Simulation {
    pub(crate) fn new(scenario: Scenario, in_words: bool) -> Self {
        let (tasks, servers, inputs) =
            (Tasks::default(), ServerSequence::default(), ServerInputs::new(&scenario));
        let server = inputs.start_server(&scenario, servers.number, &tasks);
        server.start_empty();
        let mut world = Self {
            now: 0,
            inputs,
            wheel_plan: 0,
            work_planned: false,
            read_parked_planned: false,
            server,
            servers,
            redis_planned: BTreeSet::new(),
            tasks,
            schedule: Schedule::default(),
            ready: vec![Action::Wheel(0)],
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
            totals: Totals::default(),
            commands: 0,
            client_publishes: BTreeMap::new(),
            misses_messages: false,
            rosters: vec![Roster::default(); MAX_CHANNELS],
            trace: Trace::new(in_words),
            violation: None,
            scenario,
        };
        world.update_clocks();
        let Scenario { clients, pause, publish_pause, length, .. } = world.scenario;
        (0..clients).for_each(|client| world.plan_within(pause, Action::Act(client, 0)));
        world.plan_within(publish_pause, Action::Publish);
        world.plan_within(pause * 4, Action::Administrate);
        world.plan_within(length, Action::Stall);
        world.plan_within(length / 2, Action::Restart);
        world.plan_within(length / 8, Action::RedisFault);
        world.schedule.plan(length, Action::EndStage(Stage::Busy));
        world
    }

    /// Runs the scenario to the end, or to the first violation.
    pub(crate) fn run(mut self) -> RunOutcome {
        while self.stage != Stage::Over && self.violation.is_none() {
            self.step();
        }
        let (hash, tail) = self.trace.finish();
        RunOutcome { violation: self.violation, hash, tail, totals: self.totals }
    }

    /// Plans `action` for a random time within `longest` nanoseconds.
    pub(crate) fn plan_within(&mut self, longest: u64, action: Action) {
        let wait = self.rng.random_range(0..longest);
        self.schedule.plan(self.now + wait, action);
    }

    /// Returns the classes of faults that are allowed now.
    pub(crate) fn faults_now(&self) -> Faults {
        if self.is_busy() { self.scenario.faults } else { Faults::default() }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.stage == Stage::Busy
    }

    /// Decides at random whether to inject a fault, and counts it.
    pub(crate) fn injects(&mut self, fault: Fault, probability: f64) -> bool {
        let injects = self.faults_now().allows(fault) && self.rng.random_bool(probability);
        if injects {
            self.totals.faults.count(fault);
        }
        injects
    }

    /// Records a violation. Only the first one counts.
    pub(crate) fn violate(&mut self, invariant: &'static str, what: String) {
        self.violation.get_or_insert(Violation { invariant, what });
    }

    /// Returns the number of the current server.
    pub(crate) fn server_number(&self) -> u32 {
        self.servers.number
    }

    pub(crate) fn next_command(&mut self) -> u64 {
        self.commands += 1;
        self.commands
    }

    pub(crate) fn connection(&self, number: ConnectionNumber) -> Option<&SimConnection> {
        self.connections.get(number)?.as_deref()
    }

    pub(crate) fn connection_mut(&mut self, number: ConnectionNumber) -> Option<&mut SimConnection> {
        self.connections.get_mut(number)?.as_deref_mut()
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
