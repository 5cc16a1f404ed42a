//! Requests to Redis, and the state that all callers share with the feed task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use encke_base::entropy::Entropy;
use encke_base::executor::Executor;
use encke_base::locks::{Mutex, RwLock};
use encke_base::quota::QuotaOwner;
use encke_core::Timestamp;
use encke_core::dialect::Since;
use encke_core::message::Content;
use encke_timeouts::Timeouts;
use futures_util::FutureExt;
use redis::{RedisError, Value, from_redis_value};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::command_connections::CommandConnections;
use super::detached_request::DetachedRequest;
use super::errors::{ConnectionError, EvictsKeys, check_reply, must_reconnect, was_rejected};
use super::keys::RedisKeys;
use super::presence::peers::Peers;
use super::probe::RedisInfo;
use super::sessions::directory_state::DirectoryState;
use super::settings::RedisSettings;
use super::users::shared_users::SharedUsers;
use crate::channel::{
    Channel, ChannelGuard, ChannelName, Channels, PublishId, Published, Subscriber, new_epoch,
};
use crate::engine::error::EngineError;
use crate::engine::response::EngineResponse;

/// Maximum number of publishes in flight. Redis executes about 40,000 per second.
const MAX_PUBLISHES: usize = 1024;

/// Maximum number of pages of history that are being read for clients. Redis reads thousands per second.
const MAX_CLIENT_READS: usize = 64;

/// Maximum number of subscribe requests queued for the feed task.
const MAX_REQUESTS: usize = 4096;

/// Timeout for the reply to any request.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// State [shared by all callers](self) and the feed task.
#[derive(Debug)]
pub(super) struct RedisClient<S: Subscriber> {
    pub(super) settings: RedisSettings,
    pub(super) keys: RedisKeys,
    pub(super) channels: Arc<Channels<S>>,
    pub(super) timeouts: Arc<Timeouts>,
    pub(super) entropy: Entropy,
    pub(super) executor: Arc<dyn Executor>,
    pub(super) health: Arc<RedisHealth>,
    pub(super) peers: Peers,
    /// Users that are online on any server; `None` if no webhook subscribes to their events.
    pub(super) users: Option<Arc<SharedUsers>>,
    /// State of the session directory; `None` if sessions are not shared.
    pub(super) directory: Option<Arc<DirectoryState>>,
    /// `None` while disconnected.
    connections: RwLock<Option<CommandConnections>>,
    publishes: Arc<Semaphore>,
    /// Permits for reads that clients cause.
    pub(super) client_reads: Arc<Semaphore>,
    requests: mpsc::Sender<SubscribeRequest<S>>,
}

/// Request to subscribe to a channel.
#[derive(Debug)]
pub(super) struct SubscribeRequest<S: Subscriber> {
    pub(super) channel: ChannelName,
    pub(super) creator: QuotaOwner,
    /// Position of the client. If it is ahead of the local log, the log must be read again first.
    pub(super) since: Option<Since<'static>>,
    pub(super) reply: oneshot::Sender<Result<ChannelGuard<S>, EngineError>>,
}

/// Availability of Redis.
#[derive(Debug)]
pub struct RedisHealth {
    timeouts: Arc<Timeouts>,
    /// When the connection was lost; `None` while connected.
    down_since: Mutex<Option<Timestamp>>,
    /// Cancelled after the first connection attempt.
    attempted: CancellationToken,
    /// Whether the last attempt found that Redis evicts keys.
    evicts: AtomicBool,
    /// Whether Redis has no memory for messages.
    is_full: AtomicBool,
}

impl RedisHealth {
    /// Whether Redis has been unreachable for at least `long`.
    pub fn is_down_for(&self, long: Duration) -> bool {
        let now = self.timeouts.clock().now();
        self.down_since.lock().is_some_and(|since| now.since(since) >= long)
    }

    /// Whether Redis has no memory for messages and does not evict others, so that no publish succeeds.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Records the reply to a probe.
    pub(super) fn record_info(&self, info: &RedisInfo) {
        self.is_full.store(info.is_full && !info.evicts, Ordering::Relaxed);
    }

    /// Waits until the first connection attempt has finished.
    ///
    /// # Errors
    /// [`EvictsKeys`] if this Redis must not be used. An unreachable Redis is not an error.
    pub async fn first_attempt(&self) -> Result<(), EvictsKeys> {
        self.attempted.cancelled().await;
        if self.evicts.load(Ordering::Relaxed) { Err(EvictsKeys) } else { Ok(()) }
    }

    /// Records the outcome of a connection attempt.
    pub(super) fn record_attempt(&self, outcome: Result<(), &ConnectionError>) {
        let evicts = matches!(outcome, Err(ConnectionError::Evicts(_)));
        self.evicts.store(evicts, Ordering::Relaxed);
        self.attempted.cancel();
    }
}

impl<S: Subscriber> RedisClient<S> {
    pub(super) fn new(
        settings: RedisSettings,
        channels: Arc<Channels<S>>,
        timeouts: Arc<Timeouts>,
        entropy: Entropy,
        executor: Arc<dyn Executor>,
        users: Option<Arc<SharedUsers>>,
        reconnect_window: Option<Duration>,
    ) -> (Self, mpsc::Receiver<SubscribeRequest<S>>) {
        let (sender, requests) = mpsc::channel(MAX_REQUESTS);
        let down_since = Mutex::new(Some(timeouts.clock().now()));
        let keys = RedisKeys::new(&settings.prefix, settings.database);
        let peers = Peers::new(&keys, &entropy);
        let directory =
            reconnect_window.map(|window| Arc::new(DirectoryState::new(&keys, peers.server(), window)));
        let client = Self {
            peers,
            users,
            directory,
            keys,
            settings,
            channels,
            health: Arc::new(RedisHealth {
                timeouts: Arc::clone(&timeouts),
                down_since,
                attempted: CancellationToken::new(),
                evicts: AtomicBool::new(false),
                is_full: AtomicBool::new(false),
            }),
            timeouts,
            entropy,
            executor,
            connections: RwLock::default(),
            publishes: Arc::new(Semaphore::new(MAX_PUBLISHES)),
            client_reads: Arc::new(Semaphore::new(MAX_CLIENT_READS)),
            requests: sender,
        };
        (client, requests)
    }

