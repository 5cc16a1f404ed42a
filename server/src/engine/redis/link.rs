//! What everyone who asks Redis for something shares, and the task that keeps the connections.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::message::Content;
use encke_core::session::outbox::Bounds;
use futures_util::FutureExt;
use parking_lot::{Mutex, RwLock};
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value, cmd, from_redis_value};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::asked::Asked;
use super::connection::describe;
use super::keys::Keys;
use super::message::{Opened, number};
use super::presence::Peers;
use super::scripts::Scripts;
use super::settings::RedisSettings;
use crate::admission::Holder;
use crate::channel::{
    ChannelName, Channels, HistoryMessage, HistoryPart, Hold, PublishId, Published, Subscriber, new_epoch,
};
use crate::engine::{Answer, EngineError, History};
use crate::entropy::Entropy;
use crate::executor::Executor;
use crate::timeouts::Timeouts;

/// Publishes that are under way. Redis does some 40,000 a second.
const MOST_PUBLISHES: usize = 1024;

/// Requests to follow a channel that the task has not seen yet.
const MOST_REQUESTS: usize = 4096;

/// How long anyone waits for an answer.
pub(super) const ANSWER: Duration = Duration::from_secs(5);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Link<S: Subscriber> {
    pub(super) settings: RedisSettings,
    pub(super) keys: Keys,
    pub(super) channels: Arc<Channels<S>>,
    pub(super) timeouts: Arc<Timeouts>,
    pub(super) entropy: Entropy,
    pub(super) executor: Arc<dyn Executor>,
    pub(super) health: Arc<Health>,
    pub(super) peers: Peers,
    /// While there is a connection.
    up: RwLock<Option<Up>>,
    publishes: Arc<Semaphore>,
    requests: mpsc::Sender<Request<S>>,
}

/// Connections for commands.
#[derive(Clone, Debug)]
pub(super) struct Up {
    /// On which Redis also tells what is published: the answer to a publish and the message come in one piece.
    pub(super) commands: MultiplexedConnection,
    /// For answers that may be long. Redis ends a connection on which it tells something when too much waits there.
    pub(super) reads: MultiplexedConnection,
    pub(super) scripts: Arc<Scripts>,
    /// Of Redis, once it is known.
    pub(super) life: Arc<RwLock<RedisLife>>,
    /// Ends the connection.
    pub(super) over: CancellationToken,
}

/// Which life of Redis it is, as all servers count them (see `scripts/life.lua`), and the replication id that it has in that.
#[derive(Clone, Debug, Default)]
pub(super) struct RedisLife {
    pub(super) number: u64,
    pub(super) replication_id: Arc<str>,
}

/// Somebody wants to follow a channel.
#[derive(Debug)]
pub(super) struct Request<S: Subscriber> {
    pub(super) channel: ChannelName,
    pub(super) maker: Holder,
    pub(super) answer: oneshot::Sender<Result<Hold<S>, EngineError>>,
}

/// It may drop keys, and messages with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "Redis may drop keys when it is full (its maxmemory-policy is not noeviction), and messages with them; \
     engine.allow_eviction = true allows it"
)]
pub struct EvictsKeys;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotConnected {
    #[error("{}", describe(.0))]
    Failed(#[from] RedisError),
    #[error("no Sentinel says where the master {0:?} is: {1}")]
    NoMaster(String, String),
    #[error("it is a replica")]
    Replica,
    #[error(transparent)]
    Evicts(#[from] EvictsKeys),
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("the connection has ended")]
    Over,
    #[error("a probe has not come back within {0:?}")]
    Silent(Duration),
}

/// How Redis does.
#[derive(Debug)]
pub(crate) struct Health {
    timeouts: Arc<Timeouts>,
    /// Since when it cannot be reached.
    down_since: Mutex<Option<Timestamp>>,
    /// Cancelled once it is known whether it can be used.
    tried: CancellationToken,
    /// It was found to drop keys when it is full.
    evicts: AtomicBool,
}

impl Health {
    /// Whether it could not be reached for this long.
    pub(crate) fn is_down_for(&self, long: Duration) -> bool {
        let now = self.timeouts.clock().now();
        self.down_since.lock().is_some_and(|since| now.since(since) >= long)
    }

    /// Waits until the first attempt to connect is over.
    ///
    /// # Errors
    /// Why this Redis must not be used. That it cannot be reached is no error.
    pub(crate) async fn first_attempt(&self) -> Result<(), EvictsKeys> {
        self.tried.cancelled().await;
        if self.evicts.load(Ordering::Relaxed) { Err(EvictsKeys) } else { Ok(()) }
    }

