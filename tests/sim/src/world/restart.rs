//! One server after another. One that is told to stop has its sessions go on in the next; one that is killed has not.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::session::Deadline;
use encke_server::simulation::{ChannelView, Engine, GoneOn, Parameters, Server, SessionView, SimulatedTime};
use rand::RngExt;
use rand::rngs::SmallRng;
use tempfile::TempDir;

use super::{ToldEvents, WheelWoken, World};
use crate::engine_delays::EngineDelays;
use crate::fault::Fault;
use crate::redis::Redis;
use crate::scenario::{MILLI, SECOND, Scenario};
use crate::schedule::{Action, PostNumber};
use crate::tasks::Tasks;
use crate::truth::LOGS;

/// An older file is not taken up.
const MAX_AGE: Duration = Duration::from_secs(600);

/// The servers that there were.
#[derive(Debug)]
pub(super) struct Lives {
    rng: SmallRng,
    /// Of the present one.
    pub(super) number: u32,
    /// When its sessions have moved, in its time, if it was told to stop.
    moved_at: Option<Timestamp>,
    /// Where it writes sessions down, once one does.
    folder: Option<TempDir>,
}

/// What every server is given.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) time: Arc<SimulatedTime>,
    pub(super) told: ToldEvents,
    pub(super) wheel_woken: Arc<WheelWoken>,
    pub(super) engine_delays: EngineDelays,
    pub(super) redis: Option<Redis>,
}

/// What is to be the same in the next server.
struct Left {
    sessions: Vec<SessionView>,
    channels: Vec<ChannelView>,
}

impl Lives {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self { rng: scenario.rng(4), number: 0, moved_at: None, folder: None }
    }

    /// Sessions have moved, and wait for the next server.
    pub(super) fn is_moving(&self) -> bool {
        self.moved_at.is_some()
    }

    fn file(&mut self) -> PathBuf {
        let folder =
            self.folder.get_or_insert_with(|| TempDir::new().expect("there is room for small files"));
        folder.path().join("sessions")
    }
}

impl World {
    pub(super) fn plan_restart(&mut self) {
        let faults = self.scenario.faults;
        if !faults.allows(Fault::Restart) && !faults.allows(Fault::Kill) {
            return;
        }
        let wait = self.lives.rng.random_range(0..self.scenario.length / 2);
        self.schedule.plan(self.now + wait, Action::Restart);
    }

    /// The server is told to stop, or killed.
    pub(super) fn restart(&mut self) {
        let faults = self.faults_now();
        let (restarts, kills) = (faults.allows(Fault::Restart), faults.allows(Fault::Kill));
        if !restarts && !kills || self.lives.is_moving() {
            return;
        }
        let is_kill = kills && (!restarts || self.lives.rng.random_bool(0.3));
        if is_kill {
            return self.kill();
        }
        self.fault_counts.count(Fault::Restart);
        self.trace.say(self.now, format_args!("the server is told to stop"));
        self.lives.moved_at = Some(self.server.now());
        self.server.move_all();
        // Some connections are closed by then, others are cut.
        let drain = self.lives.rng.random_range(0..2 * SECOND);
        self.schedule.plan(self.now + drain, Action::Replace { server: self.lives.number });
    }

    /// The server writes down what it has, and the next one goes on with it.
    pub(super) fn replace(&mut self, server: u32) {
        if server != self.lives.number {
            return;
        }
        let Some(moved_at) = self.lives.moved_at else { return };
        if self.faults_now().allows(Fault::Kill) && self.lives.rng.random_bool(0.1) {
            return self.kill();
        }
        self.hear_events();
        let left = Left { sessions: self.server.sessions(), channels: self.server.channels() };
        let file = self.lives.file();
        self.server.write_down(&file).expect("there is room for small files");
        self.end_server();
        let is_long = self.lives.rng.random_bool(0.05);
        let down = match is_long {
            true => MAX_AGE.as_secs() * SECOND + self.lives.rng.random_range(MILLI..SECOND),
            false => self.lives.rng.random_range(0..20 * SECOND),
        };
        let found = self.begin_server(down);
        let expected =
            if is_long { GoneOn::TooOld } else { GoneOn::With { sessions: left.sessions.len(), skipped: 0 } };
        if found != expected {
            return self.violate("restart", format!("{found:?} where {expected:?} was written"));
        }
        if is_long {
            self.lifecycles.end_all();
        } else {
            // What has passed since then counts against nobody.
            let now = self.server.now();
            self.lifecycles.stand_still(now.since(moved_at));
            self.check_went_on(&left, moved_at);
        }
    }

