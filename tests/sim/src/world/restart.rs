//! A sequence of server processes. Sessions survive a graceful restart, but not a kill.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::session::Deadline;
use encke_server::testing::simulation::{
    ChannelView, Parameters, RestoreResult, SessionView, SimulatedEngine, SimulatedServer,
};
use encke_timeouts::clock::SimulatedTime;
use rand::RngExt;
use rand::rngs::SmallRng;
use tempfile::TempDir;

use super::{RecordedEvents, Simulation, WheelWoken};
use crate::engine_delays::EngineDelays;
use crate::fault::Fault;
use crate::redis::Redis;
use crate::scenario::{MILLI, SECOND, Scenario};
use crate::schedule::{Action, PostNumber};
use crate::tasks::Tasks;
use crate::truth::LOGS;

/// Maximum age of a snapshot.
const MAX_AGE: Duration = Duration::from_secs(600);

/// The servers of a run, one after another.
#[derive(Debug)]
pub(super) struct ServerSequence {
    rng: SmallRng,
    /// Number of the current server.
    pub(super) number: u32,
    /// When the current server moved its sessions, by its clock. `None` if it is not shutting down.
    moved_at: Option<Timestamp>,
    /// Directory of the snapshot, created when first needed.
    folder: Option<TempDir>,
}

/// Inputs shared by all servers of a run.
#[derive(Debug)]
pub(super) struct ServerInputs {
    pub(super) time: Arc<SimulatedTime>,
    pub(super) recorded: RecordedEvents,
    pub(super) wheel_woken: Arc<WheelWoken>,
    pub(super) engine_delays: EngineDelays,
    pub(super) redis: Option<Redis>,
}

/// State that must be the same in the next server.
struct StateBefore {
    sessions: Vec<SessionView>,
    channels: Vec<ChannelView>,
}

impl ServerSequence {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self { rng: scenario.rng(4), number: 0, moved_at: None, folder: None }
    }

    /// Returns whether sessions have moved, but the next server has not started.
    pub(super) fn is_moving(&self) -> bool {
        self.moved_at.is_some()
    }

    fn file(&mut self) -> PathBuf {
        let folder =
            self.folder.get_or_insert_with(|| TempDir::new().expect("a writable temporary directory"));
        folder.path().join("sessions")
    }
}

impl Simulation {
    pub(super) fn plan_restart(&mut self) {
        let faults = self.scenario.faults;
        if !faults.allows(Fault::Restart) && !faults.allows(Fault::Kill) {
            return;
        }
        let wait = self.servers.rng.random_range(0..self.scenario.length / 2);
        self.schedule.plan(self.now + wait, Action::Restart);
    }

    /// Begins a graceful shutdown of the server, or kills it.
    pub(super) fn restart(&mut self) {
        let faults = self.faults_now();
        let (restarts, kills) = (faults.allows(Fault::Restart), faults.allows(Fault::Kill));
        if !restarts && !kills || self.servers.is_moving() {
            return;
        }
        let is_kill = kills && (!restarts || self.servers.rng.random_bool(0.3));
        if is_kill {
            return self.kill();
        }
        self.fault_counts.count(Fault::Restart);
        self.trace.log(self.now, format_args!("the server begins to shut down"));
        self.servers.moved_at = Some(self.server.now());
        self.server.move_all();
        // Some connections close within this interval; the others are cut.
        let drain = self.servers.rng.random_range(0..2 * SECOND);
        self.schedule.plan(self.now + drain, Action::Replace { server: self.servers.number });
    }

    /// Writes the snapshot, and starts the next server with it.
    pub(super) fn replace(&mut self, server: u32) {
        if server != self.servers.number {
            return;
        }
        let Some(moved_at) = self.servers.moved_at else { return };
        if self.faults_now().allows(Fault::Kill) && self.servers.rng.random_bool(0.1) {
            return self.kill();
        }
        self.process_events();
        let before_restart =
            StateBefore { sessions: self.server.sessions(), channels: self.server.channels() };
        let file = self.servers.file();
        self.server.write_snapshot(&file).expect("a writable temporary directory");
        self.end_server();
        let is_long = self.servers.rng.random_bool(0.05);
        let down = match is_long {
            true => MAX_AGE.as_secs() * SECOND + self.servers.rng.random_range(MILLI..SECOND),
            false => self.servers.rng.random_range(0..20 * SECOND),
        };
        let found = self.start_next_server(down);
        let expected = if is_long {
            RestoreResult::TooOld
        } else {
            RestoreResult::Restored { sessions: before_restart.sessions.len(), skipped: 0 }
        };
        if found != expected {
            return self.violate("restart", format!("{found:?} instead of {expected:?}"));
        }
        if is_long {
            self.lifecycles.end_all();
        } else {
            // The duration of the restart does not count toward the timeouts of sessions.
            let now = self.server.now();
            self.lifecycles.shift_times(now.since(moved_at));
            self.check_restored(&before_restart, moved_at);
        }
    }

