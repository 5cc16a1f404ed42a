//! One channel with many subscribers: the cost of a delivery, and the time until a message has reached the
//! last subscriber.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};

use crate::BenchFailure;
use crate::args::Plan;
use crate::clients::{BenchClients, Workload};
use crate::comparison::Measurement;
use crate::heartbeat::{SETTLE, per_unit, to_real};
use crate::placement::CpuPlacement;
use crate::process::{BenchBinaries, MeasuredServer, ServerKind};
use crate::publisher::BroadcastPublisher;
use crate::sample::{cpu_time, threads};
use crate::statistics::percentile;
use crate::subscribers::SubscriberTotals;

/// How long to wait without a delivery before the missing deliveries count as lost.
const GRACE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Results of one server in one run.
#[derive(Debug, Serialize)]
pub(crate) struct BroadcastRow {
    pub(crate) run: u32,
    pub(crate) server: ServerKind,
    pub(crate) connections: u32,
    pub(crate) threads: BTreeMap<String, u32>,
    /// CPU usage in percent of one processor, while all clients are subscribed and nothing is published.
    pub(crate) idle_cpu_percent: f64,
    /// Time from the first publish to the last delivery.
    pub(crate) publishing_seconds: f64,
    /// CPU usage in percent of one processor during that time.
    pub(crate) busy_cpu_percent: f64,
    /// CPU time of a delivery, without the server's idle load.
    pub(crate) cpu_us_per_delivery: f64,
    /// The same by thread name, with the idle load.
    pub(crate) cpu_us_per_delivery_by_thread: BTreeMap<String, f64>,
    pub(crate) expected: u64,
    pub(crate) received: u64,
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) misordered: u64,
    /// Number of texts received by subscribers that are not one of the messages.
    pub(crate) other: u64,
    pub(crate) unexpected_closes: u32,
    /// Time from the scheduled publish of a message to its last delivery.
    pub(crate) last_delivery_ms: DeliveryLatency,
}

#[derive(Debug, Serialize)]
pub(crate) struct DeliveryLatency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Measurement for BroadcastRow {
    fn run(&self) -> u32 {
        self.run
    }

    fn server(&self) -> ServerKind {
        self.server
    }
}

/// Starts a server, publishes to all subscribers, samples the process, and stops it.
pub(crate) async fn measure(
    run: u32,
    kind: ServerKind,
    plan: &Plan,
    binaries: &BenchBinaries,
    placement: &CpuPlacement,
) -> Result<BroadcastRow, BenchFailure> {
    let server = MeasuredServer::start(kind, plan, binaries, placement).await?;
    let pid = server.pid()?;
    sleep(SETTLE).await;
    let errand = Workload::Subscribe(SubscriberTotals::of(plan.messages, 1));
    let clients = BenchClients::connect(server.clients, plan.connections, plan.rate, errand).await?;
    let mut publisher = BroadcastPublisher::connect(server.clients, plan.data_bytes).await?;
    sleep(SETTLE).await;

    let (idle_since, before_idle) = (Instant::now(), cpu_time(pid)?);
    sleep(plan.idle).await;
    let idle = (cpu_time(pid)? - before_idle).as_secs_f64() / idle_since.elapsed().as_secs_f64();

    let threads_begin = threads(pid)?;
    let (start, begin) = (Instant::now(), cpu_time(pid)?);
    let due = |index: u32| start + Duration::from_secs(1) * index / plan.publish_rate;
    for index in 0..plan.messages {
        sleep_until(due(index)).await;
        publisher.publish().await;
    }
    let expected = u64::from(plan.connections) * u64::from(plan.messages);
    let subscribers = clients.subscribers().ok_or("the clients have not subscribed")?;
    wait_for_deliveries(subscribers, expected, POLL_INTERVAL).await;
    let (took, end) = (start.elapsed().as_secs_f64(), cpu_time(pid)?);
    let threads_end = threads(pid)?;
    let unexpected_closes = clients.ended();
    publisher.confirm(plan.messages).await?;
    server.stop().await?;

    let received = subscribers.received.get();
    let busy = (end - begin).as_secs_f64();
    let latencies = (0..)
        .zip(subscribers.last())
        .filter_map(|(index, last)| Some(1e3 * last?.saturating_duration_since(due(index)).as_secs_f64()));
    Ok(BroadcastRow {
        run,
        server: kind,
        connections: plan.connections,
        threads: threads_end.iter().map(|(name, named)| (name.clone(), named.count)).collect(),
        idle_cpu_percent: 100.0 * idle,
        publishing_seconds: took,
        busy_cpu_percent: 100.0 * busy / took,
        cpu_us_per_delivery: 1e6 * (busy - idle * took) / to_real(received),
        cpu_us_per_delivery_by_thread: per_unit(&threads_begin, &threads_end, received),
        expected,
        received,
        lost: expected - received,
        duplicated: subscribers.duplicated.get(),
        misordered: subscribers.misordered.get(),
        other: subscribers.other.get(),
        unexpected_closes,
        last_delivery_ms: DeliveryLatency::of(latencies.collect()),
    })
}

/// Waits until all deliveries have arrived, or none has for [`GRACE`].
pub(crate) async fn wait_for_deliveries(
    subscribers: &SubscriberTotals,
    expected: u64,
    poll_interval: Duration,
) {
    let (mut received, mut since) = (subscribers.received.get(), Instant::now());
    while received < expected && since.elapsed() < GRACE {
        sleep(poll_interval).await;
        if subscribers.received.get() > received {
            (received, since) = (subscribers.received.get(), Instant::now());
        }
    }
}

impl DeliveryLatency {
    fn of(mut millis: Vec<f64>) -> Self {
        millis.sort_by(f64::total_cmp);
        let at = |quantile| percentile(&millis, quantile).unwrap_or(f64::NAN);
        Self { p50: at(0.50), p99: at(0.99), max: at(1.0) }
    }
}
