//! Measures the heartbeat of one server in one run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::BenchFailure;
use crate::args::Plan;
use crate::clients::{BenchClients, Workload};
use crate::comparison::Measurement;
use crate::placement::CpuPlacement;
use crate::process::{BenchBinaries, MeasuredServer, ServerKind};
use crate::sample::{ThreadGroup, cpu_time, resident_bytes, threads};

/// Time for a server to settle after it has started, or after the last client has connected.
pub(crate) const SETTLE: Duration = Duration::from_millis(500);

/// Results of one server in one run.
#[derive(Debug, Serialize)]
pub(crate) struct HeartbeatRow {
    pub(crate) run: u32,
    pub(crate) server: ServerKind,
    pub(crate) connections: u32,
    /// Number of threads by name, while all clients are connected.
    pub(crate) threads: BTreeMap<String, u32>,
    /// CPU usage in percent of one processor, before the first client connects.
    pub(crate) idle_cpu_percent: f64,
    pub(crate) connect_seconds: f64,
    /// CPU time of 1,000 connections, without the pings during that time, at `cpu_us_per_ping` each.
    pub(crate) connect_cpu_ms_per_1000: f64,
    pub(crate) connect_cpu_ms_per_1000_with_pings: f64,
    pub(crate) pings_while_connecting: u64,
    pub(crate) rss_bytes_empty: u64,
    /// Growth of resident memory over the empty server, after the last window.
    pub(crate) rss_bytes_per_connection: f64,
    /// The same, measured [`SETTLE`] after the last hello.
    pub(crate) rss_bytes_per_connection_at_first: f64,
    /// Number of pings answered in the windows.
    pub(crate) pings: u64,
    pub(crate) cpu_us_per_ping: f64,
    /// The same by thread name.
    pub(crate) cpu_us_per_ping_by_thread: BTreeMap<String, f64>,
    pub(crate) unexpected_closes: u32,
    /// `lateness` of `/api/timers` at the end; null for the controls.
    pub(crate) lateness: Option<serde_json::Value>,
}

impl Measurement for HeartbeatRow {
    fn run(&self) -> u32 {
        self.run
    }

    fn server(&self) -> ServerKind {
        self.server
    }
}

/// CPU time used and pings answered.
#[derive(Clone, Copy)]
struct PingCost {
    cpu: Duration,
    pings: u64,
}

/// Starts a server, connects the clients, samples the process, and stops it.
pub(crate) async fn measure(
    run: u32,
    kind: ServerKind,
    plan: &Plan,
    binaries: &BenchBinaries,
    placement: &CpuPlacement,
) -> Result<HeartbeatRow, BenchFailure> {
    let server = MeasuredServer::start(kind, plan, binaries, placement).await?;
    let pid = server.pid()?;
    sleep(SETTLE).await;
    let before_idle = cpu_time(pid)?;
    let idle_since = Instant::now();
    sleep(plan.idle).await;
    let empty = PingCost { cpu: cpu_time(pid)?, pings: 0 };
    let idle = (empty.cpu - before_idle).as_secs_f64() / idle_since.elapsed().as_secs_f64();
    let rss_empty = resident_bytes(pid)?;

    let connecting_since = Instant::now();
    let clients = BenchClients::connect(server.clients, plan.connections, plan.rate, Workload::None).await?;
    let connect_seconds = connecting_since.elapsed().as_secs_f64();
    sleep(SETTLE).await;
    let spent =
        || -> Result<PingCost, BenchFailure> { Ok(PingCost { cpu: cpu_time(pid)?, pings: clients.pings() }) };
    let connected = spent()?;
    let rss_connected = resident_bytes(pid)?;

    clients.all_pinged(plan.interval * 2).await?;
    let threads_begin = threads(pid)?;
    let begin = spent()?;
    sleep(plan.interval * plan.windows).await;
    let end = spent()?;
    let threads_end = threads(pid)?;
    let rss_end = resident_bytes(pid)?;
    let timers = server.query_admin("/api/timers").await?;
    let unexpected_closes = clients.ended();
    server.stop().await?;

    let pings = end.pings - begin.pings;
    let cpu_per_ping = (end.cpu - begin.cpu).as_secs_f64() / to_real(pings);
    let connect_cpu = (connected.cpu - empty.cpu).as_secs_f64();
    let ping_cpu = cpu_per_ping * to_real(connected.pings);
    let connections = f64::from(plan.connections);
    let growth = |rss: u64| (to_real(rss) - to_real(rss_empty)) / connections;
    Ok(HeartbeatRow {
        run,
        server: kind,
        connections: plan.connections,
        threads: threads_end.iter().map(|(name, named)| (name.clone(), named.count)).collect(),
        idle_cpu_percent: 100.0 * idle,
        connect_seconds,
        connect_cpu_ms_per_1000: 1e6 * (connect_cpu - ping_cpu) / connections,
        connect_cpu_ms_per_1000_with_pings: 1e6 * connect_cpu / connections,
        pings_while_connecting: connected.pings,
        rss_bytes_empty: rss_empty,
        rss_bytes_per_connection: growth(rss_end),
        rss_bytes_per_connection_at_first: growth(rss_connected),
        pings,
        cpu_us_per_ping: 1e6 * cpu_per_ping,
        cpu_us_per_ping_by_thread: per_unit(&threads_begin, &threads_end, pings),
        unexpected_closes,
        lateness: timers.and_then(|mut timers| timers.get_mut("lateness").map(serde_json::Value::take)),
    })
}

/// Returns the CPU time by thread name, in microseconds per unit.
pub(crate) fn per_unit(
    begin: &BTreeMap<String, ThreadGroup>,
    end: &BTreeMap<String, ThreadGroup>,
    units: u64,
) -> BTreeMap<String, f64> {
    let spent = |(name, threads): (&String, &ThreadGroup)| {
        let before = begin.get(name).copied().unwrap_or_default().cpu;
        (name.clone(), 1e6 * threads.cpu.saturating_sub(before).as_secs_f64() / to_real(units))
    };
    end.iter().map(spent).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
pub(crate) fn to_real(count: u64) -> f64 {
    count as f64
}
