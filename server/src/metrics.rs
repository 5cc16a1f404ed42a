//! What the server counts, and its Prometheus text.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use encke_core::session::{Deadline, Phase};
use hdrhistogram::Histogram as Percentiles;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::clock::nanos;
use crate::session::{Channels, Transport};
use crate::timeouts::Timeouts;

/// Every metric of the server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    websocket_connections: Gauge,
    sse_connections: Gauge,
    sessions: [Gauge; SESSION_PHASES.len()],
    session_events: Family<EventLabels, Counter>,
    resumes: Family<OutcomeLabels, Counter>,
    /// One for each deadline of a session, one for all sleeps, one for the ages of logs.
    expiries: [Counter; Deadline::ALL.len()],
    sleep_expiries: Counter,
    log_expiries: Counter,
    lateness: Histogram,
    lateness_percentiles: Mutex<Percentiles<u64>>,
    timer_entries: Gauge,
    stalls: Counter,
    dispatch_depth: Gauge,
    dispatch_age: Histogram,
    last_dispatch_age_nanos: AtomicU64,
    ping_round_trip: Histogram,
    accept_errors: Counter,
    log_lines_dropped: Counter,
    channels: Gauge,
    log_bytes: Gauge,
    messages_published: Counter,
    messages_delivered: Counter,
    gaps: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConnectionLabels {
    transport: &'static str,
    dialect: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabels {
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    event: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeadlineLabels {
    deadline: &'static str,
}

const SESSION_PHASES: [&str; 2] = ["attached", "suspended"];

/// The lateness percentiles of `/api/timers`, in microseconds: up to an hour, to two digits.
const PERCENTILES_HIGHEST: u64 = 3_600_000_000;

/// How late expiries were.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Lateness {
    /// Expiries counted.
    pub(crate) count: u64,
    /// Median, in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile, in milliseconds.
    pub p99_ms: f64,
    /// 99.9th percentile, in milliseconds.
    pub p999_ms: f64,
    /// The latest, in milliseconds.
    pub(crate) max_ms: f64,
}

/// What is read from elsewhere when the metrics are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readings<'a> {
    /// The wheel.
    pub(crate) timeouts: &'a Timeouts,
    /// The channels.
    pub(crate) channels: &'a Channels,
    /// Batches on their way to the workers.
    pub(crate) dispatch_depth: usize,
    /// Log lines that found the writer busy.
    pub(crate) log_lines_dropped: u64,
}

