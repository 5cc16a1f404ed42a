//! The task that maintains the connections and the channel subscriptions. Local subscriptions define the
//! desired state, confirmations from Redis the actual state; the task makes the actual state match the
//! desired one, even if connections are lost.

mod openings;

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use redis::RedisError;
use tokio::sync::{mpsc, oneshot};

use super::address::RedisAddress;
use super::channel_subscription::{ChannelSubscription, LINGER, NextStep};
use super::client::{RedisClient, SubscribeRequest};
use super::errors::ConnectionError;
use super::live_connection::LiveConnection;
use super::message::FeedMessage;
use super::opening::OpenResults;
use super::pattern_subscriptions::PatternSubscriptions;
use super::probe::{RedisInfo, learn_generation};
use super::pushes::{Push, PushType};
use super::sentinel::locate_master;
use super::settings::RedisLocation;
use crate::channel::{ChannelGuard, ChannelName, Subscriber};
use crate::engine::error::EngineError;

/// Timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Shortest delay between connection attempts.
const MIN_RETRY_MS: u64 = 50;

/// Longest delay between connection attempts. Each delay is twice as long as the previous one, up to this
/// limit.
const MAX_RETRY_MS: u64 = 1000;

/// How long a connection must last, with all probes received back, to reset the delay.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// Number of probes between searches for unused subscriptions.
const PROBES_BETWEEN_SWEEPS: u64 = 2;

/// Number of probes between reopenings of all channels. Reopening finds a message whose push was lost, which
/// would otherwise go unnoticed until the channel's next message.
const PROBES_BETWEEN_REOPENINGS: u64 = 12;

/// State of the [feed task](self).
pub(super) struct FeedTask<S: Subscriber> {
    client: Arc<RedisClient<S>>,
    requests: mpsc::Receiver<SubscribeRequest<S>>,
    subscriptions: BTreeMap<ChannelName, ChannelSubscription<S>>,
    /// Channels queued for opening.
    to_open: VecDeque<ChannelName>,
    patterns: PatternSubscriptions<S>,
    /// Most recent message pushed by Redis.
    last_push: Option<Push>,
    /// Index of the Sentinel to query first: the last one whose reply was correct.
    sentinel: usize,
}

/// Event for the task.
enum FeedEvent<S: Subscriber> {
    Closed,
    Opened(Result<OpenResults, RedisError>),
    Probed(Result<RedisInfo, RedisError>),
    Tick,
    Request(SubscribeRequest<S>),
    Push(Push),
    /// Redis rejected this glob with this error.
    GlobRejected(String, RedisError),
}

impl<S: Subscriber> FeedTask<S> {
    pub(super) fn new(client: Arc<RedisClient<S>>, requests: mpsc::Receiver<SubscribeRequest<S>>) -> Self {
        let patterns = PatternSubscriptions::new(Arc::clone(&client));
        let (subscriptions, to_open) = (BTreeMap::new(), VecDeque::new());
        Self { client, requests, subscriptions, to_open, patterns, last_push: None, sentinel: 0 }
    }

    /// Receives the restored channels, then connects and serves in a loop.
    pub(super) async fn run(mut self, restored: oneshot::Receiver<Vec<ChannelGuard<S>>>) {
        for guard in restored.await.unwrap_or_default() {
            let name = guard.channel().name().clone();
            if name.is_pattern() {
                self.patterns.add_restored(name, guard);
            } else {
                self.subscriptions.insert(name, ChannelSubscription::restored(guard));
            }
        }
        let (mut retry_ms, mut last_logged) = (MIN_RETRY_MS, String::new());
        loop {
            let address = self.locate().await;
            let shown =
                address.as_ref().map_or(self.client.settings.location.to_string(), ToString::to_string);
            let connected = match address {
                Ok(address) => self.connect(&address).await,
                Err(why) => Err(why),
            };
            let why = match connected {
                Ok(connected) => {
                    let server = self.client.peers.server();
                    tracing::info!(address = shown, server, "connected to Redis");
                    self.client.channels.metrics().engine.connected();
                    self.client.set_connections(Some(connected.connections.clone()));
                    self.client.health.record_attempt(Ok(()));
                    let connected_at = self.client.timeouts.clock().now();
                    let why = self.serve(connected).await;
                    // Do not reset the delay for a Redis that accepts connections but does not serve them.
                    if self.client.timeouts.clock().now().since(connected_at) >= STABLE_AFTER {
                        (retry_ms, last_logged) = (MIN_RETRY_MS, String::new());
                    }
                    why
                }
                Err(why) => {
                    self.client.health.record_attempt(Err(&why));
                    why
                }
            }
            .to_string();
            self.disconnected();
            // Log a repeated failure only once.
            if why != last_logged {
                tracing::warn!(
                    address = shown,
                    error = why,
                    "not connected to Redis: channels are unavailable"
                );
                last_logged = why;
            }
            // Use a random delay, so that servers that lost the same Redis do not reconnect simultaneously.
            let spread = self.client.entropy.number_in(retry_ms / 2..retry_ms + 1);
            self.client.timeouts.sleep(Duration::from_millis(spread)).await;
            retry_ms = (2 * retry_ms).min(MAX_RETRY_MS);
        }
    }

