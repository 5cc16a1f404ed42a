//! One step: one of the things that can happen now happens, or time goes on to the next that will.

use std::sync::atomic::Ordering;

use rand::RngExt;

use super::{Served, World};
use crate::fault::Fault;
use crate::scenario::{MILLI, nanos};
use crate::schedule::{Action, Stage, Way};
use crate::tasks::Polled;
use crate::truth::{LOGS, MOST_CHANNELS, channel_name, text_of};

impl World {
    pub(super) fn step(&mut self) {
        while let Some((action, was_put_off)) = self.schedule.take_due(self.now) {
            if was_put_off {
                self.disturb(self.now);
            }
            self.ready.push(action);
        }
        if self.ready.is_empty() {
            self.check_when_quiet();
            return self.pass_to_next();
        }
        let index = self.rng.random_range(0..self.ready.len());
        let action = self.ready.swap_remove(index);
        self.steps += 1;
        let [what, which] = code(&action);
        self.trace.note(&[self.now, what, which]);
        self.carry_out(action);
        self.follow_up();
        if self.steps == self.scenario.calm_after_steps && self.is_busy() {
            self.end_stage(Stage::Busy);
            self.follow_up();
        }
        if self.faults_now().allows(Fault::SlowSteps) && self.rng.random_ratio(1, 50) {
            self.fault_counts.count(Fault::SlowSteps);
            let slow = self.rng.random_range(0..5 * MILLI);
            self.disturb(self.now + slow);
            self.pass(slow);
        }
    }

    /// Until then something may be late for a reason.
    pub(super) fn disturb(&mut self, until: u64) {
        self.disturbed_at = self.disturbed_at.max(until);
    }

    fn pass_to_next(&mut self) {
        match self.schedule.next_at() {
            Some(at) => self.pass(at - self.now),
            None => self.violate("nothing waits for ever", "nothing is planned, not even the wheel".into()),
        }
    }

    /// Time goes on.
    pub(super) fn pass(&mut self, nanos: u64) {
        self.session_nanos += u128::from(nanos) * self.lifecycles.alive() as u128;
        self.now += nanos;
        self.given.time.advance(std::time::Duration::from_nanos(nanos));
        self.tell_times();
    }

