//! Subscriptions of this server to patterns in Redis. Matching messages arrive on the feed connection, in
//! order with all others, and are appended to a local log. Redis does not store them by pattern: messages
//! published while there is no connection are lost for patterns, and the log of every pattern then starts a
//! new epoch, which its readers see as a gap.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};

use encke_base::quota::QuotaOwner;
use encke_core::Timestamp;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use redis::aio::MultiplexedConnection;
use redis::{RedisError, cmd};

use super::channel_subscription::{LINGER, LogWaiters, reply_to_all};
use super::client::{RedisClient, SubscribeRequest};
use super::detached_request::DetachedRequest;
use super::errors::{check_reply, describe};
use super::message::FeedMessage;
use crate::channel::{ChannelGuard, ChannelName, LogEpoch, Subscriber, new_epoch};
use crate::engine::error::EngineError;

/// Maximum number of globs that Redis has to compare with every publish. Beyond it, this server subscribes to
/// the widest glob instead and drops the messages it does not need.
const MAX_GLOBS: usize = 64;

/// State of all [pattern subscriptions](self).
#[derive(Debug)]
pub(super) struct PatternSubscriptions<S: Subscriber> {
    client: Arc<RedisClient<S>>,
    subscriptions: BTreeMap<ChannelName, PatternSubscription<S>>,
    /// Globs subscribed on this connection, and whether Redis has confirmed them.
    globs: BTreeMap<String, bool>,
    /// Pending replies to PSUBSCRIBE, needed for errors only. A confirmation is also pushed, in order with
    /// the messages.
    replies: FuturesUnordered<BoxFuture<'static, (String, Result<(), RedisError>)>>,
    /// Whether to use only the widest glob, because an ACL rule permits no other. Such rules compare globs
    /// literally.
    only_widest: bool,
}

#[derive(Debug)]
struct PatternSubscription<S: Subscriber> {
    /// Local log, once Redis has confirmed the glob.
    guard: Option<ChannelGuard<S>>,
    /// Whether the log is complete, because its epoch started on this connection.
    is_complete: bool,
    /// Creator of the local log: the first subscriber.
    creator: QuotaOwner,
    /// Callers waiting for the log.
    waiters: LogWaiters<S>,
    /// Glob that covers the pattern on this connection.
    glob: Option<String>,
    /// When the pattern was first found without local subscribers.
    idle_since: Option<Timestamp>,
}

impl<S: Subscriber> PatternSubscriptions<S> {
    pub(super) fn new(client: Arc<RedisClient<S>>) -> Self {
        let (subscriptions, globs, replies) = (BTreeMap::new(), BTreeMap::new(), FuturesUnordered::new());
        Self { client, subscriptions, globs, replies, only_widest: false }
    }

    /// Adds a pattern to which sessions of an earlier process subscribe, with its restored log.
    pub(super) fn add_restored(&mut self, name: ChannelName, guard: ChannelGuard<S>) {
        // The creator is only used to create a log, and this log already exists.
        let restored =
            PatternSubscription { guard: Some(guard), ..PatternSubscription::new(QuotaOwner::Operator) };
        self.subscriptions.insert(name, restored);
    }

    /// Handles a request to subscribe to a pattern.
    pub(super) fn handle_request(&mut self, request: SubscribeRequest<S>, commands: &MultiplexedConnection) {
        let SubscribeRequest { channel, creator, reply, .. } = request;
        let pattern =
            self.subscriptions.entry(channel.clone()).or_insert_with(|| PatternSubscription::new(creator));
        pattern.waiters.retain(|waiter| !waiter.is_closed());
        pattern.waiters.push(reply);
        if pattern.guard.is_some() {
            reply_to_all(&mut pattern.waiters, pattern.guard.as_ref(), None);
        } else {
            self.subscribe(&channel, commands);
        }
    }