    /// Determines the current address of Redis.
    async fn locate(&mut self) -> Result<RedisAddress, ConnectionError> {
        match &self.client.settings.location {
            RedisLocation::Address(address) => Ok(address.clone()),
            RedisLocation::Sentinels(sentinels) => {
                let found = locate_master(sentinels, self.sentinel, &self.client).await?;
                self.sentinel = found.sentinel;
                Ok(found.address)
            }
        }
    }

    async fn connect(&mut self, address: &RedisAddress) -> Result<LiveConnection, ConnectionError> {
        let connected =
            self.client.timeouts.within(CONNECT_TIMEOUT, LiveConnection::open(address, &self.client)).await;
        let connected = connected.unwrap_or(Err(ConnectionError::TimedOut(CONNECT_TIMEOUT)));
        if connected.is_err() {
            // Another Sentinel may know the current master.
            self.sentinel = self.sentinel.wrapping_add(1);
        }
        connected
    }

    /// Handles events until the connection is lost. Returns why it was lost.
    async fn serve(&mut self, mut connected: LiveConnection) -> ConnectionError {
        self.patterns.subscribe_all(&connected.connections.commands);
        self.queue_all();
        loop {
            self.begin_openings(&mut connected);
            match self.next_event(&mut connected).await {
                FeedEvent::Closed => return ConnectionError::Closed,
                FeedEvent::Request(request) if request.channel.is_pattern() => {
                    self.patterns.handle_request(request, &connected.connections.commands)
                }
                FeedEvent::Request(request) => self.handle_request(request),
                FeedEvent::GlobRejected(glob, error) => {
                    self.patterns.handle_rejection(&glob, &error, &connected.connections.commands)
                }
                FeedEvent::Push(push) => self.pushed(push, &mut connected),
                FeedEvent::Opened(Ok(opening)) => {
                    self.handle_pushes(&mut connected);
                    self.handle_opened(opening, &connected)
                }
                FeedEvent::Opened(Err(error)) => return error.into(),
                FeedEvent::Probed(Ok(info)) => {
                    if let Err(why) = self.handle_probe_reply(info, &mut connected).await {
                        return why;
                    }
                }
                FeedEvent::Probed(Err(error)) => return error.into(),
                FeedEvent::Tick => {
                    if let Err(why) = self.tick(&mut connected) {
                        return why;
                    }
                }
            }
        }
    }