    pub(super) fn tell_times(&mut self) {
        self.times.monotonic.store(self.now, Ordering::Relaxed);
        self.times.served.store(self.server.now().as_nanos(), Ordering::Relaxed);
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Wheel { plan } => self.step_wheel(plan),
            Action::Work => {
                self.work_planned = false;
                self.trace.say(self.now, format_args!("a worker takes a batch"));
                self.server.work();
            }
            Action::Look => {
                self.look_planned = false;
                self.trace.say(self.now, format_args!("a connection at rest is looked at"));
                self.server.look();
            }
            Action::Poll(task) => {
                let polled = self.tasks.poll(task);
                if polled != Polled::Gone {
                    self.look_at_work_of(task.index, polled == Polled::Ended);
                }
            }
            Action::Move(connection, way) => self.carry(connection, way),
            Action::Act(client, plan) => {
                if self.is_busy() {
                    self.act(client, plan);
                } else if self.stage == Stage::Calm {
                    self.poll_on(client, plan);
                }
            }
            Action::Read(connection) => {
                if let Some(connection) = self.connection_mut(connection) {
                    connection.read_planned = false;
                }
                self.read(connection);
            }
            Action::Arrive(connection) => self.arrive(connection),
            Action::Command(post) => self.carry_out_commands(post),
            Action::Reply(post) => self.hear_answer(post),
            Action::LosePost(post) => self.lose_post(post),
            Action::Answer(connection, seq) => self.answer(connection, seq),
            Action::Publish => self.publish(),
            Action::Administrate => self.administrate(),
            Action::Stall => self.stall(),
            Action::Restart => self.restart(),
            Action::Redis(number) => self.redis_works(number),
            Action::RedisSays(number) => self.redis_says(number),
            Action::TroubleWithRedis => self.trouble_with_redis(),
            Action::RedisIsBack => self.redis_is_back(),
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
                // What has expired meanwhile waits for the next tick.
                self.disturb(self.now);
            }
            self.tell_times();
            return self.ready.push(Action::Wheel { plan });
        };
        let sleep = nanos(until.since(self.server.now()));
        let mut at = self.now + sleep;
        if self.is_late(Fault::LateWheel) {
            at += self.rng.random_range(0..self.scenario.latest);
            self.disturb(at);
        }
        self.schedule.plan(at, Action::Wheel { plan });
    }

    /// Whether the next thing that the server has to do is put off.
    fn is_late(&mut self, fault: Fault) -> bool {
        let is_late =
            self.faults_now().allows(fault) && self.rng.random_ratio(self.scenario.late_per_mille, 1000);
        if is_late {
            self.fault_counts.count(fault);
        }
        is_late
    }

    fn now_or_late(&mut self, action: Action, fault: Fault) {
        if self.is_late(fault) {
            let at = self.now + self.rng.random_range(0..self.scenario.latest);
            self.schedule.put_off(at, action);
        } else {
            self.ready.push(action);
        }
    }

    /// What the last action has set off.
    fn follow_up(&mut self) {
        self.look_at_those_that_ended_at_rest();
        self.hear_events();
        for _ in 0..self.given.engine_delays.take_drawn() {
            self.fault_counts.count(Fault::LateEngine);
        }
        if self.given.wheel_woken.0.swap(false, Ordering::Relaxed) {
            self.wheel_plan = self.wheel_plan.wrapping_add(1);
            // Awake or asleep, it goes on with its loop; a turn that was planned is void.
            self.ready.retain(|action| !matches!(action, Action::Wheel { .. }));
            self.now_or_late(Action::Wheel { plan: self.wheel_plan }, Fault::LateWheel);
        }
        if !self.work_planned && self.server.batches() > 0 {
            self.work_planned = true;
            self.now_or_late(Action::Work, Fault::LateWorker);
        }
        if !self.look_planned && self.server.has_to_read() {
            self.look_planned = true;
            self.now_or_late(Action::Look, Fault::LateTask);
        }
        self.hear_of_held();
        self.hear_redis();
        loop {
            let answered = self.answers.lock().pop();
            let Some((post, answer)) = answered else { break };
            self.answer_post(post, answer);
        }
        for (task, connection) in self.tasks.take_spawned() {
            self.now_serves(task, connection.map(Served::Connection));
            if let Some(connection) = connection.and_then(|number| self.connection_mut(number)) {
                connection.task = Some(task);
            }
        }
        let mut woken = std::mem::take(&mut self.woken);
        self.tasks.take_woken(&mut woken);
        for task in woken.drain(..) {
            self.now_or_late(Action::Poll(task), Fault::LateTask);
        }
        self.woken = woken;
        loop {
            let number = self.news.lock().pop();
            let Some(number) = number else { break };
            self.consider(number);
        }
    }

    fn look_at_those_that_ended_at_rest(&mut self) {
        let ended = std::mem::take(&mut self.tasks.at_rest.lock().ended);
        for number in ended {
            self.look_at_poll(number, true);
        }
    }

    fn look_at_work_of(&mut self, task: u32, has_ended: bool) {
        let bits = match self.served_by.get(task as usize).copied().flatten() {
            None => return,
            Some(Served::Connection(number)) => {
                self.look_at_poll(number, has_ended);
                self.connection(number).map_or(0, |connection| connection.published_to)
            }
            Some(Served::Post(number)) => self.post_of(number).map_or(0, |post| post.published_to),
        };
        for channel in (0..self.scenario.channels).filter(|channel| bits & 1 << channel != 0) {
            self.look_at(channel);
        }
    }

    /// Something may have been published on a channel, and so to patterns.
    fn look_at(&mut self, channel: u8) {
        self.look_at_log(channel);
        (MOST_CHANNELS..LOGS).for_each(|pattern| self.look_at_log(pattern));
    }

    pub(crate) fn look_at_log(&mut self, channel: u8) {
        let looked = match &self.redis {
            None => self.truth.look(channel, &self.server),
            Some(it) => self.truth.look(channel, &it.redis),
        };
        match looked {
            Ok(0) => {}
            Ok(fresh) => {
                self.published += if channel < MOST_CHANNELS { fresh } else { 0 };
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
            let length = self.rng.random_range(0..self.scenario.longest_message);
            let text = text_of(self.next_message(), length);
            // The limit of channels may be reached.
            let name = channel_name(channel);
            let result = match &self.redis {
                None => self.server.publish(&name, &text),
                // By another server.
                Some(it) if it.redis.is_there() => Ok(it.redis.publish(&name, &text)),
                Some(_) => Err("Redis is not there".to_owned()),
            };
            self.trace.say(self.now, format_args!("the API publishes on {channel}: {result:?}"));
            self.look_at(channel);
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
            for page in self.clients.iter_mut().filter_map(|client| client.bayeux.as_mut()?.page.as_mut()) {
                page.disconnected(session);
            }
            self.fault_counts.count(Fault::Admin);
            if self.rng.random_bool(0.7) {
                self.trace.say(self.now, format_args!("an administrator disconnects {session}"));
                self.server.disconnect(session);
            } else {
                self.trace.say(self.now, format_args!("an administrator ends {session}"));
                self.server.end(session);
            }
        }
        let wait = self.rng.random_range(0..self.scenario.pause * 4);
        self.schedule.plan(self.now + wait, Action::Administrate);
    }

    /// The whole server stands still, and then finds that time has passed.
    fn stall(&mut self) {
        if !self.faults_now().allows(Fault::Stall) {
            return;
        }
        self.fault_counts.count(Fault::Stall);
        let length = nanos(self.scenario.config.timers.stall_threshold) * self.rng.random_range(1..20);
        self.trace.say(self.now, format_args!("the server stalls for {} ms", length / MILLI));
        self.pass(length);
        self.disturb(self.now);
        let wait = self.rng.random_range(0..self.scenario.length / 4);
        self.schedule.plan(self.now + wait, Action::Stall);
    }
}

fn code(action: &Action) -> [u64; 2] {
    match *action {
        Action::Wheel { plan } => [1, plan.into()],
        Action::Work => [2, 0],
        Action::Look => [24, 0],
        Action::Poll(task) => [3, task.index.into()],
        Action::Move(connection, Way::ToServer) => [4, connection.into()],
        Action::Move(connection, Way::ToClient) => [5, connection.into()],
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
        Action::RedisSays(number) => [21, number.into()],
        Action::TroubleWithRedis => [22, 0],
        Action::RedisIsBack => [23, 0],
        Action::Replace { server } => [19, server.into()],
        Action::EndStage(stage) => [13, stage as u64],
    }
}
