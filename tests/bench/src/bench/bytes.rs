//! What a session's memory is when it has subscriptions, and when it has been through a fan-out.

use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;

use crate::Failure;
use crate::args::Plan;
use crate::broadcast::all_arrived;
use crate::clients::{Clients, Errand};
use crate::placement::Placement;
use crate::process::{Binaries, Kind, Server};
use crate::publisher::Publisher;
use crate::sample::resident_bytes;
use crate::scenario::{SETTLE, to_real};
use crate::subscribers::Subscribers;

/// Of one server in one run.
#[derive(Debug, Serialize)]
pub(crate) struct FanoutRow {
    pub(crate) connections: u32,
    pub(crate) messages: u32,
    /// Subscribed, and nothing published yet.
    pub(crate) bytes_before: f64,
    /// Just after the last delivery.
    pub(crate) bytes_at_end: f64,
    /// Two ping intervals later.
    pub(crate) bytes_after: f64,
    /// Deliveries that did not come, or came twice or in the wrong order.
    pub(crate) wrong: u64,
    pub(crate) unexpected_closes: u32,
}

/// Growth of resident memory over the empty server, for each of so many clients, with this many subscriptions.
pub(crate) async fn subscribed(
    kind: Kind,
    subscriptions: u32,
    plan: &Plan,
    binaries: &Binaries,
    placement: &Placement,
) -> Result<f64, Failure> {
    let server = Server::start(kind, plan, binaries, placement).await?;
    let bytes = Growth::over_empty(&server, plan).await?;
    let errand = Errand::Subscribe(Subscribers::of(0, subscriptions));
    let clients = Clients::connect(server.clients, plan.connections, plan.rate, errand).await?;
    clients.all_pinged(plan.interval * 2).await?;
    sleep(SETTLE).await;
    let bytes = bytes.now(&server)?;
    server.stop().await?;
    Ok(bytes)
}

/// Publishes as fast as all receive, and waits until all are silent again.
pub(crate) async fn after_fanout(
    kind: Kind,
    plan: &Plan,
    binaries: &Binaries,
    placement: &Placement,
) -> Result<FanoutRow, Failure> {
    let server = Server::start(kind, plan, binaries, placement).await?;
    let bytes = Growth::over_empty(&server, plan).await?;
    let errand = Errand::Subscribe(Subscribers::of(plan.fanout, 1));
    let clients = Clients::connect(server.clients, plan.connections, plan.rate, errand).await?;
    clients.all_pinged(plan.interval * 2).await?;
    let mut publisher = Publisher::connect(server.clients, plan.data_bytes).await?;
    sleep(SETTLE).await;
    let bytes_before = bytes.now(&server)?;

    let subscribers = clients.subscribers().ok_or("the clients have not subscribed")?;
    let expected = |messages: u32| u64::from(plan.connections) * u64::from(messages);
    for message in 1..=plan.fanout {
        publisher.publish().await;
        publisher.confirm(1).await?;
        all_arrived(subscribers, expected(message), Duration::from_millis(1)).await;
    }
    drop(publisher);
    sleep(SETTLE).await;
    let bytes_at_end = bytes.now(&server)?;
    // Each client has had a ping by then, and its pong says what has arrived.
    sleep(plan.interval * 2).await;
    let bytes_after = bytes.now(&server)?;
    let unexpected_closes = clients.ended();
    server.stop().await?;
    let lost = expected(plan.fanout) - subscribers.received.get();
    let wrong = lost + subscribers.duplicated.get() + subscribers.misordered.get() + subscribers.other.get();
    Ok(FanoutRow {
        connections: plan.connections,
        messages: plan.fanout,
        bytes_before,
        bytes_at_end,
        bytes_after,
        wrong,
        unexpected_closes,
    })
}

/// Resident memory beyond the empty server's.
struct Growth {
    empty: u64,
    connections: u32,
}

impl Growth {
    async fn over_empty(server: &Server, plan: &Plan) -> Result<Self, Failure> {
        sleep(SETTLE).await;
        Ok(Self { empty: resident_bytes(server.pid()?)?, connections: plan.connections })
    }

    fn now(&self, server: &Server) -> Result<f64, Failure> {
        let resident = resident_bytes(server.pid()?)?;
        Ok((to_real(resident) - to_real(self.empty)) / f64::from(self.connections))
    }
}
