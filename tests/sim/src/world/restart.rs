//! A sequence of server processes. Sessions survive a graceful restart, but not a kill.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::session::{Deadline, LifecycleEvent};
use encke_server::SessionId;
use encke_server::events::Hooks;
use encke_server::testing::simulation::{
    ChannelView, Parameters, ReservedSnapshot, RestoreResult, SessionView, SimulatedEngine, SimulatedServer,
};
use encke_timeouts::clock::{SimulatedTime, UnixTime};
use parking_lot::Mutex;
use rand::RngExt;
use tempfile::TempDir;

use super::Simulation;
use crate::backend::Backend;
use crate::engine_delays::EngineDelays;
use crate::fault::Fault;
use crate::redis::Redis;
use crate::scenario::{MILLI, SECOND, Scenario, nanos};
use crate::schedule::Action;
use crate::tasks::Tasks;
use crate::truth::{LOGS, START_MS};
use crate::wire::Network;

/// Maximum age of a snapshot.
const MAX_AGE: Duration = Duration::from_secs(600);

/// The servers of a run, one after another.
#[derive(Debug, Default)]
pub(super) struct ServerSequence {
    /// Number of the current server.
    pub(super) number: u32,
    /// Shutdown of the current server, if it has begun.
    shutdown: Option<Shutdown>,
    /// Directory of the snapshot, created when first needed.
    folder: Option<TempDir>,
}

#[derive(Debug)]
struct Shutdown {
    /// When the sessions moved, by the server's clock.
    moved_at: Timestamp,
    /// `None` if the snapshot's file could not be created, so the sessions have ended instead.
    file: Option<ReservedSnapshot>,
}

impl ServerSequence {
    /// Returns whether sessions have moved or ended, but the next server has not started.
    pub(super) fn is_shutting_down(&self) -> bool {
        self.shutdown.is_some()
    }

    /// Returns the path of the snapshot in a subdirectory.
    fn file_in(&mut self, subdirectory: &str) -> PathBuf {
        let create = || TempDir::new().expect("a writable temporary directory");
        self.folder.get_or_insert_with(create).path().join(subdirectory).join("sessions")
    }
}

/// Events received by the hooks.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordedEvents(pub(super) Arc<Mutex<Vec<(SessionId, LifecycleEvent)>>>);

impl Hooks for RecordedEvents {
    fn session_event(&self, session: SessionId, _: Option<&str>, event: LifecycleEvent) {
        self.0.lock().push((session, event));
    }
}

/// Waker of the wheel. Records that the wheel must wake up.
#[derive(Debug, Default)]
pub(super) struct WheelWoken(AtomicBool);

impl WheelWoken {
    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for WheelWoken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Inputs shared by all servers of a run.
#[derive(Debug)]
pub(super) struct ServerInputs {
    pub(super) time: Arc<SimulatedTime>,
    pub(super) recorded: RecordedEvents,
    pub(super) wheel_woken: Arc<WheelWoken>,
    pub(super) engine_delays: Arc<Mutex<EngineDelays>>,
    pub(super) redis: Option<Redis>,
    pub(super) backend: Backend,
    pub(super) network: Arc<Network>,
}

impl ServerInputs {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let log = &scenario.config.channel.log;
        let age_ms = log.age.map(|age| nanos(age) / MILLI);
        Self {
            time: Arc::new(SimulatedTime::new(UnixTime::from_secs(START_MS / 1000))),
            recorded: RecordedEvents::default(),
            wheel_woken: Arc::default(),
            engine_delays: Arc::new(Mutex::new(EngineDelays::new(scenario))),
            redis: scenario.redis.then(|| Redis::new(log.messages, age_ms)),
            backend: Backend::new(scenario),
            network: Arc::default(),
        }
    }

