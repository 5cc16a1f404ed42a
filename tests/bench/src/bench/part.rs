//! Parts of the benchmark: each starts a fresh server and adds figures to a row.

use std::time::Duration;

use clap::ValueEnum;
use tokio::time::{Instant, sleep, sleep_until};

use crate::args::BenchArgs;
use crate::crowd::{Activity, Crowd, Publisher};
use crate::report::Row;
use crate::server::{Launcher, SETTLE, ServerKind};
use crate::{BenchFailure, to_real};

/// Ping interval at which no ping falls into a measurement: the first one is sent after half of it.
const NO_PINGS: Duration = Duration::from_secs(600);
/// How long clients send commands before the measurement begins, so that the server reaches a steady state.
const WARM_UP: Duration = Duration::from_secs(6);
/// Number of ping intervals over which the cost of a ping is measured.
const INTERVALS: u32 = 2;
/// Messages per second.
const PUBLISH_RATE: u32 = 2;
/// Data of a message: 100 bytes, including quotes.
const MESSAGE: &str =
    r#""xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx""#;

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Part {
    /// Connecting, memory and pings of connections that do nothing
    Idle,
    /// Memory with 4 subscriptions, with 1, and after a fan-out
    Subscribed,
    /// CPU time and latency of a delivery
    Delivery,
    /// CPU time of a command, with clients that send one every second
    Commands,
}

impl Part {
    /// Returns whether a part can be measured with this server: the controls have neither several channels
    /// nor sessions.
    pub(crate) fn is_for(self, kind: ServerKind) -> bool {
        kind.is_encke() || matches!(self, Self::Idle | Self::Delivery | Self::Commands)
    }

    pub(crate) async fn measure(
        self,
        row: &mut Row,
        args: &BenchArgs,
        launcher: &Launcher,
    ) -> Result<(), BenchFailure> {
        match self {
            Self::Idle => idle(row, args, launcher).await,
            Self::Subscribed => {
                subscribed(row, "bytes_with_4_subscriptions", 4, args, launcher).await?;
                subscribed(row, "bytes_with_1_subscription", 1, args, launcher).await
            }
            Self::Delivery => delivery(row, args, launcher).await,
            Self::Commands => commands(row, args, launcher).await,
        }
    }
}

async fn idle(row: &mut Row, args: &BenchArgs, launcher: &Launcher) -> Result<(), BenchFailure> {
    let server = launcher.start(row.server, args, args.interval).await?;
    row.set("idle_cpu_percent", 100.0 * server.cpu_usage(args.period()).await?);
    let (empty_cpu, empty_bytes) = (server.cpu()?, server.resident_bytes()?);

    let crowd = Crowd::connect(server.clients, args.connections, Activity::Listen(0)).await?;
    sleep(SETTLE).await;
    let (connected_cpu, pings_before) = (server.cpu()?, to_real(crowd.pings()));
    // After an interval, each client has had its first ping.
    sleep(args.interval).await;
    let (begin_cpu, pings) = (server.cpu()?, crowd.pings());
    sleep(args.interval * INTERVALS).await;
    let cpu_per_ping = (server.cpu()? - begin_cpu) / to_real(crowd.pings() - pings);

    let connections = f64::from(args.connections);
    let connect_cpu = connected_cpu - empty_cpu - pings_before * cpu_per_ping;
    row.set("cpu_us_per_ping", 1e6 * cpu_per_ping);
    row.set("connect_cpu_ms_per_1000", 1e6 * connect_cpu / connections);
    row.set("bytes_idle", (server.resident_bytes()? - empty_bytes) / connections);
    row.threads = server.threads()?;
    row.add_errors(crowd.errors());
    server.stop().await
}

/// Measures memory with this many subscriptions. If there is one, also measures it after a fan-out, in which
/// each message is published when all clients have received the previous one.
async fn subscribed(
    row: &mut Row,
    figure: &'static str,
    channels: u32,
    args: &BenchArgs,
    launcher: &Launcher,
) -> Result<(), BenchFailure> {
    let server = launcher.start(row.server, args, args.interval).await?;
    let empty = server.resident_bytes()?;
    let crowd = Crowd::connect(server.clients, args.connections, Activity::Listen(channels)).await?;
    sleep(args.interval + SETTLE).await;
    let before = server.resident_bytes()? - empty;
    row.set(figure, before / f64::from(args.connections));
    if channels == 1 {
        let mut publisher = Publisher::connect(server.clients).await?;
        for message in 1..=10 * args.messages {
            publisher.publish(MESSAGE).await?;
            row.add_errors(crowd.wait_for_messages(message).await);
        }
        // Wait until each client has been pinged, and its pong has acknowledged the messages received.
        sleep(args.interval * 2).await;
        row.set("after_over_before", (server.resident_bytes()? - empty) / before);
    }
    row.add_errors(crowd.errors());
    server.stop().await
}

async fn delivery(row: &mut Row, args: &BenchArgs, launcher: &Launcher) -> Result<(), BenchFailure> {
    let server = launcher.start(row.server, args, NO_PINGS).await?;
    let crowd = Crowd::connect(server.clients, args.subscribers(), Activity::Listen(1)).await?;
    let mut publisher = Publisher::connect(server.clients).await?;
    sleep(SETTLE).await;
    let idle = server.cpu_usage(args.period()).await?;

    let (start, begin) = (Instant::now(), server.cpu()?);
    let due = |index| start + Duration::from_secs(1) * index / PUBLISH_RATE;
    for index in 0..args.messages {
        sleep_until(due(index)).await;
        publisher.publish(MESSAGE).await?;
    }
    let lost = crowd.wait_for_messages(args.messages).await;
    let cpu = server.cpu()? - begin - idle * start.elapsed().as_secs_f64();
    row.set("cpu_us_per_delivery", 1e6 * cpu / to_real(crowd.counts.messages.get()));

    let arrivals = crowd.counts.last_arrivals.borrow().clone();
    let latency = |(index, arrival): (u32, &Instant)| arrival.saturating_duration_since(due(index));
    let mut millis: Vec<_> =
        (0..).zip(arrivals.iter()).map(|arrival| 1e3 * latency(arrival).as_secs_f64()).collect();
    millis.sort_by(f64::total_cmp);
    for (figure, percent) in
        [("last_delivery_p50_ms", 50), ("last_delivery_p99_ms", 99), ("last_delivery_max_ms", 100)]
    {
        // The smallest latency that this percentage of all latencies does not exceed.
        let rank = (millis.len() * percent).div_ceil(100);
        row.set(figure, millis.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN));
    }
    row.add_errors(crowd.errors() + lost);
    server.stop().await
}

async fn commands(row: &mut Row, args: &BenchArgs, launcher: &Launcher) -> Result<(), BenchFailure> {
    let server = launcher.start(row.server, args, NO_PINGS).await?;
    let crowd = Crowd::connect(server.clients, args.subscribers(), Activity::Publish).await?;
    sleep(SETTLE).await;
    let idle = server.cpu_usage(args.period()).await?;
    crowd.begin_commands();
    sleep(WARM_UP).await;
    let (start, before) = (Instant::now(), crowd.counts.replies.get());
    let usage = server.cpu_usage(args.period()).await?;
    let per_second = to_real(crowd.counts.replies.get() - before) / start.elapsed().as_secs_f64();
    row.set("cpu_us_per_command", 1e6 * (usage - idle) / per_second);
    row.add_errors(crowd.errors());
    server.stop().await
}
