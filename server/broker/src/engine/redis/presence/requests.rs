//! Presence queries between servers, and the leases of servers.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value, cmd};

use super::pages::{first_index, limit_per_server, merge};
use super::peers::Peers;
use super::queries::PendingQuery;
use super::wire::{PresenceQuery, encode_reply, parse_reply};
use crate::channel::{ChannelName, PresencePage, Subscriber};
use crate::engine::error::EngineError;
use crate::engine::presence::Presence;
use crate::engine::redis::client::RedisClient;
use crate::engine::redis::command_connections::CommandConnections;
use crate::engine::redis::detached_request::DetachedRequest;
use crate::engine::redis::errors::{describe, must_reconnect};
use crate::engine::redis::pushes::Push;
use crate::engine::response::EngineResponse;

/// How long to wait for replies.
const REPLY_TIMEOUT: Duration = Duration::from_millis(200);

/// Lifetime of a lease after its last renewal: three probe intervals.
const LEASE_LIFETIME: Duration = Duration::from_secs(15);

/// How long a server that is shutting down tries to give up its lease.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(500);

/// Placeholder for all other servers, while they are unknown.
const ALL_SERVERS: &str = "*";

impl<S: Subscriber> RedisClient<S> {
    /// Returns a page of at most `limit` subscribers of a channel.
    pub(in crate::engine::redis) fn presence(
        self: &Arc<Self>,
        channel: &ChannelName,
        cursor: u64,
        limit: usize,
    ) -> EngineResponse<Result<Presence, EngineError>> {
        let (from, limit_each) = (first_index(cursor), limit_per_server(limit));
        let name = self.peers.server.clone();
        let local_page = self.channels.presence_page(channel.as_str(), from, limit_each);
        let Some(connections) = self.connections().filter(|_| !self.peers.is_leaving.load(Ordering::Relaxed))
        else {
            let missing = vec![ALL_SERVERS.to_owned()];
            return EngineResponse::Ready(Ok(Presence {
                incomplete: missing,
                ..merge(vec![(name, local_page)], cursor, limit)
            }));
        };
        let Some(pending) = self.peers.queries.begin(&self.entropy) else {
            return EngineResponse::Ready(Err(EngineError::Overloaded));
        };
        let query = PresenceQuery {
            id: pending.id(),
            server: name.clone(),
            channel: channel.to_string(),
            from,
            limit: limit_each,
        };
        let request = DetachedRequest::new(self.announce(connections, Some(&query)), &self.executor);
        let (client, timeouts) = (Arc::clone(self), Arc::clone(&self.timeouts));
        let gathered = async move {
            let mut gathered = GatheredReplies { replies: vec![(name, local_page)], outstanding: None };
            _ = timeouts.within(REPLY_TIMEOUT, gathered.gather(request, pending, &client)).await;
            let GatheredReplies { replies, outstanding } = gathered;
            let missing = outstanding.unwrap_or_else(|| [ALL_SERVERS.to_owned()].into());
            Ok(Presence { incomplete: missing.into_iter().collect(), ..merge(replies, cursor, limit) })
        };
        EngineResponse::Pending(gathered.boxed())
    }

    /// Renews this server's lease, and publishes a query if one is given. Returns the servers that hold a
    /// lease.
    fn announce(
        &self,
        connections: CommandConnections,
        query: Option<&PresenceQuery>,
    ) -> impl Future<Output = Result<BTreeSet<String>, RedisError>> + Send + use<S> {
        let lease_ms = LEASE_LIFETIME.as_millis().to_string();
        let query = query.map(PresenceQuery::write).unwrap_or_default();
        let (key, feed) = (self.keys.servers(), &self.peers.feeds[0]);
        let call = connections.scripts.servers(&key, &self.peers.server, &lease_ms, feed, &query);
        async move {
            let mut commands = connections.commands;
            let servers: Vec<String> = call.query_async(&mut commands).await?;
            Ok(servers.into_iter().collect())
        }
    }

