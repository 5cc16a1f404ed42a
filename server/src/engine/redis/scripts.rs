//! The scripts, and what they are called with. Each file says what its script does.

use std::sync::Arc;
use std::time::Duration;

use encke_core::message::Content;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, cmd};

use super::keys::ChannelKeys;
use super::link::RedisLife;
use super::message::text_of;
use crate::channel::{ChannelName, MOST_KEYS, Namespaces};

/// Comes before those that concern channels.
const EPOCH: &str = include_str!("scripts/epoch.lua");
/// Comes before the one that publishes.
const SAME: &str = include_str!("scripts/same.lua");
const PUBLISH: &str = include_str!("scripts/publish.lua");
const OPEN: &str = include_str!("scripts/open.lua");
const LIFE: &str = include_str!("scripts/life.lua");
const SERVERS: &str = include_str!("scripts/servers.lua");

/// A log is kept for this part of its age longer than it must be, so that not every message has to say it.
const KEPT_LONGER: u128 = 8;

/// A channel that nobody publishes to, follows or reads is remembered for so much longer than its log.
const META_KEPT_LONGER_MS: u128 = 60 * 60 * 1000;

/// Scripts that a Redis has, by what it calls them.
#[derive(Debug)]
pub(super) struct Scripts {
    publish: String,
    open: String,
    life: String,
    servers: String,
    namespaces: Arc<Namespaces>,
}

/// For how long something is kept, in milliseconds; 0: for ever.
#[derive(Clone, Copy, Debug, Default)]
struct KeptMs {
    /// A log, at least, and what is known of publishes with keys.
    age: u64,
    /// A log that nobody publishes to.
    log: u64,
    /// What is known of a channel that nobody publishes to, follows or reads.
    meta: u64,
}

impl KeptMs {
    fn of(age: Option<Duration>) -> Self {
        let Some(age) = age else { return Self::default() };
        let age = age.as_millis();
        let log = age + age / KEPT_LONGER;
        let [age, log, meta] =
            [age, log, log + META_KEPT_LONGER_MS].map(|ms| u64::try_from(ms).unwrap_or(u64::MAX));
        Self { age, log, meta }
    }
}

impl Scripts {
    /// Gives them to a Redis.
    pub(super) async fn load(
        connection: &mut MultiplexedConnection,
        namespaces: &Arc<Namespaces>,
    ) -> RedisResult<Self> {
        let mut load = async |script: String| -> RedisResult<String> {
            cmd("SCRIPT").arg("LOAD").arg(script).query_async(connection).await
        };
        Ok(Self {
            publish: load(format!("{EPOCH}\n{SAME}\n{PUBLISH}")).await?,
            open: load(format!("{EPOCH}\n{OPEN}")).await?,
            life: load(LIFE.to_owned()).await?,
            servers: load(SERVERS.to_owned()).await?,
            namespaces: Arc::clone(namespaces),
        })
    }

    fn kept_ms(&self, channel: &ChannelName) -> KeptMs {
        KeptMs::of(self.namespaces.rules_of(channel.as_str()).log.age)
    }

    /// `once` is for a publish that has a key: where those are known, and what stands for it.
    pub(super) fn publish(
        &self,
        (channel, keys): (&ChannelName, &ChannelKeys),
        content: &Content<'_>,
        new_epoch: &str,
        life: &RedisLife,
        once: Option<&(String, String)>,
    ) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.publish).arg(if once.is_some() { 3 } else { 2 }).arg(&keys.meta).arg(&keys.log);
        if let Some((known, _)) = once {
            call.arg(known);
        }
        let limits = &self.namespaces.rules_of(channel.as_str()).log;
        let kept_ms = KeptMs::of(limits.age);
        call.arg(&*text_of(content)).arg(limits.messages);
        call.arg(kept_ms.age).arg(kept_ms.log).arg(kept_ms.meta);
        call.arg(new_epoch).arg(life.number).arg(&keys.feed);
        // A name is never empty.
        call.arg(content.user.as_deref().unwrap_or_default());
        if let Some((_, id)) = once {
            call.arg(id).arg(MOST_KEYS);
        }
        call.arg(&*life.replication_id);
        call
    }

    pub(super) fn open(
        &self,
        (channel, keys): (&ChannelName, &ChannelKeys),
        new_epoch: &str,
        life: u64,
    ) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.open).arg(2).arg(&keys.meta).arg(&keys.log);
        call.arg(self.kept_ms(channel).meta).arg(new_epoch).arg(life);
        call
    }

    /// Without a script: the epoch of a channel, the number of its newest message, and the life in which the epoch began. Its meta key is
    /// kept, as by opening it.
    pub(super) fn check(&self, channel: &ChannelName, keys: &ChannelKeys) -> Vec<Cmd> {
        let mut read = cmd("HMGET");
        read.arg(&keys.meta).arg("epoch").arg("offset").arg("life");
        let mut commands = vec![read];
        let meta_ms = self.kept_ms(channel).meta;
        if meta_ms != 0 {
            let mut keep = cmd("PEXPIRE");
            keep.arg(&keys.meta).arg(meta_ms);
            commands.push(keep);
        }
        commands
    }

    pub(super) fn servers(&self, key: &str, server: &str, lease_ms: &str, feed: &str, question: &str) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.servers).arg(1).arg(key).arg(server).arg(lease_ms).arg(feed).arg(question);
        call
    }

    pub(super) fn life(&self, key: &str, replication_id: &str) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.life).arg(1).arg(key).arg(replication_id);
        call
    }
}