impl Metrics {
    /// All at zero.
    #[must_use]
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("encke");
        let connections = Family::<ConnectionLabels, Gauge>::default();
        let connections = register(&mut registry, "connections", "Open connections.", connections);
        let connections_by =
            |transport| connections.get_or_create(&ConnectionLabels { transport, dialect: "json" }).clone();
        let phases = Family::<PhaseLabels, Gauge>::default();
        let phases = register(&mut registry, "sessions", "Sessions, by phase.", phases);
        let session_events =
            register(&mut registry, "session_events", "Lifecycle events.", Family::default());
        let resumes = register(&mut registry, "resumes", "Resumes asked for, by outcome.", Family::default());
        let expiries = Family::<DeadlineLabels, Counter>::default();
        let expiries =
            register(&mut registry, "timer_expiries", "Deadlines that passed and were acted on.", expiries);
        let help = "How long after its deadline (a ping: after its slack) an expiry was acted on.";
        let lateness = Histogram::new(exponential_buckets(0.001, 2.0, 14));
        let lateness = register(&mut registry, "timer_lateness_seconds", help, lateness);
        let timer_entries =
            register(&mut registry, "timer_entries", "Timers in the wheel.", Gauge::default());
        let help = "Turns of the wheel that came later than planned by more than stall_threshold.";
        let stalls = register(&mut registry, "wheel_stalls", help, Counter::default());
        let help = "Messages of expiries on their way to the workers.";
        let dispatch_depth = register(&mut registry, "dispatch_depth", help, Gauge::default());
        let help = "How long a message of expiries was on its way to a worker.";
        let dispatch_age = Histogram::new(exponential_buckets(0.000_05, 2.0, 16));
        let dispatch_age = register(&mut registry, "dispatch_age_seconds", help, dispatch_age);
        let ping_round_trip = Histogram::new(exponential_buckets(0.000_5, 2.0, 16));
        let help = "From a ping's last byte in the kernel to its pong.";
        let ping_round_trip = register(&mut registry, "ping_rtt_seconds", help, ping_round_trip);
        let help = "Connections that could not be accepted.";
        let accept_errors = register(&mut registry, "accept_errors", help, Counter::default());
        let help = "Log lines that were dropped because the writer was busy.";
        let log_lines_dropped = register(&mut registry, "log_lines_dropped", help, Counter::default());
        let channels = register(&mut registry, "channels", "Channels.", Gauge::default());
        let help = "What the logs of all channels hold.";
        let log_bytes = register(&mut registry, "log_bytes", help, Gauge::default());
        let help = "Messages published.";
        let messages_published = register(&mut registry, "messages_published", help, Counter::default());
        let help = "Messages handed to connections, those sent again included.";
        let messages_delivered = register(&mut registry, "messages_delivered", help, Counter::default());
        let help = "Gaps told.";
        let gaps = register(&mut registry, "gaps", help, Counter::default());
        let deadline = |deadline| expiries.get_or_create(&DeadlineLabels { deadline }).clone();
        Self {
            websocket_connections: connections_by("websocket"),
            sse_connections: connections_by("sse"),
            sessions: SESSION_PHASES.map(|phase| phases.get_or_create(&PhaseLabels { phase }).clone()),
            session_events,
            resumes,
            sleep_expiries: deadline("sleep"),
            log_expiries: deadline("log"),
            expiries: Deadline::ALL.map(|which| deadline(which.as_str())),
            lateness,
            lateness_percentiles: Mutex::new(
                Percentiles::new_with_max(PERCENTILES_HIGHEST, 2).expect("two digits fit the range"),
            ),
            timer_entries,
            stalls,
            dispatch_depth,
            dispatch_age,
            last_dispatch_age_nanos: AtomicU64::new(0),
            ping_round_trip,
            accept_errors,
            log_lines_dropped,
            channels,
            log_bytes,
            messages_published,
            messages_delivered,
            gaps,
            registry,
        }
    }

    /// The metrics in the OpenMetrics text format, which Prometheus reads.
    #[must_use]
    pub(crate) fn encode(&self, readings: &Readings<'_>) -> String {
        let stalls = readings.timeouts.stats.stalls.load(Ordering::Relaxed);
        self.timer_entries.set(as_gauge(readings.timeouts.entries()));
        self.dispatch_depth.set(as_gauge(readings.dispatch_depth));
        self.channels.set(as_gauge(readings.channels.len()));
        self.log_bytes.set(as_gauge(readings.channels.bytes()));
        catch_up(&self.stalls, stalls);
        catch_up(&self.log_lines_dropped, readings.log_lines_dropped);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .expect("writing to a String does not fail");
        text
    }

    /// How late expiries were since the start.
    #[must_use]
    pub(crate) fn lateness(&self) -> Lateness {
        let percentiles = self.lateness_percentiles.lock();
        let at = |quantile| millis(percentiles.value_at_quantile(quantile));
        Lateness {
            count: percentiles.len(),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: millis(percentiles.max()),
        }
    }

    pub(crate) fn deadline_fired(&self, deadline: Deadline, lateness: Duration) {
        self.expiries[deadline as usize].inc();
        self.lateness.observe(lateness.as_secs_f64());
        let micros = u64::try_from(lateness.as_micros()).unwrap_or(u64::MAX);
        self.lateness_percentiles.lock().saturating_record(micros);
    }

    pub(crate) fn sleep_fired(&self) {
        self.sleep_expiries.inc();
    }

    pub(crate) fn log_fired(&self) {
        self.log_expiries.inc();
    }

    pub(crate) fn published(&self) {
        self.messages_published.inc();
    }

    /// What one turn of one connection took from the logs.
    pub(crate) fn delivered(&self, messages: u64, gaps: u64) {
        if messages > 0 {
            self.messages_delivered.inc_by(messages);
        }
        if gaps > 0 {
            self.gaps.inc_by(gaps);
        }
    }

    pub(crate) fn batch_taken_up(&self, age: Duration) {
        self.dispatch_age.observe(age.as_secs_f64());
        self.last_dispatch_age_nanos.store(nanos(age), Ordering::Relaxed);
    }

    /// How long the message of expiries that was taken up last had been on its way.
    #[must_use]
    pub(crate) fn last_dispatch_age(&self) -> Duration {
        Duration::from_nanos(self.last_dispatch_age_nanos.load(Ordering::Relaxed))
    }

    pub(crate) fn ping_round_trip(&self, time: Duration) {
        self.ping_round_trip.observe(time.as_secs_f64());
    }

    pub(crate) fn session_event(&self, event: &'static str, reason: &'static str) {
        self.session_events.get_or_create(&EventLabels { event, reason }).inc();
    }

    pub(crate) fn resumed(&self, recovered: bool) {
        let outcome = if recovered { "recovered" } else { "new_session" };
        self.resumes.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    pub(crate) fn session_phase(&self, before: Option<Phase>, after: Phase) {
        let gauge = |phase| match phase {
            Phase::Attached(_) => Some(&self.sessions[0]),
            Phase::Suspended => Some(&self.sessions[1]),
            Phase::Closed(_) => None,
        };
        if before == Some(after) {
            return;
        }
        if let Some(left) = before.and_then(gauge) {
            left.dec();
        }
        if let Some(entered) = gauge(after) {
            entered.inc();
        }
    }

    pub(crate) fn connections(&self, transport: Transport) -> &Gauge {
        match transport {
            Transport::WebSocket => &self.websocket_connections,
            Transport::Events => &self.sse_connections,
        }
    }

    pub(crate) fn accept_failed(&self) {
        self.accept_errors.inc();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn register<M: prometheus_client::registry::Metric + Clone>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    metric: M,
) -> M {
    // The registry ends the sentence itself.
    registry.register(name, help.trim_end_matches('.'), metric.clone());
    metric
}

/// Brings a counter up to a count that is kept elsewhere.
fn catch_up(counter: &Counter, count: u64) {
    counter.inner().fetch_max(count, Ordering::Relaxed);
}

fn as_gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "an hour of microseconds is far below 2^53")]
fn millis(micros: u64) -> f64 {
    micros as f64 / 1_000.0
}