    /// Renews this server's lease, and updates the number of servers.
    pub(in crate::engine::redis) fn renew_lease(&self, connections: CommandConnections) {
        if self.peers.is_leaving.load(Ordering::Relaxed) {
            return;
        }
        let (metrics, lease_refused) =
            (Arc::clone(self.channels.metrics()), Arc::clone(&self.peers.lease_refused));
        let closed = connections.closed.clone();
        let renewed = self.announce(connections, None).map(move |servers| match servers {
            Ok(servers) => {
                metrics.engine.set_servers(servers.len());
                lease_refused.store(false, Ordering::Relaxed);
            }
            Err(error) if must_reconnect(&error) => closed.cancel(),
            // Other servers do not expect replies from a server without a lease. Log a repeated failure only
            // once.
            Err(error) if !lease_refused.swap(true, Ordering::Relaxed) => {
                let error = describe(&error);
                tracing::warn!(
                    error,
                    "cannot renew the lease in Redis: presence queries on other servers will omit this one"
                );
            }
            Err(_) => {}
        });
        drop(DetachedRequest::new(renewed, &self.executor));
    }

    /// Gives up the lease, so that other servers no longer wait for this one.
    pub(in crate::engine::redis) fn leave(self: &Arc<Self>) -> EngineResponse<()> {
        self.peers.is_leaving.store(true, Ordering::Relaxed);
        let Some(connections) = self.connections() else { return EngineResponse::Ready(()) };
        let (key, server) = (self.keys.servers(), self.peers.server.clone());
        let client = Arc::clone(self);
        let leave = async move {
            if let Some(users) = &client.users {
                client.leave_users(users).await;
            }
            let mut commands = connections.commands;
            _ = cmd("ZREM").arg(key).arg(server).query_async::<Value>(&mut commands).await;
        };
        EngineResponse::Pending(self.timeouts.within(LEAVE_TIMEOUT, leave).map(drop).boxed())
    }

    /// Handles a message between servers. Returns false if `feed` is used for something else.
    pub(in crate::engine::redis) fn handle_peer_message(
        &self,
        feed: &str,
        push: &Push,
        commands: &MultiplexedConnection,
    ) -> bool {
        let [queries, replies] = &self.peers.feeds;
        if feed == queries {
            if let Some(query) = PresenceQuery::parse(&push.payload) {
                self.reply_to(&query, commands.clone());
            }
            return true;
        }
        let is_reply = feed == replies;
        if is_reply && let Some(reply) = parse_reply(&push.payload) {
            self.peers.queries.receive(reply, push.payload.len());
        }
        is_reply
    }

    fn reply_to(&self, query: &PresenceQuery, mut commands: MultiplexedConnection) {
        let Peers { server, replies, .. } = &self.peers;
        if query.server == *server {
            return;
        }
        let Ok(permit) = Arc::clone(replies).try_acquire_owned() else { return };
        let page = self.channels.presence_page(&query.channel, query.from, query.limit);
        let mut publish = cmd("PUBLISH");
        publish.arg(self.keys.presence_replies(&query.server)).arg(encode_reply(query.id, server, page));
        let published = async move {
            let _permit = permit;
            // If the reply is lost, the querying server lists this server as incomplete.
            _ = commands.send_packed_command(&publish).await;
        };
        drop(DetachedRequest::new(published, &self.executor));
    }
}

/// Replies to a query that have arrived so far.
struct GatheredReplies {
    replies: Vec<(String, PresencePage)>,
    /// Servers that have not replied yet; `None` until the list of servers is known.
    outstanding: Option<BTreeSet<String>>,
}

impl GatheredReplies {
    /// Collects replies until all servers have replied.
    async fn gather<S: Subscriber>(
        &mut self,
        request: impl Future<Output = Result<BTreeSet<String>, RedisError>>,
        mut pending: PendingQuery,
        client: &RedisClient<S>,
    ) {
        let mut servers = match request.await {
            Ok(servers) => servers,
            Err(error) => {
                let error = describe(&error);
                return tracing::warn!(error, "presence query failed: the answer covers only this server");
            }
        };
        servers.remove(&client.peers.server);
        let outstanding = self.outstanding.insert(servers);
        while !outstanding.is_empty() {
            let (server, page) = pending.next().await;
            // Ignore replies from unknown servers, and repeated replies.
            if outstanding.remove(&server) {
                self.replies.push((server, page));
            }
        }
    }
}
