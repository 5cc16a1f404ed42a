//! Scheduling of Redis: its commands, its pushes, and its faults.

use std::collections::BTreeSet;

use rand::RngExt;
use rand::rngs::SmallRng;

use super::Simulation;
use crate::fault::Fault;
use crate::redis::{Redis, RedisConnection};
use crate::scenario::{MILLI, SECOND, Scenario, nanos};
use crate::schedule::Action;
use crate::truth::{MAX_CHANNELS, START_MS};

/// The Redis shared by all servers of a run.
#[derive(Debug)]
pub(super) struct ScheduledRedis {
    pub(super) redis: Redis,
    rng: SmallRng,
    /// Connections with a planned action: execution of commands (`true`) or delivery of answers (`false`).
    planned: BTreeSet<(RedisConnection, bool)>,
}

impl ScheduledRedis {
    pub(super) fn of(scenario: &Scenario) -> Option<Self> {
        let log = &scenario.config.channel.log;
        let age_ms = log.age.map(|age| nanos(age) / MILLI);
        let redis = scenario.redis.then(|| Redis::new(log.messages, age_ms))?;
        Some(Self { redis, rng: scenario.rng(6), planned: BTreeSet::new() })
    }
}

impl Simulation {
    /// Plans the processing of new bytes between servers and Redis.
    pub(super) fn plan_redis_work(&mut self) {
        let Some(it) = &mut self.redis else { return };
        it.redis.set_time(START_MS + self.now / MILLI);
        let late_per_mille =
            if self.faults_now().allows(Fault::LateEngine) { self.scenario.late_per_mille } else { 0 };
        let Some(it) = &mut self.redis else { return };
        let mut late = 0;
        for number in it.redis.take_changed() {
            for is_work in [true, false] {
                if !it.planned.insert((number, is_work)) {
                    continue;
                }
                let action = if is_work { Action::Redis(number) } else { Action::RedisDelivers(number) };
                if it.rng.random_ratio(late_per_mille, 1000) {
                    late += 1;
                    // Sometimes exceed every timeout for a response.
                    let longest = if it.rng.random_bool(0.05) { 6 * SECOND } else { SECOND };
                    self.schedule.plan(self.now + it.rng.random_range(0..longest), action);
                } else {
                    self.ready.push(action);
                }
            }
        }
        (0..late).for_each(|_| self.fault_counts.count(Fault::LateEngine));
    }

    /// Executes the commands received on a connection.
    pub(super) fn run_redis_commands(&mut self, number: RedisConnection) {
        let Some(it) = &mut self.redis else { return };
        it.planned.remove(&(number, true));
        match it.redis.work(number) {
            Ok(done) => self.trace.mix(&[done.into()]),
            Err(what) => self.violate("Redis", format!("connection {number}: {what}")),
        }
        self.record_published_in_redis();
    }

    /// Delivers the bytes sent by Redis on a connection.
    pub(super) fn deliver_from_redis(&mut self, number: RedisConnection) {
        let Some(it) = &mut self.redis else { return };
        it.planned.remove(&(number, false));
        it.redis.deliver(number);
    }

    pub(super) fn record_published_in_redis(&mut self) {
        (0..MAX_CHANNELS).for_each(|channel| self.record_published(channel));
    }

    pub(super) fn plan_redis_fault(&mut self) {
        if let Some(it) = &mut self.redis {
            let wait = it.rng.random_range(0..self.scenario.length / 8);
            self.schedule.plan(self.now + wait, Action::RedisFault);
        }
    }

    pub(super) fn inject_redis_fault(&mut self) {
        let faults = self.faults_now();
        let Some(it) = &mut self.redis else { return };
        let ScheduledRedis { redis, rng, .. } = it;
        let allowed: Vec<Fault> = Fault::OF_REDIS.iter().copied().filter(|it| faults.allows(*it)).collect();
        if let Some(&fault) = allowed.get(rng.random_range(0..allowed.len().max(1))) {
            self.fault_counts.count(fault);
            self.trace.log(self.now, format_args!("{fault:?}"));
            match fault {
                Fault::RedisDown => {
                    redis.set_down(true);
                    let until = self.now + rng.random_range(0..20 * SECOND);
                    self.schedule.plan(until, Action::RedisRecovers);
                }
                Fault::RedisSilent => redis.silence_all(),
                Fault::RedisLostPush => redis.lose_pushes(rng.random_range(1..4)),
                Fault::RedisEmptied => redis.empty(),
                Fault::RedisFailover => redis.fail_over(|| rng.random_range(0..6)),
                _ => redis.cut(),
            }
        }
        self.plan_redis_fault();
    }

    pub(super) fn recover_redis(&mut self) {
        if let Some(it) = &self.redis {
            it.redis.lose_pushes(0);
            it.redis.set_down(false);
        }
    }

    /// Checks that every log with subscribers has the same state as in Redis.
    pub(super) fn check_logs_match_redis(&mut self) {
        let Some(it) = &self.redis else { return };
        let behind = self.server.channels().into_iter().filter(|channel| channel.subscribers > 0).find_map(
            |channel| {
                let there = it.redis.state_of(&channel.name);
                let here = Some((channel.epoch.clone(), channel.last));
                (there != here).then(|| format!("{channel:?}, but Redis has {there:?}"))
            },
        );
        if let Some(what) = behind {
            self.violate("progress", what);
        }
    }
}