    pub(super) fn start_server(&self, scenario: &Scenario, number: u32, tasks: &Tasks) -> SimulatedServer {
        let engine = match self.redis.clone() {
            None => {
                let delays = Arc::clone(&self.engine_delays);
                SimulatedEngine::Memory(Box::new(move || delays.lock().next_delay()))
            }
            Some(redis) => SimulatedEngine::Redis { connect: Box::new(move || redis.connect()) },
        };
        SimulatedServer::new(Parameters {
            config: scenario.config.clone(),
            // Give each server different random numbers.
            seed: scenario.seed ^ u64::from(number) << 32,
            time: Arc::clone(&self.time),
            hooks: Box::new(self.recorded.clone()),
            spawn: tasks.spawner(&self.network),
            io_threads: scenario.io_threads,
            wheel_waker: Waker::from(Arc::clone(&self.wheel_woken)),
            dispatch_batches: scenario.dispatch_batches,
            engine,
            backend: Some(self.backend.target()),
        })
    }
}

/// State that must be the same in the next server.
struct StateBefore {
    moved_at: Timestamp,
    sessions: Vec<SessionView>,
    channels: Vec<ChannelView>,
}

impl Simulation {
    /// Returns whether sessions have moved or ended, but the next server has not started.
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.servers.is_shutting_down()
    }

    /// Begins a graceful shutdown of the server, or kills it.
    pub(super) fn restart(&mut self) {
        let faults = self.faults_now();
        let (restarts, kills) = (faults.allows(Fault::Restart), faults.allows(Fault::Kill));
        if !restarts && !kills || self.servers.is_shutting_down() {
            return;
        }
        if kills && (!restarts || self.rng.random_bool(0.3)) {
            return self.kill();
        }
        self.totals.faults.count(Fault::Restart);
        self.trace.log(self.now, format_args!("the server begins to shut down"));
        let fails = self.injects(Fault::SnapshotFails, 0.2);
        let folder = if fails { "missing/" } else { "" };
        let moved_at = self.server.now();
        let file = self.server.begin_shutdown(&self.servers.file_in(folder));
        if file.is_none() {
            self.check_all_ended();
        }
        if file.is_none() != fails {
            self.violate("restart", format!("reserving the snapshot's file fails: {}", !fails));
        }
        self.servers.shutdown = Some(Shutdown { moved_at, file });
        // Some connections close within this interval; the others are cut.
        self.plan_within(2 * SECOND, Action::Replace(self.servers.number));
    }

    /// Writes the snapshot, and starts the next server with it.
    pub(super) fn replace(&mut self, server: u32) {
        let Some(Shutdown { moved_at, file }) =
            self.servers.shutdown.take_if(|_| server == self.servers.number)
        else {
            return;
        };
        if self.faults_now().allows(Fault::Kill) && self.rng.random_bool(0.1) {
            return self.kill();
        }
        self.process_events();
        let (sessions, channels) = (self.server.sessions(), self.server.channels());
        let before = StateBefore { moved_at, sessions, channels };
        if !file.is_some_and(|file| self.write_snapshot(file)) {
            self.check_all_ended();
            return self.start_without_snapshot();
        }
        let is_long = self.rng.random_bool(0.05);
        let down = match is_long {
            true => nanos(MAX_AGE) + self.rng.random_range(MILLI..SECOND),
            false => self.rng.random_range(0..20 * SECOND),
        };
        if is_long {
            self.reset_rosters();
        }
        let found = self.start_next_server(down);
        let expected = match is_long {
            true => RestoreResult::TooOld,
            false => RestoreResult::Restored { sessions: before.sessions.len(), skipped: 0 },
        };
        if found != expected {
            return self.violate("restart", format!("{found:?} instead of {expected:?}"));
        }
        if is_long {
            self.lifecycles.end_all();
        } else {
            // The duration of the restart does not count toward the timeouts of sessions.
            self.lifecycles.shift_times(self.server.now().since(moved_at));
            self.check_restored(&before);
        }
    }

    /// Writes the snapshot. Returns whether that succeeded.
    fn write_snapshot(&mut self, file: ReservedSnapshot) -> bool {
        let (path, fails) = (self.servers.file_in(""), self.injects(Fault::SnapshotFails, 0.2));
        if fails {
            // A file cannot replace a directory.
            std::fs::create_dir(&path).expect("a writable temporary directory");
        }
        let is_written = self.server.finish_shutdown(&path, file);
        if fails {
            std::fs::remove_dir(&path).expect("an empty directory");
        }
        if is_written == fails {
            self.violate("restart", format!("writing the snapshot succeeds: {is_written}"));
        }
        is_written
    }

    /// Checks that a server whose snapshot failed has ended its sessions, with their events.
    fn check_all_ended(&mut self) {
        self.trace.log(self.now, format_args!("the snapshot cannot be written"));
        self.process_events();
        let (sessions, alive) = (self.server.totals().sessions, self.lifecycles.alive);
        if sessions + alive > 0 {
            let what = format!("without a snapshot, {sessions} sessions remain, {alive} without an end");
            self.violate("restart", what);
        }
    }

    /// Kills the server. The next one starts without a snapshot.
    fn kill(&mut self) {
        self.totals.faults.count(Fault::Kill);
        self.trace.log(self.now, format_args!("the server is killed"));
        self.process_events();
        self.start_without_snapshot();
    }

    fn start_without_snapshot(&mut self) {
        let down = self.rng.random_range(0..20 * SECOND);
        self.reset_rosters();
        let found = self.start_next_server(down);
        // The snapshot of an earlier server was consumed or set aside.
        if found != RestoreResult::NoFile {
            self.violate("restart", format!("{found:?} although no snapshot was written"));
        }
        self.lifecycles.end_all();
    }

    /// Terminates the server process, with all its tasks and connections.
    fn end_server(&mut self) {
        for (number, post) in self.posts.iter().enumerate() {
            if post.as_ref().is_some_and(|post| post.is_executing()) {
                self.ready.push(Action::LosePost(number));
            }
        }
        self.server.close_parked();
        self.tasks.cancel_all();
        *self.inputs.network.unparked.lock() = None;
        self.inputs.network.ended_parked.lock().clear();
        // A killed process does not report how its connections end.
        self.inputs.recorded.0.lock().clear();
        self.held.lock().clear();
        self.polled.clear();
        self.served_polls.clear();
        self.browser_polls.clear();
    }

    /// Ends the server, and starts the next one after `down` nanoseconds.
    fn start_next_server(&mut self, down: u64) -> RestoreResult {
        self.end_server();
        self.servers.shutdown = None;
        self.servers.number += 1;
        self.advance(down);
        self.server = self.inputs.start_server(&self.scenario, self.servers.number, &self.tasks);
        let found = self.server.restore(&self.servers.file_in(""), MAX_AGE).expect("a readable snapshot");
        self.trace.log(self.now, format_args!("the next server starts: {found:?}"));
        let next = self.next_wheel_plan();
        self.ready.push(next);
        self.excuse_lateness_until(self.now);
        self.update_clocks();
        (0..LOGS).for_each(|log| self.record_published(log));
        self.plan_within(self.scenario.length / 2, Action::Restart);
        found
    }

    /// Checks that the state and the remaining times of every session survived the restart.
    fn check_restored(&mut self, before: &StateBefore) {
        let (now, moved_at) = (self.server.now(), before.moved_at);
        let remaining = |session: &SessionView, at: Timestamp| -> Vec<(Deadline, Duration)> {
            session.deadlines.iter().map(|(deadline, due)| (*deadline, due.since(at))).collect()
        };
        for session in &before.sessions {
            let after = self.server.session(&session.id);
            let outbox = |it: &SessionView| (it.seq, it.unacked, it.subscriptions.clone());
            let is_same = after.as_ref().is_some_and(|after| {
                outbox(session) == outbox(after)
                    && remaining(session, moved_at) == remaining(after, now)
                    && !after.is_attached
            });
            if !is_same {
                let what = format!("{session:?} at {moved_at:?}, {after:?} at {now:?}");
                return self.violate("restart", what);
            }
        }
        for channel in before.channels.iter().filter(|channel| channel.subscribers > 0) {
            let after = self.server.channel(&channel.name);
            let state = |it: &ChannelView| (it.epoch.clone(), it.last, it.subscribers);
            if after.as_ref().map(state) != Some(state(channel)) {
                return self.violate("restart", format!("{channel:?} was restored as {after:?}"));
            }
        }
    }
}
