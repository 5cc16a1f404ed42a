use std::future::Future;
use std::sync::{Arc, Weak};

use encke_core::ownership::GRANT_TIMEOUT;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use redis::{Pipeline, RedisError, Value, cmd, from_redis_value};
use tokio::sync::OwnedSemaphorePermit;

use super::directory_state::DirectoryState;
use super::lease::{self, LeaseCall};
use super::messages;
use super::requests::{self, RequestSource};
use crate::channel::Subscriber;
use crate::engine::directory::{
    DirectoryListener, DirectoryReply, DirectoryRequest, LeaseRenewal, ServerMessage, SessionDirectory,
    SessionKey,
};
use crate::engine::redis::client::RedisClient;
use crate::engine::redis::command_connections::CommandConnections;
use crate::engine::redis::detached_request::DetachedRequest;
use crate::engine::redis::errors::{check_reply, must_reconnect};

/// Approximate number of sessions on a page. Redis executes no other command while it reads one.
const PAGE_SIZE: usize = 512;

/// Maximum number of requests in a pipeline, all of which have an unknown outcome if one has no reply in time.
const MAX_PIPELINE: usize = 128;

/// Result of each request in a pipeline.
type Replies = Vec<Result<Value, RedisError>>;

/// Directory of shared sessions in Redis.
///
/// All requests use the connection for large replies: the states of many sessions may be too large for the
/// connection with subscriptions, on which Redis limits the output.
#[derive(Debug)]
pub(in crate::engine::redis) struct RedisDirectory<S: Subscriber> {
    client: Arc<RedisClient<S>>,
    state: Arc<DirectoryState>,
}

impl<S: Subscriber> RedisDirectory<S> {
    pub(in crate::engine::redis) fn new(client: Arc<RedisClient<S>>, state: Arc<DirectoryState>) -> Self {
        Self { client, state }
    }

    /// Sends requests in order, and returns their results. The list is shorter if there was no reply in time.
    fn send_all(
        &self,
        connections: CommandConnections,
        calls: Pipeline,
        permits: Vec<OwnedSemaphorePermit>,
    ) -> impl Future<Output = Replies> + Send + use<S> {
        let state = Arc::clone(&self.state);
        let exchange = async move {
            // Hold the permits until Redis has replied, even if the caller has given up.
            let _permits = permits;
            let mut reads = connections.reads;
            let replies: Replies = match reads.send_packed_commands(&calls, 0, calls.len()).await {
                Ok(replies) => replies.into_iter().map(check_reply).collect(),
                Err(error) => vec![Err(error)],
            };
            for error in replies.iter().filter_map(|reply| reply.as_ref().err()) {
                if must_reconnect(error) {
                    connections.closed.cancel();
                } else if error.code().is_some() {
                    state.record_refusal(error);
                }
            }
            replies
        };
        let request = DetachedRequest::new(exchange, &self.client.executor);
        self.client.timeouts.within(GRANT_TIMEOUT, request).map(Option::unwrap_or_default)
    }

    /// Sends the requests for which there are permits in a pipeline. `None` if there is no connection, or no permit.
    fn send_requests(
        &self,
        requests: &[DirectoryRequest],
    ) -> Option<impl Future<Output = Vec<Option<DirectoryReply>>> + Send + use<S>> {
        let connections = self.client.connections()?;
        let permits = self.state.begin_requests(requests.len());
        let requests = requests.get(..permits.len()).filter(|requests| !requests.is_empty())?;
        let generation = connections.generation.read().clone();
        let source = RequestSource {
            server: self.client.peers.server(),
            generation: generation.number,
            reconnect_window: self.state.reconnect_window,
        };
        let mut calls = Pipeline::with_capacity(requests.len());
        for request in requests {
            let id = messages::encode_id(requests::session_of(request));
            let record = self.client.keys.session_record(&id);
            let mut call = connections.scripts.session(&record, &self.state.keys);
            requests::add_arguments(&mut call, request, &source);
            call.arg(&*generation.replication_id);
            calls.add_command(call);
        }
        let is_operation = |request: &_| matches!(request, DirectoryRequest::Operate { .. });
        let are_operations: Vec<bool> = requests.iter().map(is_operation).collect();
        let parse = |(reply, is_operation)| requests::parse(reply, is_operation);
        let replies = self.send_all(connections, calls, permits);
        Some(replies.map(move |replies| replies.into_iter().zip(are_operations).map(parse).collect()))
    }

    /// Sends a call for this server's lease. Returns the reply, and the generation in which it was valid.
    fn send_lease_call(
        &self,
        operation: LeaseCall,
    ) -> Option<impl Future<Output = Option<(Value, u64)>> + Send + use<S>> {
        let connections = self.client.connections()?;
        let permit = self.state.begin_renewal()?;
        let generation = connections.generation.read().clone();
        let mut call = connections.scripts.lease(&self.state.keys);
        lease::add_arguments(&mut call, operation, self.client.peers.server());
        call.arg(&*generation.replication_id);
        let mut calls = Pipeline::with_capacity(1);
        calls.add_command(call);
        let replies = self.send_all(connections, calls, vec![permit]);
        Some(replies.map(move |mut replies| Some((replies.pop()?.ok()?, generation.number))))
    }

