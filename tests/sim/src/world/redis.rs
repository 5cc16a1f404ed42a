//! Redis, where a scenario has one: what moves to it and from it, and what goes wrong with it.

use std::collections::BTreeSet;

use rand::RngExt;
use rand::rngs::SmallRng;

use super::World;
use crate::fault::Fault;
use crate::redis::{Redis, RedisConnection};
use crate::scenario::{MILLI, SECOND, Scenario, nanos};
use crate::schedule::Action;
use crate::truth::{MOST_CHANNELS, START_MS};

/// The Redis that all servers of a scenario share.
#[derive(Debug)]
pub(super) struct TheRedis {
    pub(super) redis: Redis,
    rng: SmallRng,
    /// Connections on which work, or the arrival of answers, is planned.
    planned: BTreeSet<(RedisConnection, bool)>,
}

impl TheRedis {
    pub(super) fn of(scenario: &Scenario) -> Option<Self> {
        let log = &scenario.config.channel.log;
        let age_ms = log.age.map(|age| nanos(age) / MILLI);
        let redis = scenario.redis.then(|| Redis::new(log.messages, age_ms))?;
        Some(Self { redis, rng: scenario.rng(6), planned: BTreeSet::new() })
    }
}

impl World {
    /// What servers and Redis have said sets out.
    pub(super) fn hear_redis(&mut self) {
        let Some(it) = &mut self.redis else { return };
        it.redis.pass_to(START_MS + self.now / MILLI);
        let late_per_mille =
            if self.faults_now().allows(Fault::LateEngine) { self.scenario.late_per_mille } else { 0 };
        let Some(it) = &mut self.redis else { return };
        let mut late = 0;
        for number in it.redis.take_news() {
            for is_work in [true, false] {
                if !it.planned.insert((number, is_work)) {
                    continue;
                }
                let action = if is_work { Action::Redis(number) } else { Action::RedisSays(number) };
                if it.rng.random_ratio(late_per_mille, 1000) {
                    late += 1;
                    // Longer than anyone waits for an answer.
                    let longest = if it.rng.random_bool(0.05) { 6 * SECOND } else { SECOND };
                    self.schedule.plan(self.now + it.rng.random_range(0..longest), action);
                } else {
                    self.ready.push(action);
                }
            }
        }
        (0..late).for_each(|_| self.fault_counts.count(Fault::LateEngine));
    }

    /// Redis does what it was asked.
    pub(super) fn redis_works(&mut self, number: RedisConnection) {
        let Some(it) = &mut self.redis else { return };
        it.planned.remove(&(number, true));
        match it.redis.work(number) {
            Ok(done) => self.trace.note(&[done.into()]),
            Err(what) => self.violate("Redis", format!("connection {number}: {what}")),
        }
        self.look_at_redis();
    }

    /// What Redis has said arrives.
    pub(super) fn redis_says(&mut self, number: RedisConnection) {
        let Some(it) = &mut self.redis else { return };
        it.planned.remove(&(number, false));
        it.redis.deliver(number);
    }

    pub(super) fn look_at_redis(&mut self) {
        (0..MOST_CHANNELS).for_each(|channel| self.look_at_log(channel));
    }

    pub(super) fn plan_trouble_with_redis(&mut self) {
        if let Some(it) = &mut self.redis {
            let wait = it.rng.random_range(0..self.scenario.length / 8);
            self.schedule.plan(self.now + wait, Action::TroubleWithRedis);
        }
    }

    pub(super) fn trouble_with_redis(&mut self) {
        let faults = self.faults_now();
        let Some(it) = &mut self.redis else { return };
        let TheRedis { redis, rng, .. } = it;
        let allowed: Vec<Fault> = Fault::OF_REDIS.iter().copied().filter(|it| faults.allows(*it)).collect();
        if let Some(&fault) = allowed.get(rng.random_range(0..allowed.len().max(1))) {
            self.fault_counts.count(fault);
            self.trace.say(self.now, format_args!("{fault:?}"));
            match fault {
                Fault::RedisDown => {
                    redis.set_down(true);
                    let until = self.now + rng.random_range(0..20 * SECOND);
                    self.schedule.plan(until, Action::RedisIsBack);
                }
                Fault::RedisSilent => redis.silence_all(),
                Fault::RedisLostPush => redis.lose_pushes(rng.random_range(1..4)),
                Fault::RedisEmptied => redis.empty(),
                Fault::RedisFailover => redis.fail_over(|| rng.random_range(0..6)),
                _ => redis.cut(),
            }
        }
        self.plan_trouble_with_redis();
    }

    pub(super) fn redis_is_back(&mut self) {
        if let Some(it) = &self.redis {
            it.redis.lose_pushes(0);
            it.redis.set_down(false);
        }
    }

    /// Every log here that a session reads has all that Redis has.
    pub(super) fn check_followed(&mut self) {
        let Some(it) = &self.redis else { return };
        let behind = self.server.channels().into_iter().filter(|channel| channel.subscribers > 0).find_map(
            |channel| {
                let there = it.redis.state_of(&channel.name);
                let here = Some((channel.epoch.clone(), channel.last));
                (there != here).then(|| format!("{channel:?}, where Redis has {there:?}"))
            },
        );
        if let Some(what) = behind {
            self.violate("nothing waits for ever", what);
        }
    }
}