    /// An attempt to connect is over.
    pub(super) fn has_tried(&self, outcome: Result<(), &NotConnected>) {
        let evicts = matches!(outcome, Err(NotConnected::Evicts(_)));
        self.evicts.store(evicts, Ordering::Relaxed);
        self.tried.cancel();
    }
}

impl<S: Subscriber> Link<S> {
    pub(super) fn new(
        settings: RedisSettings,
        channels: Arc<Channels<S>>,
        timeouts: Arc<Timeouts>,
        entropy: Entropy,
        executor: Arc<dyn Executor>,
    ) -> (Self, mpsc::Receiver<Request<S>>) {
        let (sender, requests) = mpsc::channel(MOST_REQUESTS);
        let down_since = Mutex::new(Some(timeouts.clock().now()));
        let keys = Keys::new(&settings.prefix, settings.database);
        let link = Self {
            peers: Peers::new(&keys, &entropy),
            keys,
            settings,
            channels,
            health: Arc::new(Health {
                timeouts: Arc::clone(&timeouts),
                down_since,
                tried: CancellationToken::new(),
                evicts: AtomicBool::new(false),
            }),
            timeouts,
            entropy,
            executor,
            up: RwLock::default(),
            publishes: Arc::new(Semaphore::new(MOST_PUBLISHES)),
            requests: sender,
        };
        (link, requests)
    }

    /// There is a connection, or there is none any more.
    pub(super) fn set_up(&self, up: Option<Up>) {
        let is_up = up.is_some();
        self.channels.metrics().engine.is_up(is_up);
        *self.up.write() = up;
        let mut down_since = self.health.down_since.lock();
        if is_up {
            *down_since = None;
        } else {
            down_since.get_or_insert_with(|| self.timeouts.clock().now());
        }
    }

    pub(super) fn up(&self) -> Option<Up> {
        self.up.read().clone()
    }

    pub(super) fn publish(
        &self,
        channel: &ChannelName,
        content: &Content<'_>,
        id: Option<&PublishId>,
    ) -> Answer<Result<Published, EngineError>> {
        let Some(up) = self.up() else { return Answer::Ready(Err(EngineError::Unavailable)) };
        let Ok(permit) = Arc::clone(&self.publishes).try_acquire_owned() else {
            return Answer::Ready(Err(EngineError::Overloaded));
        };
        let keys = self.keys.of(channel.as_str());
        let life = up.life.read().clone();
        let once = id.map(|id| (self.keys.publishes(channel.as_str()), id.digest()));
        let epoch = new_epoch(&self.entropy);
        let command = up.scripts.publish((channel, &keys), content, &epoch, &life, once.as_ref());
        let (metrics, timeouts) = (Arc::clone(self.channels.metrics()), Arc::clone(&self.timeouts));
        let asked_at = timeouts.clock().now();
        let publish = async move {
            // Until Redis has answered, whether or not anyone waits for it.
            let _permit = permit;
            let mut commands = up.commands;
            let answer = commands.send_packed_command(&command).await.and_then(checked);
            if let Err(error) = &answer
                && has_to_begin_anew(error)
            {
                up.over.cancel();
            }
            let (published, is_repeated) = published(answer)?;
            metrics.engine.published(timeouts.clock().now().since(asked_at));
            if !is_repeated {
                metrics.channels.published();
            }
            Ok(published)
        };
        let asked = Asked::new(publish, &self.executor);
        let answer = self.timeouts.within(ANSWER, asked);
        Answer::Later(answer.map(|answer| answer.unwrap_or(Err(EngineError::OutcomeUnknown))).boxed())
    }

    /// Messages of a channel's log, as Redis has it.
    pub(super) fn read(
        &self,
        channel: &ChannelName,
        part: HistoryPart,
        limit: usize,
    ) -> Answer<Result<Option<History>, EngineError>> {
        // Redis knows nothing of patterns.
        if channel.is_pattern() {
            let (log, now) = (self.channels.get(channel.as_str()), self.timeouts.clock().now());
            return Answer::Ready(Ok(log.map(|log| History::of(&log, part, limit, now))));
        }
        let Some(up) = self.up() else { return Answer::Ready(Err(EngineError::Unavailable)) };
        let keys = self.keys.of(channel.as_str());
        let read = async move {
            let mut reads = up.reads;
            let mut pipeline = redis::pipe();
            pipeline.add_command(cmd("TIME"));
            pipeline.cmd("HMGET").arg(&keys.meta).arg("epoch").arg("offset");
            pipeline.cmd("XRANGE").arg(&keys.log).arg("-").arg("+").arg("COUNT").arg(1);
            let (command, from, to) = match part {
                HistoryPart::After(offset) => ("XRANGE", id(offset.saturating_add(1)), "+".to_owned()),
                HistoryPart::Between { after, before } => {
                    ("XREVRANGE", id(before.saturating_sub(1)), id(after.saturating_add(1)))
                }
            };
            pipeline.cmd(command).arg(&keys.log).arg(from).arg(to).arg("COUNT").arg(limit);
            pipeline.atomic();
            let values: (Value, (Option<String>, Option<i64>), Value, Value) =
                pipeline.query_async(&mut reads).await?;
            let mut history = history(values)?;
            if let (HistoryPart::Between { .. }, Some(history)) = (part, &mut history) {
                history.messages.reverse();
            }
            Ok::<_, RedisError>(history)
        };
        let answer = self.timeouts.within(ANSWER, read);
        Answer::Later(answer.map(|read| read.and_then(Result::ok).ok_or(EngineError::Unavailable)).boxed())
    }

