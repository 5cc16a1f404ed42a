//! Steps of the scheduler: executes one of the possible actions, or advances the time to the next planned
//! one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::RngExt;

use super::Simulation;
use crate::fault::Fault;
use crate::scenario::{MILLI, ScenarioKind, nanos};
use crate::schedule::{Action, Stage};
use crate::tasks::TaskSubject;
use crate::truth::LOGS;

impl Simulation {
    pub(super) fn step(&mut self) {
        while let Some((action, was_delayed)) = self.schedule.take_due(self.now) {
            if was_delayed {
                self.excuse_lateness_until(self.now);
            }
            self.ready.push(action);
        }
        if self.ready.is_empty() {
            self.check_when_quiet();
            return self.advance_to_next();
        }
        let index = self.rng.random_range(0..self.ready.len());
        let action = self.ready.swap_remove(index);
        self.totals.steps += 1;
        self.trace.mix((self.now, action));
        self.execute(action);
        self.follow_up();
        if self.totals.steps == self.scenario.calm_after_steps && self.is_busy() {
            self.end_stage(Stage::Busy);
            self.follow_up();
        }
        if self.injects(Fault::SlowSteps, 0.02) {
            let slow = self.rng.random_range(0..5 * MILLI);
            self.excuse_lateness_until(self.now + slow);
            self.advance(slow);
        }
    }

    /// Tolerates lateness until this time.
    pub(super) fn excuse_lateness_until(&mut self, until: u64) {
        self.lateness_excused_until = self.lateness_excused_until.max(until);
    }

    fn advance_to_next(&mut self) {
        match self.schedule.next_at() {
            Some(at) => self.advance(at - self.now),
            None => self.violate("progress", "no action is planned, not even the wheel".into()),
        }
    }

    pub(super) fn advance(&mut self, nanos: u64) {
        self.totals.session_nanos += u128::from(nanos) * self.lifecycles.alive as u128;
        self.now += nanos;
        self.inputs.time.advance(Duration::from_nanos(nanos));
        self.update_clocks();
    }

    pub(super) fn update_clocks(&mut self) {
        self.inputs.network.monotonic.store(self.now, Ordering::Relaxed);
        self.inputs.network.served.store(self.server.now().as_nanos(), Ordering::Relaxed);
    }

    fn execute(&mut self, action: Action) {
        match action {
            Action::Wheel(plan) => self.step_wheel(plan),
            Action::Work => {
                self.work_planned = false;
                self.trace.log(self.now, format_args!("a worker takes a batch"));
                self.server.work();
            }
            Action::ReadParked => {
                self.read_parked_planned = false;
                self.trace.log(self.now, format_args!("a parked connection is read"));
                self.server.handle_readable();
                // A parked connection may execute a command, without a task. Over days, there would be too many
                // steps to check.
                if self.scenario.kind == ScenarioKind::Dense {
                    (0..LOGS).for_each(|log| self.record_published(log));
                }
            }
            Action::Poll(task) => match self.tasks.poll(task) {
                Some((Some(subject), has_ended)) => self.inspect_task_effects(subject, has_ended),
                Some((None, _)) => self.observe_notices(),
                None => {}
            },
            Action::Move(connection, direction) => self.carry(connection, direction),
            Action::Act(client, plan) => self.act(client, plan),
            Action::Read(connection) => {
                if let Some(connection) = self.connection_mut(connection) {
                    connection.read_planned = false;
                }
                self.read(connection);
            }
            Action::Arrive(connection) => self.arrive(connection),
            Action::Command(post) => self.execute_post(post),
            Action::Reply(post) => self.receive_post_answer(post),
            Action::LosePost(post) => self.lose_post(post),
            Action::Answer(connection, seq) => self.answer(connection, seq),
            Action::Publish => self.publish(),
            Action::Administrate => self.administrate(),
            Action::Stall => self.stall(),
            Action::Restart => self.restart(),
            Action::Redis(connection) => self.run_redis_commands(connection),
            Action::RedisDelivers(connection) => self.deliver_from_redis(connection),
            Action::RedisFault => self.inject_redis_fault(),
            Action::RedisRecovers => self.recover_redis(),
            Action::Replace(server) => self.replace(server),
            Action::EndStage(stage) => self.end_stage(stage),
        }
    }

    fn step_wheel(&mut self, plan: u32) {
        if plan != self.wheel_plan {
            return;
        }
        let Some(until) = self.server.step_wheel() else {
            if self.server.batches() >= self.scenario.dispatch_batches {
                // Entries that expired in the meantime wait for the next tick.
                self.excuse_lateness_until(self.now);
            }
            self.update_clocks();
            return self.ready.push(Action::Wheel(plan));
        };
        let mut at = self.now + nanos(until.since(self.server.now()));
        if self.is_late(Fault::LateWheel) {
            at += self.rng.random_range(0..self.scenario.latest);
            self.excuse_lateness_until(at);
        }
        self.schedule.plan(at, Action::Wheel(plan));
    }