    /// Reads a page of a set of sessions.
    fn read_page(
        &self,
        key: &str,
        cursor: u64,
    ) -> Option<impl Future<Output = Option<(Vec<SessionKey>, u64)>> + Send + use<S>> {
        let connections = self.client.connections()?;
        let permits = self.state.begin_requests(1);
        if permits.is_empty() {
            return None;
        }
        let mut calls = Pipeline::with_capacity(1);
        calls.cmd("SSCAN").arg(key).arg(cursor).arg("COUNT").arg(PAGE_SIZE);
        let replies = self.send_all(connections, calls, permits);
        Some(replies.map(|mut replies| parse_page(replies.pop()?.ok()?)))
    }
}

/// Parses a page of sessions, and the cursor of the next one. `None` if the reply is malformed.
fn parse_page(reply: Value) -> Option<(Vec<SessionKey>, u64)> {
    let (next, ids): (u64, Vec<Vec<u8>>) = from_redis_value(reply).ok()?;
    // Anyone with access to Redis may have added something else.
    Some((ids.iter().filter_map(|id| messages::parse_id(id)).collect(), next))
}

impl<S: Subscriber> SessionDirectory for RedisDirectory<S> {
    fn server(&self) -> &str {
        self.client.peers.server()
    }

    fn generation(&self) -> Option<u64> {
        let connections = self.client.connections()?;
        let generation = connections.generation.read().number;
        Some(generation)
    }

    fn execute(&self, requests: &[DirectoryRequest]) -> BoxFuture<'static, Vec<Option<DirectoryReply>>> {
        let send = |requests: &[DirectoryRequest]| (self.send_requests(requests), requests.len());
        let pipelines: Vec<_> = requests.chunks(MAX_PIPELINE).map(send).collect();
        let replies = pipelines.into_iter().map(|(sent, count)| async move {
            let mut replies = match sent {
                Some(replies) => replies.await,
                None => Vec::new(),
            };
            replies.resize_with(count, || None);
            replies
        });
        join_all(replies).map(|replies| replies.into_iter().flatten().collect()).boxed()
    }

    fn renew_lease(&self) -> BoxFuture<'static, Option<LeaseRenewal>> {
        let (sent, state) = (self.send_lease_call(LeaseCall::Renew), Arc::clone(&self.state));
        async move {
            let (reply, generation) = sent?.await?;
            state.record_renewal();
            lease::parse_renewal(reply, generation)
        }
        .boxed()
    }

    fn end_lease(&self) -> BoxFuture<'static, ()> {
        let sent = self.send_lease_call(LeaseCall::End);
        async move {
            if let Some(reply) = sent {
                // Without a reply, the lease ends by itself later.
                _ = reply.await;
            }
        }
        .boxed()
    }

    fn sessions_of(
        &self,
        server: Option<&str>,
        cursor: u64,
    ) -> BoxFuture<'static, Option<(Vec<SessionKey>, u64)>> {
        let key = format!("{}{}", self.state.keys.of, server.unwrap_or_default());
        let sent = self.read_page(&key, cursor);
        async move { sent?.await }.boxed()
    }

    fn send(&self, server: &str, message: ServerMessage) {
        let Some(connections) = self.client.connections() else { return };
        let Some(permit) = self.state.begin_message() else { return };
        let mut publish = cmd("PUBLISH");
        publish.arg(self.client.keys.server_messages(server));
        publish.arg(messages::encode(message, self.client.peers.server()));
        let mut commands = connections.commands;
        let published = async move {
            let _permit = permit;
            // The receiver of a lost message is asked again, or the session is taken from it.
            _ = commands.send_packed_command(&publish).await;
        };
        drop(DetachedRequest::new(published, &self.client.executor));
    }

    fn set_listener(&self, listener: Weak<dyn DirectoryListener>) {
        self.state.set_listener(listener);
    }
}

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::*;

    #[test]
    fn pages_are_parsed() {
        let parse = |text: &str| parse_page(parse_redis_value(text.as_bytes()).expect("a reply of Redis"));
        let id = "07".repeat(16);
        let page = parse(&format!("*2\r\n$2\r\n17\r\n*2\r\n$1\r\nx\r\n$32\r\n{id}\r\n"));
        assert_eq!(page, Some((vec![[7; 16]], 17)));
        assert_eq!(parse("*2\r\n$1\r\n0\r\n*0\r\n"), Some((Vec::new(), 0)));
        for malformed in ["$-1\r\n", "*0\r\n", "*2\r\n$1\r\nx\r\n*0\r\n"] {
            assert_eq!(parse(malformed), None, "{malformed}");
        }
    }
}
