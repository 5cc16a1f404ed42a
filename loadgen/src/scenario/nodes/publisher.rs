//! Runs a publisher, which publishes its messages in order, and repeats each one until a server has confirmed it.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use encke_client::{ClientConnection, ClientEvent, ClientFailure, Ticket};
use encke_core::dialect::json::ServerMessage;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout};

use super::channel::NodesChannel;
use super::moving::{NodeRing, random_delay};
use super::{Nodes, NodesRun};
use crate::record::{Counter, Latency, Metrics};
use crate::scenario::OpenedConnection;

/// How long to wait for the reply to a publish before the publisher moves to the next node.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay before an unconfirmed message is published again.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// Error codes after which a message is published again. Either nothing was done, or the outcome is unknown
/// and the key makes repeating safe.
const RETRYABLE_CODES: [&str; 5] =
    ["draining", "unavailable", "overloaded", "outcome_unknown", "rate_limited"];

#[derive(Debug)]
pub(super) struct Publishes {
    /// Number of messages that a server confirmed.
    pub(super) published: Counter,
    /// Number of publishes that were repeated, because a server did not accept them or its reply was lost.
    repeated: Counter,
    /// Number of publishers that received new sessions. A message whose reply was lost may then be doubled,
    /// because keys belong to the session.
    not_recovered: Counter,
    /// Time from when a message was due until a server confirmed it.
    time: Latency,
    /// Number of publishers that have published everything.
    pub(super) finished: Counter,
}

/// A publisher's session.
#[derive(Debug)]
pub(super) struct NodePublisher {
    /// `None` only while the publisher reconnects.
    connection: Option<ClientConnection>,
    node: usize,
    ticket: Ticket,
    retry: Option<Duration>,
    next_id: u64,
}

impl Publishes {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            published: metrics.counter("published"),
            repeated: metrics.counter("publish_retries"),
            not_recovered: metrics.counter("publishers_not_recovered"),
            time: metrics.latency("publish"),
            finished: Counter::default(),
        }
    }
}

impl NodePublisher {
    pub(super) async fn open(ring: &NodeRing, index: u32) -> Result<Self, ClientFailure> {
        let node = ring.first(index);
        let (connection, greeting) = ring.setup(node).dialer.open(None).await?;
        let connection = Some(connection);
        Ok(Self { connection, node, ticket: greeting.ticket, retry: None, next_id: 1 })
    }

    /// Sends a publish and waits for its reply, as a JSON object. `None` if the connection ends or no reply
    /// arrives in time.
    async fn publish(&mut self, message: &Value) -> Option<Value> {
        let id = self.next_id;
        self.next_id += 1;
        self.connection.as_mut()?.send(&json!({ "id": id, "publish": message }).to_string()).await;
        let reply = async {
            loop {
                let reply = self.reply().await?;
                if reply["id"].as_u64() == Some(id) {
                    return Some(reply);
                }
            }
        };
        timeout(REPLY_TIMEOUT, reply).await.ok().flatten()
    }

    /// Waits for the next reply. `None` if the connection ends.
    async fn reply(&mut self) -> Option<Value> {
        let Self { connection, retry, .. } = self;
        let read = connection.as_mut()?.each(|event| {
            let ClientEvent::Text(text) = event else { return ControlFlow::Continue(()) };
            match serde_json::from_str(text) {
                Ok(ServerMessage::Reply(_)) => {
                    let mut object: Value = serde_json::from_str(text).unwrap_or_default();
                    return ControlFlow::Break(object["reply"].take());
                }
                Ok(ServerMessage::Goaway(goaway)) => *retry = Some(Duration::from_millis(goaway.retry_ms)),
                _ => {}
            }
            ControlFlow::Continue(())
        });
        read.await.ok()
    }
}

impl Nodes {
    /// Publishes the messages of these channels when they are due, one after the other.
    pub(super) async fn publish(
        self: Rc<Self>,
        run: Rc<NodesRun>,
        mut publisher: NodePublisher,
        channels: Vec<Rc<NodesChannel>>,
    ) {
        let ring = &run.ring;
        let schedules: Vec<_> = channels.iter().filter_map(|it| Some((it, it.schedule.get()?))).collect();
        let count = schedules.iter().map(|(_, schedule)| schedule.len()).max().unwrap_or(0);
        for number in (0..).take(count) {
            for (channel, schedule) in &schedules {
                self.wait_until(ring, &mut publisher, schedule.due(number)).await;
                schedule.note_start(number);
                let data: Value = serde_json::from_str(&schedule.data(number)).unwrap_or_default();
                let message = json!({ "channel": channel.name, "data": data, "key": schedule.key(number) });
                let Some(offset) = self.publish_until_confirmed(ring, &mut publisher, &message).await else {
                    continue;
                };
                self.publishes.published.increment();
                channel.note_confirmed();
                self.tally.expected.add(channel.subscriptions.get());
                if !channel.note_offset(number, offset) {
                    self.tally.doubled.increment();
                }
                let (due, start) = (schedule.due(number), schedule.start_of(number));
                self.publishes.time.record(due, start, Instant::now());
            }
        }
        self.publishes.finished.increment();
    }

    /// Publishes a message until it is confirmed or refused. Returns its offset. A refusal is recorded.
    async fn publish_until_confirmed(
        &self,
        ring: &NodeRing,
        publisher: &mut NodePublisher,
        message: &Value,
    ) -> Option<u64> {
        loop {
            match publisher.publish(message).await {
                None => self.reconnect_publisher(ring, publisher).await,
                Some(reply) => {
                    let Some(code) = reply["error"]["code"].as_str() else {
                        return reply["ok"]["offset"].as_u64();
                    };
                    if !RETRYABLE_CODES.contains(&code) {
                        let failure = ClientFailure::Publish(code.to_owned());
                        ring.setup(publisher.node).failures.record(&failure);
                        return None;
                    }
                }
            }
            self.publishes.repeated.increment();
            self.wait_until(ring, publisher, Instant::now() + RETRY_DELAY).await;
        }
    }

    /// Reads until `due`, and reconnects if the connection ends.
    async fn wait_until(&self, ring: &NodeRing, publisher: &mut NodePublisher, due: Instant) {
        loop {
            let reply = tokio::select! {
                () = sleep_until(due) => return,
                reply = publisher.reply() => reply,
            };
            if reply.is_none() {
                self.reconnect_publisher(ring, publisher).await;
            }
        }
    }

    async fn reconnect_publisher(&self, ring: &NodeRing, publisher: &mut NodePublisher) {
        publisher.connection = None;
        let due = Instant::now() + publisher.retry.take().unwrap_or_else(random_delay);
        let first = ring.next(publisher.node);
        let (opened, node) = self.moves.connect(ring, first, &publisher.ticket, due, |_| {}).await;
        let OpenedConnection { connection, greeting, .. } = opened;
        if !greeting.recovered {
            self.publishes.not_recovered.increment();
        }
        (publisher.connection, publisher.node, publisher.ticket) = (Some(connection), node, greeting.ticket);
    }
}
