//! Scheduling of Redis: its commands, its pushes, and its faults.

use rand::RngExt;

use super::Simulation;
use crate::fault::Fault;
use crate::redis::{Redis, RedisConnection};
use crate::scenario::{MILLI, SECOND};
use crate::schedule::Action;
use crate::truth::{MAX_CHANNELS, START_MS, name_of};

impl Simulation {
    pub(crate) fn redis(&self) -> Option<&Redis> {
        self.inputs.redis.as_ref()
    }

    /// Returns whether Redis has this message of a log, or had it and has only trimmed it.
    pub(crate) fn is_in_redis(&self, log: usize, epoch: &str, offset: u64) -> bool {
        let present = self.redis().and_then(|redis| redis.lock().state_of(name_of(log)));
        present.is_some_and(|(current, last)| current == epoch && offset <= last)
    }

    /// Plans the processing of new bytes between servers and Redis.
    pub(super) fn plan_redis_work(&mut self) {
        let Some(redis) = &self.inputs.redis else { return };
        let mut redis = redis.lock();
        redis.set_time(START_MS + self.now / MILLI);
        let changed = std::mem::take(&mut *redis.network.changed.lock());
        drop(redis);
        for connection in changed {
            for is_work in [true, false] {
                if !self.redis_planned.insert((connection, is_work)) {
                    continue;
                }
                let action =
                    if is_work { Action::Redis(connection) } else { Action::RedisDelivers(connection) };
                if self.is_late(Fault::LateEngine) {
                    // Sometimes exceed every timeout for a response.
                    let longest = if self.rng.random_bool(0.05) { 6 * SECOND } else { SECOND };
                    self.plan_within(longest, action);
                } else {
                    self.ready.push(action);
                }
            }
        }
    }

    pub(super) fn run_redis_commands(&mut self, connection: RedisConnection) {
        self.redis_planned.remove(&(connection, true));
        let Some(redis) = &self.inputs.redis else { return };
        let executed = redis.lock().work(connection);
        match executed {
            Ok(done) => self.trace.mix(done),
            Err(what) => self.violate("Redis", format!("connection {connection}: {what}")),
        }
        (0..MAX_CHANNELS).for_each(|channel| self.record_published(channel));
    }

    pub(super) fn deliver_from_redis(&mut self, connection: RedisConnection) {
        self.redis_planned.remove(&(connection, false));
        if let Some(redis) = &self.inputs.redis {
            redis.lock().deliver(connection);
        }
    }

    pub(super) fn inject_redis_fault(&mut self) {
        let faults = self.faults_now();

        let Some(redis) = &self.inputs.redis else { return };
        let allowed: Vec<Fault> = Fault::OF_REDIS.iter().copied().filter(|it| faults.allows(*it)).collect();
        if let Some(&fault) = allowed.get(self.rng.random_range(0..allowed.len().max(1))) {
            self.totals.faults.count(fault);
            self.trace.log(self.now, format_args!("{fault:?}"));
            let mut redis = redis.lock();
            match fault {
                Fault::RedisDown => {
                    redis.is_down = true;
                    redis.cut();
                    let until = self.now + self.rng.random_range(0..20 * SECOND);
                    self.schedule.plan(until, Action::RedisRecovers);
                }
                Fault::RedisRestarted => redis.restart(),
                Fault::RedisSilent => redis.silence_all(),
                Fault::RedisLostPush => redis.pushes_to_lose = self.rng.random_range(1..4),
                Fault::RedisEmptied => {
                    redis.empty();
                    self.truth.losses += 1;
                }
                Fault::RedisFailover => {
                    redis.fail_over(|| self.rng.random_range(0..6));
                    self.truth.losses += 1;
                }
                _ => redis.cut(),
            }
        }
        self.plan_within(self.scenario.length / 12, Action::RedisFault);
    }

    pub(super) fn recover_redis(&mut self) {
        if let Some(redis) = &self.inputs.redis {
            let mut redis = redis.lock();
            (redis.pushes_to_lose, redis.is_down) = (0, false);
        }
    }

    /// Checks that every log with subscribers has the same state as in Redis.
    pub(super) fn check_logs_match_redis(&mut self) {
        let Some(redis) = &self.inputs.redis else { return };
        for channel in self.server.channels().into_iter().filter(|channel| channel.subscribers > 0) {
            let there = redis.lock().state_of(&channel.name);
            if there != Some((channel.epoch.clone(), channel.last)) {
                return self.violate("progress", format!("{channel:?}, but Redis has {there:?}"));
            }
        }
    }
}