    async fn next_event(&mut self, connected: &mut LiveConnection) -> FeedEvent<S> {
        poll_fn(|task| {
            if connected.closed.as_mut().poll(task).is_ready() {
                return Poll::Ready(FeedEvent::Closed);
            }
            if let Poll::Ready(Some(opened)) = connected.openings.poll_next_unpin(task) {
                return Poll::Ready(FeedEvent::Opened(opened));
            }
            if let Some(reply) = &mut connected.probe.reply
                && let Poll::Ready(reply) = reply.poll_unpin(task)
            {
                connected.probe.reply = None;
                return Poll::Ready(FeedEvent::Probed(reply));
            }
            if connected.tick.poll_unpin(task).is_ready() {
                return Poll::Ready(FeedEvent::Tick);
            }
            if let Poll::Ready(Some(request)) = self.requests.poll_recv(task) {
                return Poll::Ready(FeedEvent::Request(request));
            }
            if let Poll::Ready((glob, error)) = self.patterns.poll_rejected(task) {
                return Poll::Ready(FeedEvent::GlobRejected(glob, error));
            }
            match connected.pushes.poll_next(task) {
                Poll::Ready(Some(push)) => Poll::Ready(FeedEvent::Push(push)),
                // The sender is dropped with the connection.
                Poll::Ready(None) => Poll::Ready(FeedEvent::Closed),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    fn pushed(&mut self, push: Push, connected: &mut LiveConnection) {
        if push.kind == PushType::Confirmation {
            self.patterns.handle_confirmation(&push.feed);
        } else if !self.last_push.as_ref().is_some_and(|last| push.repeats(last)) {
            self.receive(&push, connected);
            self.last_push = Some(push);
        }
    }

    fn receive(&mut self, push: &Push, connected: &mut LiveConnection) {
        let Ok(feed) = std::str::from_utf8(&push.feed) else { return };
        if feed == connected.probe_feed {
            connected.receive_probe(push, &self.client);
            return;
        }
        if self.client.handle_peer_message(feed, push, &connected.connections.commands) {
            return;
        }
        let directory = self.client.directory.as_ref();
        if directory.is_some_and(|directory| directory.handle_message(feed, &push.payload)) {
            return;
        }
        let Some(name) = self.client.keys.channel_of(feed) else { return };
        let message = FeedMessage::parse(&push.payload);
        let Some(subscription) = self.subscriptions.get_mut(name) else {
            if let (PushType::ByGlob, Some(message)) = (push.kind, message) {
                self.patterns.receive(name, &message);
            }
            return;
        };
        let next = match message {
            Some(message) => subscription.receive(message, &self.client.channels),
            // The message is malformed; the log has the correct one.
            None => NextStep::Open,
        };
        if next == NextStep::Open
            && let Some((channel, _)) = self.subscriptions.get_key_value(name)
        {
            let channel = channel.clone();
            self.queue_opening(channel);
        }
    }

    /// Sends a probe and performs periodic tasks.
    ///
    /// # Errors
    /// [`ConnectionError`] if the last probe was not answered or its message was not received back.
    fn tick(&mut self, connected: &mut LiveConnection) -> Result<(), ConnectionError> {
        let number = connected.begin_probe(&self.client)?;
        self.client.renew_lease(connected.connections.clone());
        if number.is_multiple_of(PROBES_BETWEEN_SWEEPS) {
            self.drop_unused(connected);
            self.patterns.drop_unused(&connected.connections.commands);
            self.patterns.subscribe_all(&connected.connections.commands);
        }
        if number.is_multiple_of(PROBES_BETWEEN_REOPENINGS) {
            self.queue_all();
        }
        Ok(())
    }

    /// Handles the reply to a probe.
    ///
    /// # Errors
    /// [`ConnectionError`] if Redis is no longer the master, or does not respond.
    async fn handle_probe_reply(
        &mut self,
        info: RedisInfo,
        connected: &mut LiveConnection,
    ) -> Result<(), ConnectionError> {
        if !info.is_master {
            return Err(ConnectionError::Replica);
        }
        self.client.health.record_info(&info);
        if *info.replication_id != *connected.connections.generation.read().replication_id {
            // This Redis was a replica for a while, and may have lost data.
            let key = self.client.keys.generation();
            let generation = learn_generation(&connected.connections, &key, &info.replication_id);
            let generation = self.client.timeouts.within(CONNECT_TIMEOUT, generation).await;
            self.client
                .channels
                .metrics()
                .engine
                .set_generation(generation.ok_or(ConnectionError::TimedOut(CONNECT_TIMEOUT))??);
            self.queue_all();
        }
        Ok(())
    }

    /// Unsubscribes from channels that have had no local subscribers for some time.
    fn drop_unused(&mut self, connected: &LiveConnection) {
        let now = self.client.timeouts.clock().now();
        let mut idle = Vec::new();
        for (name, subscription) in &mut self.subscriptions {
            let is_idle = subscription.guard.as_ref().is_some_and(|guard| guard.channel().has_sole_guard());
            if !is_idle || subscription.is_opening {
                subscription.idle_since = None;
            } else if now.since(*subscription.idle_since.get_or_insert(now)) >= LINGER {
                idle.push(name.clone());
            }
        }
        for channel in idle {
            let Some(mut subscription) = self.subscriptions.remove(&channel) else { continue };
            match subscription.guard.take().map(|guard| self.client.channels.remove_if_unused(guard)) {
                // The log is in use again.
                Some(Err(guard)) => {
                    subscription.guard = Some(guard);
                    self.subscriptions.insert(channel, subscription);
                }
                Some(Ok(())) | None => connected.unsubscribe(&channel, &self.client),
            }
        }
    }

    /// Handles the loss of the connection. Channels with local subscribers are subscribed to again after the
    /// reconnect.
    fn disconnected(&mut self) {
        self.client.set_connections(None);
        self.to_open.clear();
        self.patterns.disconnected();
        self.last_push = None;
        self.subscriptions.retain(|_, subscription| subscription.disconnected());
        while let Ok(request) = self.requests.try_recv() {
            // The send fails if the caller has given up.
            _ = request.reply.send(Err(EngineError::Unavailable));
        }
    }
}
