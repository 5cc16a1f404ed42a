//! One channel, many subscribers: what a delivery costs, and when a message has reached the last of them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};

use crate::Failure;
use crate::args::Plan;
use crate::clients::{Clients, Errand};
use crate::pairs::Measured;
use crate::placement::Placement;
use crate::process::{Binaries, Kind, Server};
use crate::publisher::Publisher;
use crate::sample::{cpu_time, threads};
use crate::scenario::{SETTLE, per_unit, to_real};
use crate::statistics::percentile;
use crate::subscribers::Subscribers;

/// How long to wait for deliveries while none comes.
const GRACE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The figures of one server in one run.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) run: u32,
    pub(crate) server: Kind,
    pub(crate) connections: u32,
    pub(crate) threads: BTreeMap<String, u32>,
    /// Of one processor, with all subscribers and nothing to do.
    pub(crate) idle_cpu_percent: f64,
    /// From the first publish to the last delivery.
    pub(crate) publishing_seconds: f64,
    /// Of one processor, meanwhile.
    pub(crate) busy_cpu_percent: f64,
    /// Without what the server takes when idle.
    pub(crate) cpu_us_per_delivery: f64,
    /// The same, for the threads of each name, idle included.
    pub(crate) cpu_us_per_delivery_by_thread: BTreeMap<String, f64>,
    pub(crate) expected: u64,
    pub(crate) received: u64,
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) misordered: u64,
    /// Texts to subscribers that are none of the messages.
    pub(crate) other: u64,
    pub(crate) unexpected_closes: u32,
    /// From when a message was due to its last delivery.
    pub(crate) last_delivery_ms: Latency,
}

#[derive(Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Measured for Row {
    fn run(&self) -> u32 {
        self.run
    }

    fn server(&self) -> Kind {
        self.server
    }
}

/// Starts a server, has it broadcast, reads it, ends it.
pub(crate) async fn measure(
    run: u32,
    kind: Kind,
    plan: &Plan,
    binaries: &Binaries,
    placement: &Placement,
) -> Result<Row, Failure> {
    let server = Server::start(kind, plan, binaries, placement).await?;
    let pid = server.pid()?;
    sleep(SETTLE).await;
    let errand = Errand::Subscribe(Subscribers::of(plan.messages, 1));
    let clients = Clients::connect(server.clients, plan.connections, plan.rate, errand).await?;
    let mut publisher = Publisher::connect(server.clients, plan.data_bytes).await?;
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
    all_arrived(subscribers, expected, POLL_INTERVAL).await;
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
    Ok(Row {
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
        last_delivery_ms: Latency::of(latencies.collect()),
    })
}

/// Waits for the last delivery, or until nothing has come for a while.
pub(crate) async fn all_arrived(subscribers: &Subscribers, expected: u64, poll_interval: Duration) {
    let (mut received, mut since) = (subscribers.received.get(), Instant::now());
    while received < expected && since.elapsed() < GRACE {
        sleep(poll_interval).await;
        if subscribers.received.get() > received {
            (received, since) = (subscribers.received.get(), Instant::now());
        }
    }
}

impl Latency {
    fn of(mut millis: Vec<f64>) -> Self {
        millis.sort_by(f64::total_cmp);
        let at = |quantile| percentile(&millis, quantile).unwrap_or(f64::NAN);
        Self { p50: at(0.50), p99: at(0.99), max: at(1.0) }
    }
}