    /// Cancels the planned iteration of the wheel's loop, whether the wheel is awake or asleep.
    pub(super) fn next_wheel_plan(&mut self) -> Action {
        self.wheel_plan = self.wheel_plan.wrapping_add(1);
        self.ready.retain(|action| !matches!(action, Action::Wheel(_)));
        Action::Wheel(self.wheel_plan)
    }

    /// Decides at random whether the server's next action is delayed.
    pub(super) fn is_late(&mut self, fault: Fault) -> bool {
        self.injects(fault, f64::from(self.scenario.late_per_mille) / 1000.0)
    }

    fn now_or_delayed(&mut self, action: Action, fault: Fault) {
        if self.is_late(fault) {
            let at = self.now + self.rng.random_range(0..self.scenario.latest);
            self.schedule.delay(at, action);
        } else {
            self.ready.push(action);
        }
    }

    /// Plans the actions that the last action made possible.
    fn follow_up(&mut self) {
        let ended = std::mem::take(&mut *self.inputs.network.ended_parked.lock());
        ended.into_iter().for_each(|connection| self.update_poll(connection, true));
        self.process_events();
        self.count_late_answers();
        if self.inputs.wheel_woken.take() {
            let next = self.next_wheel_plan();
            self.now_or_delayed(next, Fault::LateWheel);
        }
        if !self.work_planned && self.server.batches() > 0 {
            self.work_planned = true;
            self.now_or_delayed(Action::Work, Fault::LateWorker);
        }
        if !self.read_parked_planned && self.server.has_readable() {
            self.read_parked_planned = true;
            self.now_or_delayed(Action::ReadParked, Fault::LateTask);
        }
        self.process_held_connects();
        self.plan_redis_work();
        loop {
            let answered = self.answers.lock().pop();
            let Some((post, answer)) = answered else { break };
            self.record_post_answer(post, answer);
        }
        for (task, connection) in self.tasks.take_spawned() {
            if let Some(connection) = self.connection_mut(connection) {
                connection.task = Some(task);
            }
        }
        let mut woken = std::mem::take(&mut self.woken);
        self.tasks.take_woken(&mut woken);
        for task in woken.drain(..) {
            self.now_or_delayed(Action::Poll(task), Fault::LateTask);
        }
        self.woken = woken;
        loop {
            let changed = self.inputs.network.changed.lock().pop();
            let Some(connection) = changed else { break };
            self.consider(connection);
        }
    }

    fn count_late_answers(&mut self) {
        let delays = std::mem::take(&mut self.inputs.engine_delays.lock().uncounted);
        (0..delays).for_each(|_| self.totals.faults.count(Fault::LateEngine));
        let failures = std::mem::take(&mut self.inputs.backend.0.lock().uncounted);
        (0..failures).for_each(|_| self.totals.faults.count(Fault::Backend));
    }

    fn inspect_task_effects(&mut self, subject: TaskSubject, has_ended: bool) {
        let published_to = match subject {
            TaskSubject::Connection(number) => {
                self.update_poll(number, has_ended);
                self.connection(number).map_or(0, |connection| connection.published_to)
            }
            TaskSubject::Post(number) => self.posts[number].as_ref().map_or(0, |post| post.published_to),
        };
        for channel in (0..self.scenario.channels).filter(|channel| published_to & 1 << channel != 0) {
            self.record_published_with_patterns(channel);
        }
    }

    fn administrate(&mut self) {
        if !self.faults_now().allows(Fault::Admin) {
            return;
        }
        let sessions = self.server.sessions();
        if !sessions.is_empty() {
            self.totals.faults.count(Fault::Admin);
            let session = &sessions[self.rng.random_range(0..sessions.len())].id;
            for model in self.clients.iter_mut().filter_map(|client| client.bayeux.as_mut()?.model.as_mut()) {
                model.disconnected(session);
            }
            let disconnects = self.rng.random_bool(0.7);
            self.trace.log(self.now, format_args!("an administrator ends {session}: {}", !disconnects));
            if disconnects {
                self.server.disconnect(session);
            } else {
                self.server.end(session);
            }
        }
        self.plan_within(self.scenario.pause * 4, Action::Administrate);
    }

    /// Stops the whole server for a while.
    fn stall(&mut self) {
        if !self.injects(Fault::Stall, 1.0) {
            return;
        }
        let length = nanos(self.scenario.config.timers.stall_threshold) * self.rng.random_range(1..20);
        self.trace.log(self.now, format_args!("the server stalls for {} ms", length / MILLI));
        self.advance(length);
        self.excuse_lateness_until(self.now);
        self.plan_within(self.scenario.length / 4, Action::Stall);
    }
}
