//! The scripts, and what they are called with. Each file says what its script does.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, cmd};

use super::keys::ChannelKeys;
use super::settings::RedisSettings;

/// Comes before those that concern channels.
const EPOCH: &str = include_str!("scripts/epoch.lua");
const PUBLISH: &str = include_str!("scripts/publish.lua");
const OPEN: &str = include_str!("scripts/open.lua");
const LIFE: &str = include_str!("scripts/life.lua");

/// A channel that nobody publishes to, follows or reads is remembered for so much longer than its newest message.
const META_KEPT_LONGER_MS: u128 = 60 * 60 * 1000;

/// Scripts that a Redis has, by what it calls them.
#[derive(Debug)]
pub(super) struct Scripts {
    publish: String,
    open: String,
    life: String,
    most_messages: usize,
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
        let kept_ms = |longer| settings.history_age.map_or(0, |age| age.as_millis() + longer).to_string();
        Ok(Self {
            publish: load(format!("{EPOCH}\n{PUBLISH}")).await?,
            open: load(format!("{EPOCH}\n{OPEN}")).await?,
            life: load(LIFE.to_owned()).await?,
            most_messages: settings.history_messages,
            log_kept_ms: kept_ms(0),
            meta_kept_ms: kept_ms(META_KEPT_LONGER_MS),
        })
    }

    pub(super) fn publish(&self, keys: &ChannelKeys, data: &str, new_epoch: &str, life: u64) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.publish).arg(2).arg(&keys.meta).arg(&keys.log);
        call.arg(data).arg(self.most_messages).arg(&self.log_kept_ms).arg(&self.meta_kept_ms);
        call.arg(new_epoch).arg(life).arg(&keys.feed);
        call
    }

    pub(super) fn open(&self, keys: &ChannelKeys, new_epoch: &str, life: u64) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.open).arg(2).arg(&keys.meta).arg(&keys.log);
        call.arg(&self.meta_kept_ms).arg(new_epoch).arg(life);
        call
    }

    pub(super) fn life(&self, key: &str, replication_id: &str) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.life).arg(1).arg(key).arg(replication_id);
        call
    }
}
