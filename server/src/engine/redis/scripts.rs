//! The scripts, and what they are called with. Each file says what its script does.

use encke_core::message::Content;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, cmd};

use super::keys::ChannelKeys;
use super::link::RedisLife;
use super::settings::RedisSettings;
use crate::channel::MOST_KEYS;

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
    most_messages: usize,
    age_ms: String,
    log_kept_ms: String,
    meta_kept_ms: String,
}

impl Scripts {
    /// Gives them to a Redis.
    pub(super) async fn load(
        connection: &mut MultiplexedConnection,
        settings: &RedisSettings,
    ) -> RedisResult<Self> {
        let mut load = async |script: String| -> RedisResult<String> {
            cmd("SCRIPT").arg("LOAD").arg(script).query_async(connection).await
        };
        let age_ms = settings.history_age.map(|age| age.as_millis());
        let log_kept_ms = age_ms.map(|age| age + age / KEPT_LONGER);
        let meta_kept_ms = log_kept_ms.map(|kept| kept + META_KEPT_LONGER_MS);
        let argument = |ms: Option<u128>| ms.unwrap_or(0).to_string();
        Ok(Self {
            publish: load(format!("{EPOCH}\n{SAME}\n{PUBLISH}")).await?,
            open: load(format!("{EPOCH}\n{OPEN}")).await?,
            life: load(LIFE.to_owned()).await?,
            servers: load(SERVERS.to_owned()).await?,
            most_messages: settings.history_messages,
            age_ms: argument(age_ms),
            log_kept_ms: argument(log_kept_ms),
            meta_kept_ms: argument(meta_kept_ms),
        })
    }

    /// `once` is for a publish that has a key: where those are known, and what stands for it.
    pub(super) fn publish(
        &self,
        keys: &ChannelKeys,
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
        call.arg(content.data.as_str()).arg(self.most_messages);
        call.arg(&self.age_ms).arg(&self.log_kept_ms).arg(&self.meta_kept_ms);
        call.arg(new_epoch).arg(life.number).arg(&keys.feed);
        // A name is never empty.
        call.arg(content.user.as_deref().unwrap_or_default());
        if let Some((_, id)) = once {
            call.arg(id).arg(MOST_KEYS);
        }
        call.arg(&*life.replication_id);
        call
    }

    pub(super) fn open(&self, keys: &ChannelKeys, new_epoch: &str, life: u64) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.open).arg(2).arg(&keys.meta).arg(&keys.log);
        call.arg(&self.meta_kept_ms).arg(new_epoch).arg(life);
        call
    }

    /// Without a script: the epoch of a channel, the number of its newest message, and the life in which the epoch began. Its meta key is
    /// kept, as by opening it.
    pub(super) fn check(&self, keys: &ChannelKeys) -> Vec<Cmd> {
        let mut read = cmd("HMGET");
        read.arg(&keys.meta).arg("epoch").arg("offset").arg("life");
        let mut commands = vec![read];
        if self.meta_kept_ms != "0" {
            let mut keep = cmd("PEXPIRE");
            keep.arg(&keys.meta).arg(&self.meta_kept_ms);
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
