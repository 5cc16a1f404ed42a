//! The Lua scripts and their arguments. Each script is described in its own file.

use std::sync::Arc;
use std::time::Duration;

use encke_core::message::Content;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, cmd};

use super::generation::RedisGeneration;
use super::keys::{ChannelKeys, SessionKeys};
use super::message::encode;
use crate::channel::{ChannelName, MAX_JOINS_AND_LEAVES, MAX_PUBLISH_IDS, Namespaces};

/// Prefix of all scripts that concern channels.
const EPOCH: &str = include_str!("scripts/epoch.lua");
/// Prefix of the scripts that must not have an effect in an unknown generation.
const SAME_REDIS: &str = include_str!("scripts/same_redis.lua");
const PUBLISH: &str = include_str!("scripts/publish.lua");
const OPEN: &str = include_str!("scripts/open.lua");
const GENERATION: &str = include_str!("scripts/generation.lua");
const SERVERS: &str = include_str!("scripts/servers.lua");
const USERS: &str = include_str!("scripts/users.lua");
const SESSION: &str = include_str!("scripts/session.lua");
const LEASE: &str = include_str!("scripts/lease.lua");

/// Divisor for the extra lifetime of a log, which is 1/8 of the required lifetime. Because of the extra
/// lifetime, not every message has to renew the expiry.
const EXTRA_LIFETIME_DIVISOR: u128 = 8;

/// How much longer the metadata of an unused channel is kept than its log.
const EXTRA_META_LIFETIME_MS: u128 = 60 * 60 * 1000;

/// Hashes of the scripts loaded into a Redis server.
#[derive(Debug)]
pub(super) struct Scripts {
    publish: String,
    open: String,
    generation: String,
    servers: String,
    users: String,
    session: String,
    lease: String,
    namespaces: Arc<Namespaces>,
}

/// Lifetimes in milliseconds; 0: unlimited.
#[derive(Clone, Copy, Debug, Default)]
struct LifetimesMs {
    /// Minimum lifetime of a log, and lifetime of publish ids.
    age: u64,
    /// Lifetime of a log after the last publish.
    log: u64,
    /// Lifetime of a channel's metadata after the last publish, subscribe or read.
    meta: u64,
}

impl LifetimesMs {
    fn of(age: Option<Duration>) -> Self {
        let Some(age) = age else { return Self::default() };
        let age = age.as_millis();
        let log = age + age / EXTRA_LIFETIME_DIVISOR;
        let [age, log, meta] =
            [age, log, log + EXTRA_META_LIFETIME_MS].map(|ms| u64::try_from(ms).unwrap_or(u64::MAX));
        Self { age, log, meta }
    }
}

impl Scripts {
    /// Loads the scripts into Redis.
    pub(super) async fn load(
        connection: &mut MultiplexedConnection,
        namespaces: &Arc<Namespaces>,
    ) -> RedisResult<Self> {
        let mut load = async |script: String| -> RedisResult<String> {
            cmd("SCRIPT").arg("LOAD").arg(script).query_async(connection).await
        };
        Ok(Self {
            publish: load(format!("{EPOCH}\n{SAME_REDIS}\n{PUBLISH}")).await?,
            open: load(format!("{EPOCH}\n{OPEN}")).await?,
            generation: load(GENERATION.to_owned()).await?,
            servers: load(SERVERS.to_owned()).await?,
            users: load(USERS.to_owned()).await?,
            session: load(format!("{SAME_REDIS}\n{SESSION}")).await?,
            lease: load(format!("{SAME_REDIS}\n{LEASE}")).await?,
            namespaces: Arc::clone(namespaces),
        })
    }

    fn lifetimes_ms(&self, channel: &ChannelName) -> LifetimesMs {
        LifetimesMs::of(self.namespaces.rules_of(channel.as_str()).log.age)
    }

    /// Returns the command for a publish. For a publish with an id, `once` is the Redis key of the known ids
    /// and the digest of this one.
    pub(super) fn publish(
        &self,
        (channel, keys): (&ChannelName, &ChannelKeys),
        content: &Content<'_>,
        new_epoch: &str,
        generation: &RedisGeneration,
        once: Option<&(String, String)>,
    ) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.publish).arg(if once.is_some() { 3 } else { 2 }).arg(&keys.meta).arg(&keys.log);
        if let Some((known, _)) = once {
            call.arg(known);
        }
        let rules = self.namespaces.rules_of(channel.as_str());
        let lifetimes_ms = LifetimesMs::of(rules.log.age);
        // Redis does not distinguish joins and leaves from other messages.
        let joins_and_leaves = if rules.join_leave { MAX_JOINS_AND_LEAVES } else { 0 };
        call.arg(&*encode(content)).arg(rules.log.messages.saturating_add(joins_and_leaves));
        call.arg(lifetimes_ms.age).arg(lifetimes_ms.log).arg(lifetimes_ms.meta);
        call.arg(new_epoch).arg(generation.number).arg(&keys.feed);
        // User names are never empty, so an empty argument means an anonymous client.
        call.arg(content.user.as_deref().unwrap_or_default());
        if let Some((_, id)) = once {
            call.arg(id).arg(MAX_PUBLISH_IDS);
        }
        call.arg(&*generation.replication_id);
        call
    }

    pub(super) fn open(
        &self,
        (channel, keys): (&ChannelName, &ChannelKeys),
        new_epoch: &str,
        generation: u64,
    ) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.open).arg(2).arg(&keys.meta).arg(&keys.log);
        call.arg(self.lifetimes_ms(channel).meta).arg(new_epoch).arg(generation);
        call
    }

    /// Returns the commands that check a channel without a script. They return its epoch, the offset of its
    /// newest message and the generation in which the epoch started. They also renew the expiry of the
    /// metadata, like opening the channel.
    pub(super) fn check(&self, channel: &ChannelName, keys: &ChannelKeys) -> Vec<Cmd> {
        let mut read = cmd("HMGET");
        read.arg(&keys.meta).arg("epoch").arg("offset").arg("life");
        let mut commands = vec![read];
        let meta_ms = self.lifetimes_ms(channel).meta;
        if meta_ms != 0 {
            let mut keep = cmd("PEXPIRE");
            keep.arg(&keys.meta).arg(meta_ms);
            commands.push(keep);
        }
        commands
    }

    pub(super) fn servers(&self, key: &str, server: &str, lease_ms: &str, feed: &str, query: &str) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.servers).arg(1).arg(key).arg(server).arg(lease_ms).arg(feed).arg(query);
        call
    }

    pub(super) fn users(&self, keys: &[String], arguments: &[String]) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.users).arg(keys.len()).arg(keys).arg(arguments);
        call
    }

    /// Returns a call for the session with this record. The caller adds the arguments, of which the last is the
    /// replication id.
    pub(super) fn session(&self, record: &str, keys: &SessionKeys) -> Cmd {
        let SessionKeys { of, ended, leases, since } = keys;
        let mut call = cmd("EVALSHA");
        call.arg(&self.session).arg(5).arg(record).arg(of).arg(ended).arg(leases).arg(since);
        call
    }

    /// Returns a call for a server's lease. The caller adds the arguments, of which the last is the replication
    /// id.
    pub(super) fn lease(&self, keys: &SessionKeys) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.lease).arg(3).arg(&keys.leases).arg(&keys.since).arg(&keys.of);
        call
    }

    pub(super) fn generation(&self, key: &str, replication_id: &str) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.generation).arg(1).arg(key).arg(replication_id);
        call
    }
}