    /// Subscribes to all patterns that have no glob on this connection, including rejected ones.
    pub(super) fn subscribe_all(&mut self, commands: &MultiplexedConnection) {
        let missing = self.subscriptions.iter().filter(|(_, pattern)| pattern.glob.is_none());
        for name in missing.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.subscribe(&name, commands);
        }
    }

    fn subscribe(&mut self, name: &ChannelName, commands: &MultiplexedConnection) {
        let Some(pattern) = self.subscriptions.get_mut(name).filter(|pattern| pattern.glob.is_none()) else {
            return;
        };
        let keys = &self.client.keys;
        let own = keys.glob(name.as_str());
        let has_room = self.globs.len() < MAX_GLOBS || self.globs.contains_key(&own);
        let glob = if has_room && !self.only_widest { own } else { keys.widest_glob() };
        pattern.glob = Some(glob.clone());
        match self.globs.get(&glob) {
            Some(true) => self.begin(|pattern| pattern.glob.as_ref() == Some(&glob)),
            Some(false) => {}
            None => {
                self.globs.insert(glob.clone(), false);
                let request = self.send("PSUBSCRIBE", &glob, commands);
                self.replies.push(request.map(|reply| (glob, reply)).boxed());
            }
        }
    }

    fn send(
        &self,
        what: &str,
        glob: &str,
        commands: &MultiplexedConnection,
    ) -> DetachedRequest<Result<(), RedisError>> {
        let mut command = cmd(what);
        command.arg(glob);
        let mut commands = commands.clone();
        let request =
            async move { commands.send_packed_command(&command).await.and_then(check_reply).map(drop) };
        DetachedRequest::new(request, &self.client.executor)
    }

    /// Handles the confirmation of a glob.
    pub(super) fn handle_confirmation(&mut self, glob: &[u8]) {
        let Ok(glob) = std::str::from_utf8(glob) else { return };
        if let Some(is_confirmed) = self.globs.get_mut(glob) {
            *is_confirmed = true;
            self.begin(|pattern| pattern.glob.as_deref() == Some(glob));
        }
    }

    /// Starts a log or a new epoch for the selected patterns, unless their log is complete.
    fn begin(&mut self, is_selected: impl Fn(&PatternSubscription<S>) -> bool) {
        let client = &self.client;
        let selected = self.subscriptions.iter_mut().filter(|(_, pattern)| is_selected(pattern));
        let mut failed = Vec::new();
        for (name, pattern) in selected {
            match pattern.begin(name, client) {
                Ok(()) => reply_to_all(&mut pattern.waiters, pattern.guard.as_ref(), None),
                Err(error) => {
                    reply_to_all(&mut pattern.waiters, None, Some(error));
                    failed.push(name.clone());
                }
            }
        }
        for name in failed {
            self.subscriptions.remove(&name);
        }
    }

    /// Waits until Redis rejects a glob.
    pub(super) fn poll_rejected(&mut self, task: &mut Context<'_>) -> Poll<(String, RedisError)> {
        while let Poll::Ready(Some((glob, reply))) = self.replies.poll_next_unpin(task) {
            if let Err(error) = reply {
                return Poll::Ready((glob, error));
            }
        }
        Poll::Pending
    }

    /// Handles the rejection of a glob. If an ACL rule rejected it, the widest glob may be permitted;
    /// otherwise patterns that have a log are tried again later.
    pub(super) fn handle_rejection(
        &mut self,
        glob: &str,
        error: &RedisError,
        commands: &MultiplexedConnection,
    ) {
        self.globs.remove(glob);
        let try_widest = error.code() == Some("NOPERM") && glob != self.client.keys.widest_glob();
        self.subscriptions.retain(|_, pattern| {
            if pattern.glob.as_deref() != Some(glob) {
                return true;
            }
            pattern.glob = None;
            if !try_widest {
                reply_to_all(&mut pattern.waiters, None, Some(EngineError::Unavailable));
            }
            try_widest || pattern.guard.is_some()
        });
        if try_widest {
            self.only_widest = true;
            self.subscribe_all(commands);
        } else {
            tracing::warn!(
                glob,
                error = describe(error),
                "cannot subscribe to patterns in Redis: they are unavailable"
            );
        }
    }

    /// Handles a message from a channel that has no local log.
    pub(super) fn receive(&self, channel: &str, message: &FeedMessage) {
        // The feed is not trusted, so the channel name must be validated.
        if let (Ok(channel), Some(content)) =
            (ChannelName::for_publish(channel, usize::MAX), message.content())
        {
            self.client.channels.feed_patterns(&channel, &message.epoch, message.offset, &content);
        }
    }

    /// Handles the loss of messages of a channel.
    pub(super) fn handle_missed(&mut self, channel: &ChannelName) {
        for (name, pattern) in &mut self.subscriptions {
            if pattern.is_complete && name.matches(channel) {
                pattern.is_complete = false;
                // Replacing an existing log cannot fail.
                _ = pattern.begin(name, &self.client);
            }
        }
    }

    /// Unsubscribes from patterns that have had no local subscribers for some time.
    pub(super) fn drop_unused(&mut self, commands: &MultiplexedConnection) {
        let now = self.client.timeouts.clock().now();
        let mut ended = Vec::new();
        for (name, pattern) in &mut self.subscriptions {
            let is_idle = pattern.guard.as_ref().is_some_and(|guard| guard.channel().has_sole_guard());
            if !is_idle {
                pattern.idle_since = None;
            } else if now.since(*pattern.idle_since.get_or_insert(now)) >= LINGER
                && let Some(guard) = pattern.guard.take()
            {
                match self.client.channels.remove_if_unused(guard) {
                    Ok(()) => ended.push(name.clone()),
                    // The log is in use again.
                    Err(guard) => pattern.guard = Some(guard),
                }
            }
        }
        for name in ended {
            let glob = self.subscriptions.remove(&name).and_then(|pattern| pattern.glob);
            if let Some(glob) = glob
                && !self.subscriptions.values().any(|other| other.glob.as_ref() == Some(&glob))
            {
                self.globs.remove(&glob);
                drop(self.send("PUNSUBSCRIBE", &glob, commands));
            }
        }
    }

    /// Handles the loss of the connection. Patterns with local subscribers are subscribed to again after the
    /// reconnect.
    pub(super) fn disconnected(&mut self) {
        self.globs.clear();
        self.replies = FuturesUnordered::new();
        self.subscriptions.retain(|_, pattern| {
            reply_to_all(&mut pattern.waiters, None, Some(EngineError::Unavailable));
            (pattern.glob, pattern.is_complete) = (None, false);
            pattern.guard.is_some()
        });
    }
}

impl<S: Subscriber> PatternSubscription<S> {
    fn new(creator: QuotaOwner) -> Self {
        Self { guard: None, is_complete: false, creator, waiters: Vec::new(), glob: None, idle_since: None }
    }

    /// Starts a log or a new epoch, unless the log is complete.
    fn begin(&mut self, name: &ChannelName, client: &RedisClient<S>) -> Result<(), EngineError> {
        let channels = &client.channels;
        match &self.guard {
            Some(_) if self.is_complete => {}
            Some(old) => {
                let epoch = new_epoch(&client.entropy).into();
                let epoch_start = LogEpoch { id: epoch, last: 0, past: Box::default(), is_loading: false };
                if let Some(new) = channels.replace_channel(old.channel(), &epoch_start) {
                    channels.move_subscribers(old.channel(), new.channel(), None);
                    self.guard = Some(new);
                }
            }
            None => self.guard = Some(channels.acquire(name, &self.creator)?),
        }
        self.is_complete = true;
        Ok(())
    }
}
