//! Steps of the scheduler: executes one of the possible actions, or advances the time to the next planned
//! one.

use std::sync::atomic::Ordering;

use rand::RngExt;

use super::{Simulation, TaskSubject};
use crate::fault::Fault;
use crate::scenario::{MILLI, nanos};
use crate::schedule::{Action, Direction, Stage};
use crate::tasks::PollOutcome;
use crate::truth::{LOGS, MAX_CHANNELS, channel_name, text_of};

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
        self.steps += 1;
        let [what, which] = code(&action);
        self.trace.mix(&[self.now, what, which]);
        self.execute(action);
        self.follow_up();
        if self.steps == self.scenario.calm_after_steps && self.is_busy() {
            self.end_stage(Stage::Busy);
            self.follow_up();
        }
        if self.faults_now().allows(Fault::SlowSteps) && self.rng.random_ratio(1, 50) {
            self.fault_counts.count(Fault::SlowSteps);
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

    /// Advances all clocks.
    pub(super) fn advance(&mut self, nanos: u64) {
        self.session_nanos += u128::from(nanos) * self.lifecycles.alive() as u128;
        self.now += nanos;
        self.inputs.time.advance(std::time::Duration::from_nanos(nanos));
        self.update_clocks();
    }

    pub(super) fn update_clocks(&mut self) {
        self.clocks.monotonic.store(self.now, Ordering::Relaxed);
        self.clocks.served.store(self.server.now().as_nanos(), Ordering::Relaxed);
    }

    fn execute(&mut self, action: Action) {
        match action {
            Action::Wheel { plan } => self.step_wheel(plan),
            Action::Work => {
                self.work_planned = false;
                self.trace.log(self.now, format_args!("a worker takes a batch"));
                self.server.work();
            }
            Action::ReadParked => {
                self.read_parked_planned = false;
                self.trace.log(self.now, format_args!("a parked connection is read"));
                self.server.handle_readable();
            }
            Action::Poll(task) => {
                let polled = self.tasks.poll(task);
                if polled != PollOutcome::EndedBefore {
                    self.inspect_task_effects(task.index, polled == PollOutcome::Ended);
                }
            }
            Action::Move(connection, direction) => self.carry(connection, direction),
            Action::Act(client, plan) => {
                if self.is_busy() {
                    self.act(client, plan);
                } else if self.stage == Stage::Calm {
                    self.continue_polling(client, plan);
                }
            }
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
            Action::Redis(number) => self.run_redis_commands(number),
            Action::RedisDelivers(number) => self.deliver_from_redis(number),
            Action::RedisFault => self.inject_redis_fault(),
            Action::RedisRecovers => self.recover_redis(),
            Action::Replace { server } => self.replace(server),
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
            return self.ready.push(Action::Wheel { plan });
        };
        let sleep = nanos(until.since(self.server.now()));
        let mut at = self.now + sleep;
        if self.is_late(Fault::LateWheel) {
            at += self.rng.random_range(0..self.scenario.latest);
            self.excuse_lateness_until(at);
        }
        self.schedule.plan(at, Action::Wheel { plan });
    }

    /// Decides at random whether the server's next action is delayed, and counts the delay.
    fn is_late(&mut self, fault: Fault) -> bool {
        let is_late =
            self.faults_now().allows(fault) && self.rng.random_ratio(self.scenario.late_per_mille, 1000);
        if is_late {
            self.fault_counts.count(fault);
        }
        is_late
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
        self.update_polls_ended_while_parked();
        self.process_events();
        for _ in 0..self.inputs.engine_delays.take_delay_count() {
            self.fault_counts.count(Fault::LateEngine);
        }
        if self.inputs.wheel_woken.0.swap(false, Ordering::Relaxed) {
            self.wheel_plan = self.wheel_plan.wrapping_add(1);
            // The wheel continues its loop, whether it was awake or asleep. Cancel the planned iteration.
            self.ready.retain(|action| !matches!(action, Action::Wheel { .. }));
            self.now_or_delayed(Action::Wheel { plan: self.wheel_plan }, Fault::LateWheel);
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
            self.now_serves(task, connection.map(TaskSubject::Connection));
            if let Some(connection) = connection.and_then(|number| self.connection_mut(number)) {
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
            let number = self.changed.lock().pop();
            let Some(number) = number else { break };
            self.consider(number);
        }
    }

    fn update_polls_ended_while_parked(&mut self) {
        let ended = std::mem::take(&mut self.tasks.parked_changes.lock().ended);
        for number in ended {
            self.update_poll(number, true);
        }
    }

    fn inspect_task_effects(&mut self, task: u32, has_ended: bool) {
        let bits = match self.served_by.get(task as usize).copied().flatten() {
            None => return,
            Some(TaskSubject::Connection(number)) => {
                self.update_poll(number, has_ended);
                self.connection(number).map_or(0, |connection| connection.published_to)
            }
            Some(TaskSubject::Post(number)) => self.post_of(number).map_or(0, |post| post.published_to),
        };
        for channel in (0..self.scenario.channels).filter(|channel| bits & 1 << channel != 0) {
            self.record_published_with_patterns(channel);
        }
    }

    /// Updates the record of a channel and of all patterns after a possible publish.
    fn record_published_with_patterns(&mut self, channel: u8) {
        self.record_published(channel);
        (MAX_CHANNELS..LOGS).for_each(|pattern| self.record_published(pattern));
    }

    pub(crate) fn record_published(&mut self, channel: u8) {
        let looked = match &self.redis {
            None => self.truth.observe(channel, &self.server),
            Some(it) => self.truth.observe(channel, &it.redis),
        };
        match looked {
            Ok(0) => {}
            Ok(fresh) => {
                self.published += if channel < MAX_CHANNELS { fresh } else { 0 };
                self.check_log(channel);
            }
            Err(what) => self.violate("logs", what),
        }
    }

    fn publish(&mut self) {
        if !self.is_busy() {
            return;
        }
        let channel = self.rng.random_range(0..self.scenario.channels);
        let burst = if self.rng.random_ratio(1, 10) { self.rng.random_range(1..40) } else { 1 };
        for _ in 0..burst {
            let length = self.rng.random_range(0..self.scenario.max_message_bytes);
            let text = text_of(self.next_message(), length);
            // The publish fails if the maximum number of channels is reached.
            let name = channel_name(channel);
            let result = match &self.redis {
                None => self.server.publish(&name, &text),
                // With Redis, another server publishes the message.
                Some(it) if it.redis.is_up() => Ok(it.redis.publish(&name, &text)),
                Some(_) => Err("Redis is down".to_owned()),
            };
            self.trace.log(self.now, format_args!("the API publishes to {channel}: {result:?}"));
            self.record_published_with_patterns(channel);
        }
        let wait = self.rng.random_range(0..self.scenario.publish_pause);
        self.schedule.plan(self.now + wait, Action::Publish);
    }

    fn administrate(&mut self) {
        if !self.faults_now().allows(Fault::Admin) {
            return;
        }
        let sessions = self.server.sessions();
        if !sessions.is_empty() {
            let session = &sessions[self.rng.random_range(0..sessions.len())].id;
            for model in self.clients.iter_mut().filter_map(|client| client.bayeux.as_mut()?.model.as_mut()) {
                model.disconnected(session);
            }
            self.fault_counts.count(Fault::Admin);
            if self.rng.random_bool(0.7) {
                self.trace.log(self.now, format_args!("an administrator disconnects {session}"));
                self.server.disconnect(session);
            } else {
                self.trace.log(self.now, format_args!("an administrator closes {session}"));
                self.server.end(session);
            }
        }
        let wait = self.rng.random_range(0..self.scenario.pause * 4);
        self.schedule.plan(self.now + wait, Action::Administrate);
    }

    /// Stops the whole server for a while.
    fn stall(&mut self) {
        if !self.faults_now().allows(Fault::Stall) {
            return;
        }
        self.fault_counts.count(Fault::Stall);
        let length = nanos(self.scenario.config.timers.stall_threshold) * self.rng.random_range(1..20);
        self.trace.log(self.now, format_args!("the server stalls for {} ms", length / MILLI));
        self.advance(length);
        self.excuse_lateness_until(self.now);
        let wait = self.rng.random_range(0..self.scenario.length / 4);
        self.schedule.plan(self.now + wait, Action::Stall);
    }
}

fn code(action: &Action) -> [u64; 2] {
    match *action {
        Action::Wheel { plan } => [1, plan.into()],
        Action::Work => [2, 0],
        Action::ReadParked => [24, 0],
        Action::Poll(task) => [3, task.index.into()],
        Action::Move(connection, Direction::ToServer) => [4, connection.into()],
        Action::Move(connection, Direction::ToClient) => [5, connection.into()],
        Action::Act(client, plan) => [7, u64::from(client) << 32 | u64::from(plan)],
        Action::Read(connection) => [8, connection.into()],
        Action::Answer(connection, seq) => [9, u64::from(connection) << 32 ^ seq],
        Action::Arrive(connection) => [14, connection.into()],
        Action::Command(post) => [15, post.into()],
        Action::Reply(post) => [16, post.into()],
        Action::LosePost(post) => [17, post.into()],
        Action::Publish => [10, 0],
        Action::Administrate => [11, 0],
        Action::Stall => [12, 0],
        Action::Restart => [18, 0],
        Action::Redis(number) => [20, number.into()],
        Action::RedisDelivers(number) => [21, number.into()],
        Action::RedisFault => [22, 0],
        Action::RedisRecovers => [23, 0],
        Action::Replace { server } => [19, server.into()],
        Action::EndStage(stage) => [13, stage as u64],
    }
}