    /// The server ends without a word, and the next one has nothing.
    fn kill(&mut self) {
        self.fault_counts.count(Fault::Kill);
        self.trace.say(self.now, format_args!("the server is killed"));
        self.hear_events();
        self.end_server();
        let down = self.lives.rng.random_range(0..20 * SECOND);
        let found = self.begin_server(down);
        // What an earlier one has written was taken up, or set aside.
        if found != GoneOn::WithNothing {
            self.violate("restart", format!("{found:?}, where nothing was written"));
        }
        self.lifecycles.end_all();
    }

    /// All that the process had is gone.
    fn end_server(&mut self) {
        for number in 0..self.posts.len() {
            let is_served =
                self.posts[number].as_ref().is_some_and(|post| post.is_served() && !post.is_answered());
            if is_served {
                let number = PostNumber::try_from(number).expect("few requests");
                self.ready.push(Action::LosePost(number));
            }
        }
        self.server.cut_at_rest();
        self.tasks.cancel_all();
        // Of the end of its own connections, a process that is killed tells nobody.
        self.given.told.0.lock().clear();
        self.held.lock().clear();
        self.polled.clear();
        self.served_polls.clear();
        self.browser_polls.clear();
    }

    /// Another server begins, after a while without any.
    fn begin_server(&mut self, down: u64) -> GoneOn {
        self.lives.moved_at = None;
        self.lives.number += 1;
        self.pass(down);
        self.server = Self::start_server(&self.scenario, self.lives.number, &self.given, &self.tasks);
        let file = self.lives.file();
        let found = self.server.go_on(&file, MAX_AGE).expect("small files can be read");
        self.trace.say(self.now, format_args!("the next server begins: {found:?}"));
        self.wheel_plan = self.wheel_plan.wrapping_add(1);
        self.ready.retain(|action| !matches!(action, Action::Wheel { .. }));
        self.ready.push(Action::Wheel { plan: self.wheel_plan });
        self.disturb(self.now);
        self.tell_times();
        (0..LOGS).for_each(|log| self.look_at_log(log));
        self.plan_restart();
        found
    }

    /// Every session has what it had, and as long as it had.
    fn check_went_on(&mut self, left: &Left, moved_at: Timestamp) {
        let now = self.server.now();
        let remaining = |session: &SessionView, at: Timestamp| -> Vec<(Deadline, Duration)> {
            session.deadlines.iter().map(|(deadline, due)| (*deadline, due.since(at))).collect()
        };
        let goes_on = |before: &&SessionView| {
            self.server.session(&before.id).is_some_and(|after| {
                let outbox = |it: &SessionView| (it.seq, it.unacked, it.subscriptions.clone());
                outbox(before) == outbox(&after)
                    && remaining(before, moved_at) == remaining(&after, now)
                    && !after.is_attached
            })
        };
        if let Some(session) = left.sessions.iter().find(|session| !goes_on(session)) {
            let after = self.server.session(&session.id);
            return self.violate("restart", format!("{session:?} at {moved_at:?}, {after:?} at {now:?}"));
        }
        let is_same = |before: &&ChannelView| {
            let state = |it: &ChannelView| (it.epoch.clone(), it.last, it.subscribers);
            let after = self.server.channel(&before.name);
            before.subscribers == 0 || after.is_some_and(|after| state(&after) == state(before))
        };
        if let Some(channel) = left.channels.iter().find(|channel| !is_same(channel)) {
            let after = self.server.channel(&channel.name);
            self.violate("restart", format!("{channel:?} goes on as {after:?}"));
        }
    }

    /// The first server, or one after it.
    pub(super) fn start_server(scenario: &Scenario, number: u32, given: &Given, tasks: &Tasks) -> Server {
        let engine = match given.redis.clone() {
            None => {
                let delays = given.engine_delays.clone();
                Engine::Memory(Box::new(move || delays.draw()))
            }
            Some(redis) => Engine::Redis { connect: Box::new(move || redis.connect()) },
        };
        Server::new(Parameters {
            config: scenario.config.clone(),
            // No two have the same random numbers.
            seed: scenario.seed ^ u64::from(number) << 32,
            time: Arc::clone(&given.time),
            hooks: Box::new(given.told.clone()),
            spawn: tasks.spawner(),
            io_threads: scenario.io_threads,
            wheel_waker: Waker::from(Arc::clone(&given.wheel_woken)),
            dispatch_batches: scenario.dispatch_batches,
            engine,
        })
    }
}