    /// Kills the server. The next one starts without a snapshot.
    fn kill(&mut self) {
        self.fault_counts.count(Fault::Kill);
        self.trace.log(self.now, format_args!("the server is killed"));
        self.process_events();
        self.end_server();
        let down = self.servers.rng.random_range(0..20 * SECOND);
        let found = self.start_next_server(down);
        // The snapshot of an earlier server was consumed or set aside.
        if found != RestoreResult::NoFile {
            self.violate("restart", format!("{found:?} although no snapshot was written"));
        }
        self.lifecycles.end_all();
    }

    /// Terminates the server process, with all its tasks and connections.
    fn end_server(&mut self) {
        for number in 0..self.posts.len() {
            let is_served =
                self.posts[number].as_ref().is_some_and(|post| post.is_served() && !post.is_answered());
            if is_served {
                let number = PostNumber::try_from(number).expect("few requests");
                self.ready.push(Action::LosePost(number));
            }
        }
        self.server.close_parked();
        self.tasks.cancel_all();
        // A killed process does not report how its connections end.
        self.inputs.recorded.0.lock().clear();
        self.held.lock().clear();
        self.polled.clear();
        self.served_polls.clear();
        self.browser_polls.clear();
    }

    /// Starts the next server after `down` nanoseconds.
    fn start_next_server(&mut self, down: u64) -> RestoreResult {
        self.servers.moved_at = None;
        self.servers.number += 1;
        self.advance(down);
        self.server = Self::start_server(&self.scenario, self.servers.number, &self.inputs, &self.tasks);
        let file = self.servers.file();
        let found = self.server.restore(&file, MAX_AGE).expect("a readable snapshot");
        self.trace.log(self.now, format_args!("the next server starts: {found:?}"));
        self.wheel_plan = self.wheel_plan.wrapping_add(1);
        self.ready.retain(|action| !matches!(action, Action::Wheel { .. }));
        self.ready.push(Action::Wheel { plan: self.wheel_plan });
        self.excuse_lateness_until(self.now);
        self.update_clocks();
        (0..LOGS).for_each(|log| self.record_published(log));
        self.plan_restart();
        found
    }

    /// Checks that the state and the remaining times of every session survived the restart.
    fn check_restored(&mut self, before_restart: &StateBefore, moved_at: Timestamp) {
        let now = self.server.now();
        let remaining = |session: &SessionView, at: Timestamp| -> Vec<(Deadline, Duration)> {
            session.deadlines.iter().map(|(deadline, due)| (*deadline, due.since(at))).collect()
        };
        let may_continue = |before: &&SessionView| {
            self.server.session(&before.id).is_some_and(|after| {
                let outbox = |it: &SessionView| (it.seq, it.unacked, it.subscriptions.clone());
                outbox(before) == outbox(&after)
                    && remaining(before, moved_at) == remaining(&after, now)
                    && !after.is_attached
            })
        };
        if let Some(session) = before_restart.sessions.iter().find(|session| !may_continue(session)) {
            let after = self.server.session(&session.id);
            return self.violate("restart", format!("{session:?} at {moved_at:?}, {after:?} at {now:?}"));
        }
        let is_same = |before: &&ChannelView| {
            let state = |it: &ChannelView| (it.epoch.clone(), it.last, it.subscribers);
            let after = self.server.channel(&before.name);
            before.subscribers == 0 || after.is_some_and(|after| state(&after) == state(before))
        };
        if let Some(channel) = before_restart.channels.iter().find(|channel| !is_same(channel)) {
            let after = self.server.channel(&channel.name);
            self.violate("restart", format!("{channel:?} was restored as {after:?}"));
        }
    }

    pub(super) fn start_server(
        scenario: &Scenario,
        number: u32,
        inputs: &ServerInputs,
        tasks: &Tasks,
    ) -> SimulatedServer {
        let engine = match inputs.redis.clone() {
            None => {
                let delays = inputs.engine_delays.clone();
                SimulatedEngine::Memory(Box::new(move || delays.next_delay()))
            }
            Some(redis) => SimulatedEngine::Redis { connect: Box::new(move || redis.connect()) },
        };
        SimulatedServer::new(Parameters {
            config: scenario.config.clone(),
            // Give each server different random numbers.
            seed: scenario.seed ^ u64::from(number) << 32,
            time: Arc::clone(&inputs.time),
            hooks: Box::new(inputs.recorded.clone()),
            spawn: tasks.spawner(),
            io_threads: scenario.io_threads,
            wheel_waker: Waker::from(Arc::clone(&inputs.wheel_woken)),
            dispatch_batches: scenario.dispatch_batches,
            engine,
        })
    }
}
