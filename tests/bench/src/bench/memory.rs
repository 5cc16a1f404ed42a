//! Memory of a session with subscriptions, and after a fan-out.

use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;

use crate::BenchFailure;
use crate::args::Plan;
use crate::broadcast::wait_for_deliveries;
use crate::clients::{BenchClients, Workload};
use crate::heartbeat::{SETTLE, to_real};
use crate::placement::CpuPlacement;
use crate::process::{BenchBinaries, MeasuredServer, ServerKind};
use crate::publisher::BroadcastPublisher;
use crate::sample::resident_bytes;
use crate::subscribers::SubscriberTotals;

/// Results of one server in one run.
#[derive(Debug, Serialize)]
pub(crate) struct FanoutRow {
    pub(crate) connections: u32,
    pub(crate) messages: u32,
    /// Memory per client after subscribing, before the first publish.
    pub(crate) bytes_before: f64,
    /// The same, immediately after the last delivery.
    pub(crate) bytes_at_end: f64,
    /// The same, two ping intervals later.
    pub(crate) bytes_after: f64,
    /// Number of deliveries that are missing, duplicated or out of order.
    pub(crate) wrong: u64,
    pub(crate) unexpected_closes: u32,
}

/// Returns the growth of resident memory over the empty server, in bytes per client, when each client has
/// `subscriptions` subscriptions.
pub(crate) async fn subscribed(
    kind: ServerKind,
    subscriptions: u32,
    plan: &Plan,
    binaries: &BenchBinaries,
    placement: &CpuPlacement,
) -> Result<f64, BenchFailure> {
    let server = MeasuredServer::start(kind, plan, binaries, placement).await?;
    let bytes = Growth::over_empty(&server, plan).await?;
    let errand = Workload::Subscribe(SubscriberTotals::of(0, subscriptions));
    let clients = BenchClients::connect(server.clients, plan.connections, plan.rate, errand).await?;
    clients.all_pinged(plan.interval * 2).await?;
    sleep(SETTLE).await;
    let bytes = bytes.now(&server)?;
    server.stop().await?;
    Ok(bytes)
}

/// Measures memory before and after a fan-out. Publishes each message when all clients have received the
/// previous one, then waits two ping intervals without traffic.
pub(crate) async fn after_fanout(
    kind: ServerKind,
    plan: &Plan,
    binaries: &BenchBinaries,
    placement: &CpuPlacement,
) -> Result<FanoutRow, BenchFailure> {
    let server = MeasuredServer::start(kind, plan, binaries, placement).await?;
    let bytes = Growth::over_empty(&server, plan).await?;
    let errand = Workload::Subscribe(SubscriberTotals::of(plan.fanout, 1));
    let clients = BenchClients::connect(server.clients, plan.connections, plan.rate, errand).await?;
    clients.all_pinged(plan.interval * 2).await?;
    let mut publisher = BroadcastPublisher::connect(server.clients, plan.data_bytes).await?;
    sleep(SETTLE).await;
    let bytes_before = bytes.now(&server)?;

    let subscribers = clients.subscribers().ok_or("the clients have not subscribed")?;
    let expected = |messages: u32| u64::from(plan.connections) * u64::from(messages);
    for message in 1..=plan.fanout {
        publisher.publish().await;
        publisher.confirm(1).await?;
        wait_for_deliveries(subscribers, expected(message), Duration::from_millis(1)).await;
    }
    drop(publisher);
    sleep(SETTLE).await;
    let bytes_at_end = bytes.now(&server)?;
    // Wait until each client has been pinged, and its pong has acknowledged the messages received.
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

/// Growth of resident memory over the empty server.
struct Growth {
    empty: u64,
    connections: u32,
}

impl Growth {
    async fn over_empty(server: &MeasuredServer, plan: &Plan) -> Result<Self, BenchFailure> {
        sleep(SETTLE).await;
        Ok(Self { empty: resident_bytes(server.pid()?)?, connections: plan.connections })
    }

    fn now(&self, server: &MeasuredServer) -> Result<f64, BenchFailure> {
        let resident = resident_bytes(server.pid()?)?;
        Ok((to_real(resident) - to_real(self.empty)) / f64::from(self.connections))
    }
}