    /// A log that is fed from Redis.
    pub(super) fn follow(
        &self,
        channel: &ChannelName,
        maker: &Holder,
    ) -> Answer<Result<Hold<S>, EngineError>> {
        // Whatever is here is fed.
        if let Some(hold) = self.channels.hold_filled(channel.as_str()) {
            return Answer::Ready(Ok(hold));
        }
        if self.up.read().is_none() {
            return Answer::Ready(Err(EngineError::Unavailable));
        }
        let (answer, answered) = oneshot::channel();
        let request = Request { channel: channel.clone(), maker: maker.clone(), answer };
        if self.requests.try_send(request).is_err() {
            return Answer::Ready(Err(EngineError::Overloaded));
        }
        let answer = self.timeouts.within(ANSWER, answered);
        let followed = |answer: Option<Result<_, _>>| {
            answer.and_then(Result::ok).unwrap_or(Err(EngineError::Unavailable))
        };
        Answer::Later(answer.map(followed).boxed())
    }
}

/// An error that Redis says is a value otherwise.
pub(super) fn checked(value: Value) -> Result<Value, RedisError> {
    value.extract_error()
}

/// What was published, and whether that was before.
fn published(answer: Result<Value, RedisError>) -> Result<(Published, bool), EngineError> {
    let parsed = answer.and_then(|mut value| {
        let mark = match &mut value {
            Value::Array(values) if values.len() == 3 => values.pop(),
            _ => None,
        };
        Ok((from_redis_value::<(String, u64)>(value)?, mark.is_some()))
    });
    match parsed {
        Ok(((epoch, offset), is_repeated)) => Ok((Published { offset, epoch: epoch.into() }, is_repeated)),
        Err(error) if was_refused(&error) => Err(EngineError::Unavailable),
        Err(_) => Err(EngineError::OutcomeUnknown),
    }
}

/// Redis has not begun to do it.
fn was_refused(error: &RedisError) -> bool {
    const REFUSALS: [&str; 12] = [
        "ANOTHER",
        "BUSY",
        "CLUSTERDOWN",
        "LOADING",
        "MASTERDOWN",
        "MISCONF",
        "NOAUTH",
        "NOPERM",
        "NOREPLICAS",
        "NOSCRIPT",
        "OOM",
        "READONLY",
    ];
    error.code().is_some_and(|code| REFUSALS.contains(&code))
}

/// It is another Redis than it was, or has lost its scripts.
pub(super) fn has_to_begin_anew(error: &RedisError) -> bool {
    error.code().is_some_and(|code| ["ANOTHER", "NOSCRIPT", "READONLY", "NOAUTH"].contains(&code))
}

/// What the stream of a log calls a message.
fn id(offset: u64) -> String {
    format!("0-{offset}")
}

fn history(
    (time, (epoch, offset), first, log): (Value, (Option<String>, Option<i64>), Value, Value),
) -> Result<Option<History>, RedisError> {
    let (seconds, micros): (u64, u64) = from_redis_value(time)?;
    let Some(epoch) = epoch else { return Ok(None) };
    let (last, now_ms) = (number(offset.unwrap_or(0))?, seconds * 1000 + micros / 1000);
    let first = Opened::entries(first, now_ms)?.first().map_or(last + 1, |entry| entry.offset);
    let messages = Opened::entries(log, now_ms)?.into_iter().filter_map(|entry| {
        let Content { kind, user, data, .. } = entry.content()?;
        let (user, data) = (user.map(Cow::into_owned), data.as_str().to_owned());
        Some(HistoryMessage { offset: entry.offset, age: entry.age, channel: None, user, kind, data })
    });
    Ok(Some(History { epoch: epoch.into(), bounds: Bounds { first, last }, messages: messages.collect() }))
}
