//! Channels in Redis, shared by several servers.
//!
//! Redis owns the logs. A publish is one script ([`scripts`]), whose reply decides the result. One task
//! ([`feed`]) subscribes to the channels that local sessions subscribe to. It keeps a log of each channel in
//! this process, which all local sessions read: a message is transferred once per server, regardless of the
//! number of subscribers. If the task receives a message out of order, it reads the missing ones; those that
//! cannot be retrieved become a gap, as in any log.
//!
//! While Redis is unreachable, publishes fail immediately, sessions stay open, and the messages they miss are
//! read afterwards. All deadlines are on the server's own timing wheel.

mod address;
mod channel_subscription;
mod client;
mod command_connections;
mod connection;
mod detached_request;
mod errors;
mod feed;
mod generation;
mod history;
mod keys;
mod live_connection;
mod message;
mod opened_log;
mod opening;
mod pattern_subscriptions;
mod presence;
mod probe;
mod pushes;
mod reply_limit;
mod restored;
mod scripts;
mod sentinel;
mod sessions;
mod settings;
#[cfg(feature = "simulation")]
mod simulated;
mod tls;
mod users;

use std::sync::Arc;
use std::time::Duration;

use encke_base::entropy::Entropy;
use encke_base::executor::Executor;
use encke_base::locks::Mutex;
use encke_base::quota::QuotaOwner;
use encke_core::dialect::Since;
use encke_core::message::Content;
use encke_timeouts::Timeouts;
use tokio::sync::oneshot;

use crate::channel::{
    Channel, ChannelGuard, ChannelName, Channels, HistoryLimit, HistoryPart, PublishId, Published, Subscriber,
};
use crate::engine::directory::SessionDirectory;
use crate::engine::error::EngineError;
use crate::engine::log_engine::{History, LogEngine};
use crate::engine::presence::Presence;
use crate::engine::response::EngineResponse;

pub use address::RedisAddress;
use client::RedisClient;
pub use client::RedisHealth;
pub use errors::EvictsKeys;
use feed::FeedTask;
pub use reply_limit::max_reply_bytes;
use sessions::RedisDirectory;
pub use settings::{RedisLocation, RedisSettings, Sentinels};
#[cfg(feature = "simulation")]
pub use simulated::{SimulatedRedis, Stream};
pub use tls::RedisTls;
pub use users::{SharedUsers, UserEvent, UserEventSink};

/// Engine for channels in Redis.
#[derive(Debug)]
pub struct RedisEngine<S: Subscriber> {
    client: Arc<RedisClient<S>>,
    /// Passes restored channels to the task, which waits for them before it connects.
    restored: Mutex<Option<oneshot::Sender<Vec<ChannelGuard<S>>>>>,
}

impl<S: Subscriber> RedisEngine<S> {
    /// Starts the task, which connects once it has received the restored channels
    /// ([`LogEngine::adopt_restored`]) and runs until the server shuts down. `sessions` is the reconnect window of
    /// sessions if the servers share them.
    pub fn start(
        settings: RedisSettings,
        channels: Arc<Channels<S>>,
        timeouts: Arc<Timeouts>,
        entropy: Entropy,
        executor: &Arc<dyn Executor>,
        users: Option<Arc<SharedUsers>>,
        sessions: Option<Duration>,
    ) -> Self {
        channels.metrics().engine.enable();
        let (client, requests) =
            RedisClient::new(settings, channels, timeouts, entropy, Arc::clone(executor), users, sessions);
        let client = Arc::new(client);
        if let Some(users) = &client.users {
            executor.spawn(Box::pin(Arc::clone(&client).share_users(Arc::clone(users))));
        }
        let (restored, to_restore) = oneshot::channel();
        executor.spawn(Box::pin(FeedTask::new(Arc::clone(&client), requests).run(to_restore)));
        Self { client, restored: Mutex::new(Some(restored)) }
    }

    /// Returns the directory of shared sessions; `None` if sessions are not shared.
    pub fn directory(&self) -> Option<Arc<dyn SessionDirectory>> {
        let state = self.client.directory.as_ref()?;
        Some(Arc::new(RedisDirectory::new(Arc::clone(&self.client), Arc::clone(state))))
    }

    pub fn health(&self) -> Arc<RedisHealth> {
        Arc::clone(&self.client.health)
    }
}

impl<S: Subscriber> LogEngine<S> for RedisEngine<S> {
    fn append(
        &self,
        channel: &ChannelName,
        _: &QuotaOwner,
        content: &Content<'_>,
        id: Option<&PublishId>,
    ) -> EngineResponse<Result<Published, EngineError>> {
        if self.client.channels.is_closed() {
            return EngineResponse::Ready(Err(EngineError::Draining));
        }
        self.client.publish(channel, content, id)
    }

    fn read(
        &self,
        channel: &ChannelName,
        part: HistoryPart,
        limit: HistoryLimit,
    ) -> EngineResponse<Result<Option<History>, EngineError>> {
        self.client.read(channel, part, limit)
    }

    fn subscribe(
        &self,
        channel: &ChannelName,
        creator: &QuotaOwner,
    ) -> EngineResponse<Result<ChannelGuard<S>, EngineError>> {
        self.client.subscribe(channel, creator, None)
    }

    fn subscribe_after(
        &self,
        channel: &ChannelName,
        creator: &QuotaOwner,
        since: &Since<'_>,
    ) -> EngineResponse<Result<ChannelGuard<S>, EngineError>> {
        self.client.subscribe(channel, creator, Some(since))
    }

    fn presence(
        &self,
        channel: &ChannelName,
        cursor: u64,
        limit: usize,
    ) -> EngineResponse<Result<Presence, EngineError>> {
        self.client.presence(channel, cursor, limit)
    }

    fn leave(&self) -> EngineResponse<()> {
        self.client.leave()
    }

    fn adopt_restored(&self, restored: Vec<Arc<Channel<S>>>) {
        let channels = &self.client.channels;
        // Direct-message channels are local to this server and stay unchanged.
        let shared = restored.iter().filter(|channel| !channel.name().is_direct());
        let guards = shared.filter_map(|channel| {
            // The log of a pattern is not in Redis: it keeps its contents until a new epoch starts.
            let is_pattern = channel.name().is_pattern();
            if is_pattern { channels.acquire_if_subscribed(channel) } else { channels.begin_loading(channel) }
        });
        let guards = guards.collect();
        let sender = self.restored.lock().take();
        if let Some(sender) = sender {
            // The send fails only if the runtime has dropped the task.
            _ = sender.send(guards);
        }
    }
}
