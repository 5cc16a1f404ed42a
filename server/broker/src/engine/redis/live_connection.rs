//! An established pair of connections to a Redis server.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use encke_core::Timestamp;
use encke_timeouts::Sleep;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use redis::aio::SendError;
use redis::{RedisError, cmd};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::address::RedisAddress;
use super::client::RedisClient;
use super::command_connections::CommandConnections;
use super::connection::{RedisConnection, login_info};
use super::detached_request::DetachedRequest;
use super::errors::{ConnectionError, EvictsKeys};
use super::opening::OpenResults;
use super::probe::{RedisInfo, learn_generation, send_probe};
use super::pushes::{Push, PushReceiver, push_queue};
use super::scripts::Scripts;
use crate::channel::{ChannelName, Subscriber, new_epoch};

/// Interval between probes, and timeout for each.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// State of an [established pair of connections](self).
pub(super) struct LiveConnection {
    pub(super) connections: CommandConnections,
    _connections: [RedisConnection; 2],
    pub(super) pushes: PushReceiver,
    /// Pub/sub channel on which probes are received back.
    pub(super) probe_feed: String,
    pub(super) closed: Pin<Box<WaitForCancellationFutureOwned>>,
    pub(super) openings: FuturesUnordered<BoxFuture<'static, Result<OpenResults, RedisError>>>,
    pub(super) probe: Probe,
    /// Expires when the next probe is due.
    pub(super) tick: Sleep,
}

#[derive(Default)]
pub(super) struct Probe {
    /// Number of probes sent.
    number: u64,
    /// Time at which the last probe was sent.
    sent_at: Option<Timestamp>,
    /// Pending reply to the last probe.
    pub(super) reply: Option<BoxFuture<'static, Result<RedisInfo, RedisError>>>,
    /// Whether the message of the last probe has been received back.
    was_received: bool,
}

impl LiveConnection {
    /// Connects to the Redis at `address`.
    ///
    /// # Errors
    /// [`ConnectionError`].
    pub(super) async fn open<S: Subscriber>(
        address: &RedisAddress,
        client: &RedisClient<S>,
    ) -> Result<Self, ConnectionError> {
        let RedisClient { settings, executor, .. } = client;
        let (tls, limit) = (settings.tls.as_ref(), settings.max_reply_bytes);
        let login = login_info(&settings.user, &settings.password).set_db(settings.database);
        // Both connections share one token: if either closes, so does the other.
        let closed = CancellationToken::new();
        let (sender, pushes) = push_queue(closed.clone());
        let subscribed =
            RedisConnection::open(address, tls, &login, limit, closed.clone(), sender, executor).await?;
        let mut commands = subscribed.commands.clone();
        let info = RedisInfo::query(&mut commands).await?;
        if !info.is_master {
            return Err(ConnectionError::Replica);
        }
        if info.evicts && !settings.allow_eviction {
            return Err(EvictsKeys.into());
        }
        let scripts = Scripts::load(&mut commands, client.channels.namespaces()).await?;
        let discard_pushes = |_| Ok::<_, SendError>(());
        let reads =
            RedisConnection::open(address, tls, &login, limit, closed.clone(), discard_pushes, executor)
                .await?;
        let connections = CommandConnections {
            commands,
            reads: reads.commands.clone(),
            scripts: Arc::new(scripts),
            generation: Arc::default(),
            closed: closed.clone(),
        };
        let generation =
            learn_generation(&connections, &client.keys.generation(), &info.replication_id).await?;
        client.channels.metrics().engine.set_generation(generation);
        let probe_feed = client.keys.probe(&new_epoch(&client.entropy));
        let mut subscribe = cmd("SUBSCRIBE");
        subscribe.arg(&probe_feed).arg(client.peers.feeds());
        if let Some(directory) = &client.directory {
            subscribe.arg(directory.feed());
        }
        connections.commands.clone().send_packed_command(&subscribe).await?;
        Ok(Self {
            connections,
            _connections: [subscribed, reads],
            pushes,
            probe_feed,
            closed: Box::pin(closed.cancelled_owned()),
            openings: FuturesUnordered::new(),
            probe: Probe { was_received: true, ..Probe::default() },
            tick: client.timeouts.sleep(Duration::ZERO),
        })
    }

    /// Sends a probe. Returns its number.
    ///
    /// # Errors
    /// [`ConnectionError`] if the last probe was not answered or its message was not received back.
    pub(super) fn begin_probe<S: Subscriber>(
        &mut self,
        client: &RedisClient<S>,
    ) -> Result<u64, ConnectionError> {
        if !self.probe.was_received || self.probe.reply.is_some() {
            return Err(ConnectionError::ProbeLost(PROBE_INTERVAL));
        }
        let number = self.probe.number + 1;
        let reply = send_probe(self.connections.clone(), self.probe_feed.clone(), number).boxed();
        let sent_at = Some(client.timeouts.clock().now());
        self.probe = Probe { number, sent_at, reply: Some(reply), was_received: false };
        self.tick = client.timeouts.sleep(PROBE_INTERVAL);
        Ok(number)
    }

    /// Handles the message of a probe, which may not be the last one.
    pub(super) fn receive_probe<S: Subscriber>(&mut self, push: &Push, client: &RedisClient<S>) {
        let probe = &mut self.probe;
        if push.payload == probe.number.to_string().as_bytes()
            && !std::mem::replace(&mut probe.was_received, true)
        {
            let round_trip = probe.sent_at.map(|sent_at| client.timeouts.clock().now().since(sent_at));
            round_trip
                .into_iter()
                .for_each(|elapsed| client.channels.metrics().engine.observe_feed_lag(elapsed));
        }
    }

    /// Unsubscribes from a channel's feed.
    pub(super) fn unsubscribe<S: Subscriber>(&self, channel: &ChannelName, client: &RedisClient<S>) {
        let mut unsubscribe = cmd("UNSUBSCRIBE");
        unsubscribe.arg(client.keys.for_channel(channel.as_str()).feed);
        let mut commands = self.connections.commands.clone();
        let request = async move { commands.send_packed_command(&unsubscribe).await.is_ok() };
        drop(DetachedRequest::new(request, &client.executor));
    }
}