    /// Sets the connections, or `None` after they are lost.
    pub(super) fn set_connections(&self, connections: Option<CommandConnections>) {
        let is_up = connections.is_some();
        self.channels.metrics().engine.set_up(is_up);
        *self.connections.write() = connections;
        if let Some(users) = self.users.as_ref().filter(|_| is_up) {
            users.connected();
        }
        if let Some(directory) = self.directory.as_ref().filter(|_| is_up) {
            directory.connected();
        }
        let mut down_since = self.health.down_since.lock();
        if is_up {
            *down_since = None;
        } else {
            down_since.get_or_insert_with(|| self.timeouts.clock().now());
        }
    }

    pub(super) fn connections(&self) -> Option<CommandConnections> {
        self.connections.read().clone()
    }

    pub(super) fn publish(
        &self,
        channel: &ChannelName,
        content: &Content<'_>,
        id: Option<&PublishId>,
    ) -> EngineResponse<Result<Published, EngineError>> {
        let Some(connections) = self.connections() else {
            return EngineResponse::Ready(Err(EngineError::Unavailable));
        };
        let Ok(permit) = Arc::clone(&self.publishes).try_acquire_owned() else {
            return EngineResponse::Ready(Err(EngineError::Overloaded));
        };
        let keys = self.keys.for_channel(channel.as_str());
        let generation = connections.generation.read().clone();
        let once = id.map(|id| (self.keys.publish_ids(channel.as_str()), id.digest()));
        let epoch = new_epoch(&self.entropy);
        let command =
            connections.scripts.publish((channel, &keys), content, &epoch, &generation, once.as_ref());
        let (metrics, timeouts) = (Arc::clone(self.channels.metrics()), Arc::clone(&self.timeouts));
        let sent_at = timeouts.clock().now();
        let publish = async move {
            // Hold the permit until Redis has replied, even if the caller has given up.
            let _permit = permit;
            let mut commands = connections.commands;
            let reply = commands.send_packed_command(&command).await.and_then(check_reply);
            if let Err(error) = &reply
                && must_reconnect(error)
            {
                connections.closed.cancel();
            }
            let (published, is_repeated) = parse_published(reply)?;
            metrics.engine.published(timeouts.clock().now().since(sent_at));
            if !is_repeated {
                metrics.channels.published();
            }
            Ok(published)
        };
        let request = DetachedRequest::new(publish, &self.executor);
        let reply = self.timeouts.within(RESPONSE_TIMEOUT, request);
        EngineResponse::Pending(reply.map(|reply| reply.unwrap_or(Err(EngineError::OutcomeUnknown))).boxed())
    }

    /// Returns a local log that is fed from Redis. It has the message `since`, unless Redis has lost it.
    pub(super) fn subscribe(
        &self,
        channel: &ChannelName,
        creator: &QuotaOwner,
        since: Option<&Since<'_>>,
    ) -> EngineResponse<Result<ChannelGuard<S>, EngineError>> {
        // A loaded local log of a channel in Redis is already being fed.
        if let Some(guard) = self.channels.acquire_loaded(channel.as_str())
            && has_position(guard.channel(), since)
        {
            return EngineResponse::Ready(Ok(guard));
        }
        if self.connections.read().is_none() {
            return EngineResponse::Ready(Err(EngineError::Unavailable));
        }
        let (reply, replied) = oneshot::channel();
        let (channel, creator) = (channel.clone(), creator.clone());
        let since = since.cloned().map(Since::into_owned);
        let request = SubscribeRequest { channel, creator, since, reply };
        if self.requests.try_send(request).is_err() {
            return EngineResponse::Ready(Err(EngineError::Overloaded));
        }
        let reply = self.timeouts.within(RESPONSE_TIMEOUT, replied);
        let flatten =
            |reply: Option<Result<_, _>>| reply.and_then(Result::ok).unwrap_or(Err(EngineError::Unavailable));
        EngineResponse::Pending(reply.map(flatten).boxed())
    }
}

/// Whether the log has reached the client's position. If not, the client knows of a message or an epoch that
/// another server has received from Redis, and this one has not.
pub(super) fn has_position<S: Subscriber>(log: &Channel<S>, since: Option<&Since<'_>>) -> bool {
    // An event stream without a position uses this offset, which no message has.
    let Some(Since { epoch, offset }) = since.filter(|since| since.offset != u64::MAX) else { return true };
    log.knows_epoch(epoch) && (**epoch != *log.epoch() || *offset <= log.last_offset())
}

/// Parses the reply to a publish. The flag is true if it was a repeated publish.
fn parse_published(reply: Result<Value, RedisError>) -> Result<(Published, bool), EngineError> {
    let parsed = reply.and_then(|mut value| {
        let repeat_mark = match &mut value {
            Value::Array(values) if values.len() == 3 => values.pop(),
            _ => None,
        };
        Ok((from_redis_value::<(String, u64)>(value)?, repeat_mark.is_some()))
    });
    match parsed {
        Ok(((epoch, offset), is_repeated)) => Ok((Published { offset, epoch: epoch.into() }, is_repeated)),
        Err(error) if was_rejected(&error) => Err(EngineError::Unavailable),
        Err(_) => Err(EngineError::OutcomeUnknown),
    }
}
