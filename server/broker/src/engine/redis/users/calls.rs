//! Calls of the script `users`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;
use redis::{RedisError, Value, from_redis_value};

use super::event::UserEvent;
use super::registration::Changes;
use super::shared_users::{Call, SharedUsers};
use crate::channel::Subscriber;
use crate::engine::redis::client::{RESPONSE_TIMEOUT, RedisClient};
use crate::engine::redis::command_connections::CommandConnections;
use crate::engine::redis::errors::{describe, must_reconnect, unexpected};

/// Lifetime of the lease after its last renewal: three renewals.
const LEASE_LIFETIME: Duration = Duration::from_secs(15);
const RENEWAL_INTERVAL: Duration = Duration::from_secs(5);

/// Pause after a failed call.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Reply to a call.
enum Reply {
    /// The name is not in use.
    Unknown,
    Executed {
        has_more: bool,
        events: Vec<UserEvent>,
    },
}

impl<S: Subscriber> RedisClient<S> {
    /// Reports the users of this server, renews its lease, and passes on events, until the server shuts down.
    pub(in crate::engine::redis) async fn share_users(self: Arc<Self>, users: Arc<SharedUsers>) {
        let mut is_failing = false;
        while !users.is_leaving() {
            let Some(connections) = self.connections() else {
                users.changed.notified().await;
                continue;
            };
            let outcome = self.exchange(&connections, &users).await;
            if let Err(error) = &outcome {
                if must_reconnect(error) {
                    connections.closed.cancel();
                }
                if !is_failing {
                    let error = describe(error);
                    tracing::warn!(error, "cannot report users to Redis: user events wait");
                }
                self.timeouts.sleep(RETRY_PAUSE).await;
            }
            is_failing = outcome.is_err();
            if !users.has_work() {
                let changed = std::pin::pin!(users.changed.notified());
                select(changed, self.timeouts.sleep(RENEWAL_INTERVAL)).await;
            }
        }
    }

    async fn exchange(
        &self,
        connections: &CommandConnections,
        users: &SharedUsers,
    ) -> Result<(), RedisError> {
        let generation = connections.generation.read().number;
        if let Some(number) = users.next_name(generation) {
            // This call registers no users. If its outcome is unknown, its name is not used again.
            let name = format!("{}.{number}", self.peers.server());
            let changes = Changes::default();
            let first = Call { name: name.clone(), number: 1, acknowledged: None, given_up: None, changes };
            if let Reply::Executed { events, .. } =
                self.call_users(connections, &first, LEASE_LIFETIME).await?
            {
                users.registered(name, generation, events);
            }
        }
        let Some(call) = users.next_call() else { return Ok(()) };
        match self.call_users(connections, &call, LEASE_LIFETIME).await {
            Ok(Reply::Executed { has_more, events }) => users.confirm(call, has_more, events),
            Ok(Reply::Unknown) => {
                users.fail(call);
                users.lost_name();
            }
            Err(error) => {
                users.fail(call);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Sends the remaining changes, and keeps the users online until the next process takes them over. Events
    /// of this call are left to other servers.
    pub(in crate::engine::redis) async fn leave_users(&self, users: &SharedUsers) {
        let Some((call, linger)) = users.last_call() else { return };
        if let Some(connections) = self.connections() {
            _ = self.call_users(&connections, &call, linger).await;
        }
    }

    async fn call_users(
        &self,
        connections: &CommandConnections,
        call: &Call,
        lease: Duration,
    ) -> Result<Reply, RedisError> {
        let number = |number: u64| number.to_string();
        let mut arguments = vec![
            call.name.clone(),
            lease.as_millis().to_string(),
            number(call.number),
            call.acknowledged.map(number).unwrap_or_default(),
            call.given_up.clone().unwrap_or_default(),
            if call.changes.is_silent { "" } else { "1" }.to_owned(),
        ];
        let change =
            |(user, is_online): &(Arc<str>, bool)| format!("{}{user}", if *is_online { '+' } else { '-' });
        arguments.extend(call.changes.users.iter().map(change));
        let command = connections.scripts.users(&self.keys.users(), &arguments);
        let mut commands = connections.commands.clone();
        let reply = self.timeouts.within(RESPONSE_TIMEOUT, command.query_async::<Value>(&mut commands)).await;
        parse(reply.ok_or_else(|| unexpected("no response"))??)
    }
}

fn parse(reply: Value) -> Result<Reply, RedisError> {
    let Value::Array(mut values) = reply else { return Err(unexpected("the reply is not a list")) };
    if values.is_empty() {
        return Err(unexpected("the reply is empty"));
    }
    let status: u8 = from_redis_value(values.remove(0))?;
    if status == 0 {
        return Ok(Reply::Unknown);
    }
    // Anyone with access to Redis may have written something else.
    let event = |value| UserEvent::parse(&from_redis_value::<String>(value).ok()?);
    let events = values.into_iter().filter_map(event).collect();
    Ok(Reply::Executed { has_more: status == 2, events })
}
