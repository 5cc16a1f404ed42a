//! Metrics of the server, and their encoding as text for Prometheus.
//!
//! Each part of the server has its own struct of metrics. All metrics are registered in this module.

mod backend;
mod channels;
mod connections;
mod engine;
mod gauge;
mod histogram;
mod issuer;
mod labelled;
mod limits;
mod process;
mod reminders;
mod sessions;
mod sharing;
mod timers;
mod trace;
mod webhooks;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Metric, Registry};

use channels::ChannelMetrics;
use connections::ConnectionMetrics;
use engine::EngineMetrics;
use gauge::as_gauge;
use issuer::IssuerMetrics;
use limits::LimitMetrics;
use process::ProcessMetrics;
use reminders::ReminderMetrics;
use sessions::SessionMetrics;
use sharing::SharingMetrics;
use webhooks::WebhookMetrics;

pub use backend::BackendMetrics;
pub use channels::MessageCounts;
pub use connections::ConnectionsView;
pub use engine::EngineView;
pub use limits::LimitUsage;
pub use process::ProcessView;
pub use reminders::ReminderOutcome;
pub use sessions::SessionsView;
pub use sharing::ClaimResult;
pub use timers::{Lateness, TimerMetrics};
pub(crate) use trace::DroppedSpans;
pub use webhooks::WebhookCounters;

/// Every metric of the server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Metrics with standard names, which have no `encke` prefix.
    common: Registry,
    pub timers: TimerMetrics,
    pub channels: ChannelMetrics,
    pub sessions: SessionMetrics,
    pub connections: ConnectionMetrics,
    /// Metrics of a remote engine.
    pub engine: EngineMetrics,
    /// Metrics of sessions that several servers share.
    pub sharing: SharingMetrics,
    pub webhooks: WebhookMetrics,
    pub reminders: ReminderMetrics,
    pub backend: Arc<BackendMetrics>,
    pub issuer: IssuerMetrics,
    limits: LimitMetrics,
    process: ProcessMetrics,
    /// Spans that are missing from traces. Zero in a build without tracing.
    pub(crate) trace_dropped: Family<DroppedSpans, Counter>,
    log_lines_dropped: Counter,
}

/// Values that are stored elsewhere and read when metrics are requested.
#[derive(Clone, Copy, Debug, Default)]
pub struct Readings {
    pub timer_entries: usize,
    /// Number of stalls of the wheel since the start.
    pub stalls: u64,
    /// Number of batches of expiries queued for the workers.
    pub dispatch_depth: usize,
    /// Age of the oldest expiry that no worker has processed yet.
    pub dispatch_age: Duration,
    /// Number of worker panics since the start.
    pub worker_panics: u64,
    pub channels: usize,
    /// Size of all logs together.
    pub log_bytes: usize,
    pub partial_message_bytes: usize,
    pub reminders: usize,
    /// Number of log lines dropped because the writer was busy.
    pub log_lines_dropped: u64,
    pub process: ProcessView,
    /// Start time of the server, as the time since 1970.
    pub started_at: Duration,
}

impl Metrics {
    /// Returns metrics that are all zero.
    #[must_use]
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("encke"),
            common: Registry::default(),
            timers: TimerMetrics::new(),
            channels: ChannelMetrics::default(),
            sessions: SessionMetrics::new(),
            connections: ConnectionMetrics::new(),
            engine: EngineMetrics::new(),
            sharing: SharingMetrics::new(),
            webhooks: WebhookMetrics::default(),
            reminders: ReminderMetrics::new(),
            backend: Arc::default(),
            issuer: IssuerMetrics::default(),
            limits: LimitMetrics::default(),
            process: ProcessMetrics::default(),
            trace_dropped: DroppedSpans::counters(),
            log_lines_dropped: Counter::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let Self {
            registry,
            common,
            timers,
            channels,
            sessions,
            connections,
            engine,
            sharing,
            webhooks,
            reminders,
            backend,
            issuer,
            limits,
            process,
            trace_dropped,
            log_lines_dropped,
        } = self;
        let mut add = Registrar(registry);
        let help = "Time from the publish of a message until the kernel accepted its last byte for a subscriber; measured for one in 128 deliveries, but not while a client catches up after connecting or subscribing";
        add.register("delivery_seconds", help, &connections.delivery_seconds);
        add.register("connections", "Open connections", &connections.open);
        let help = "Parked connections, which have no task; encke_connections includes them";
        add.register("connections_parked", help, &connections.parked);
        add.register("connections_unparked", "How often connections were unparked", &connections.unparked);
        add.register("sessions", "Sessions, by phase", &sessions.by_phase);
        add.register("session_events", "Session lifecycle events", &sessions.events);
        add.register("resumes", "Attempts to resume a session, by outcome", &sessions.resumes);
        add.register("timer_expiries", "Expired deadlines that were processed", &timers.expiries);
        let help = "Time from a deadline until its expiry was processed; for pings, the deadline includes timers.ping_slack";
        add.register("timer_lateness_seconds", help, &timers.lateness);
        add.register("timer_entries", "Timers in the wheel", &timers.entries);
        let help = "How often the wheel thread woke up more than timers.stall_threshold later than planned";
        add.register("wheel_stalls", help, &timers.stalls);
        let help = "Batches of expired timers that wait for a worker";
        add.register("dispatch_depth", help, &timers.dispatch_depth);
        let help = "Age of the oldest expiry that no worker has processed yet";
        add.register("dispatch_age_seconds", help, &timers.dispatch_age);
        let help = "How long a batch of expired timers waited for a worker";
        add.register("dispatch_delay_seconds", help, &timers.dispatch_delay);
        let help = "Worker panics; after a panic, the worker continues with the next expiry";
        add.register("worker_panics", help, &timers.worker_panics);
        let help = "Time from writing the last byte of a ping to the kernel until receiving its pong";
        add.register("ping_rtt_seconds", help, &sessions.ping_round_trip);
        add.register("refusals", "Refused connections, by reason", &connections.refusals);
        add.register(
            "accept_errors",
            "Connections that could not be accepted, or had to wait for a file descriptor",
            &connections.accept_errors,
        );
        let help = "Memory used by partially received messages";
        add.register("partial_message_bytes", help, &connections.partial_message_bytes);
        let help = "Connections closed because partial messages exceeded limits.receive_total";
        add.register("partial_messages_closed", help, &connections.partial_messages_closed);
        let help = "Log lines dropped because the writer was busy";
        add.register("log_lines_dropped", help, log_lines_dropped);
        add.register("channels", "Channels", &channels.channels);
        add.register("log_bytes", "Total size of the histories of all channels", &channels.log_bytes);
        add.register("messages_published", "Published messages", &channels.published);
        let help = "Messages sent to connections, including those sent again";
        add.register("messages_delivered", help, &channels.delivered);
        add.register("gaps", "Gaps sent to sessions", &channels.gaps);
        let help = "Join and leave notifications (join_leave) that could not be published";
        add.register("join_leave_lost", help, &channels.join_leave_lost);
        let help = "1 if channels are stored in a remote engine, otherwise 0";
        add.register("engine_remote", help, &engine.remote);
        add.register("engine_up", "1 while the remote engine can be reached, otherwise 0", &engine.up);
        add.register("engine_connects", "Connections opened to the remote engine", &engine.connects);
        add.register(
            "engine_generation",
            "Generation of the remote engine's data set; increases whenever the master changes or Redis restarts",
            &engine.generation,
        );
        add.register(
            "engine_publish_seconds",
            "How long a publish to the remote engine took",
            &engine.publish_seconds,
        );
        let help = "Time from publishing a probe to the remote engine until it was received";
        add.register("engine_feed_lag_seconds", help, &engine.feed_lag_seconds);
        let help = "How often the server subscribed to a channel in the remote engine, or read the missing messages of a channel";
        add.register("engine_channel_opens", help, &engine.channel_opens);
        let help = "Servers that share channels through the remote engine, including this one";
        add.register("engine_servers", help, &engine.servers);
        let help = "Claims of sessions that this server did not have (engine.share_sessions)";
        add.register("session_claims", help, &sharing.claims);
        let help = "Sessions that were released to another server";
        add.register("sessions_released", help, &sharing.released);
        let help = "Sessions that were adopted from servers that had failed or shut down";
        add.register("sessions_adopted", help, &sharing.adopted);
        let help = "Sessions that were dropped because another server owns them";
        add.register("sessions_fenced", help, &sharing.fenced);
        let help = "1 while this server holds its lease (engine.share_sessions), otherwise 0";
        add.register("lease_held", help, &sharing.has_lease);
        add.register("webhook_queued", "Events queued for a webhook, or being sent to it", &webhooks.queued);
        let help =
            "Events delivered to a webhook, dropped because its queue was full, or dropped after retry_for";
        add.register("webhook_events", help, &webhooks.events);
        add.register("webhook_requests", "Webhook requests, by outcome", &webhooks.requests);
        add.register("reminders", "Pending reminders", &reminders.waiting);
        let help = "Due reminders that were published, were sent to their webhook, or could not be published";
        add.register("reminders_due", help, &reminders.fired);
        add.register("backend_requests", "Requests to the backend, by outcome", &backend.requests);
        add.register(
            "backend_seconds",
            "How long requests to the backend took, including failed ones",
            &backend.seconds,
        );
        add.register("backend_in_flight", "Unfinished requests to the backend", &backend.in_flight);
        let help = "1 while the circuit breaker is open for all clients, because requests of several clients have failed; otherwise 0";
        add.register("backend_circuit_open", help, &backend.circuit_open);
        add.register("issuer_reads", "Attempts to read the issuer's key set, by outcome", &issuer.reads);
        add.register("issuer_keys", "Usable keys in the issuer's key set", &issuer.keys);
        let help = "When the issuer's key set was last read, in seconds since 1970";
        add.register("issuer_read_timestamp_seconds", help, &issuer.read_at);
        add.register("limit_used", "Current use of each limit", &limits.used);
        add.register("limit_max", "Value of each limit, by configuration key", &limits.max);
        add.register("trace_dropped", "Trace spans that were not exported, by reason", trace_dropped);
        let mut add = Registrar(common);
        add.register(
            "process_resident_memory_bytes",
            "Resident memory of the process",
            &process.resident_bytes,
        );
        let help = "Virtual memory of the process";
        add.register("process_virtual_memory_bytes", help, &process.virtual_bytes);
        add.register("process_cpu_seconds", "Processor time of the process", &process.processor_seconds);
        let help = "Open file descriptors; absent before Linux 6.2";
        add.register("process_open_fds", help, &process.open_descriptors);
        add.register("process_max_fds", "Maximum number of open file descriptors", &process.max_descriptors);
        let help = "When the server was started, in seconds since 1970";
        add.register("process_start_time_seconds", help, &process.started_at);
    }

    /// Encodes the metrics in the OpenMetrics text format, which Prometheus reads.
    #[must_use]
    pub fn encode(&self, readings: &Readings, limits: &[LimitUsage<'_>]) -> String {
        self.limits.set(limits);
        self.process.set(&readings.process, readings.started_at);
        self.timers.entries.set(as_gauge(readings.timer_entries));
        self.timers.dispatch_depth.set(as_gauge(readings.dispatch_depth));
        self.timers.dispatch_age.set(readings.dispatch_age.as_secs_f64());
        catch_up(&self.timers.worker_panics, readings.worker_panics);
        self.channels.channels.set(as_gauge(readings.channels));
        self.channels.log_bytes.set(as_gauge(readings.log_bytes));
        self.reminders.waiting.set(as_gauge(readings.reminders));
        self.connections.partial_message_bytes.set(as_gauge(readings.partial_message_bytes));
        catch_up(&self.timers.stalls, readings.stalls);
        catch_up(&self.log_lines_dropped, readings.log_lines_dropped);
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)
            .and_then(|()| encode_registry(&mut text, &self.common))
            .and_then(|()| encode_eof(&mut text))
            .expect("writing to a String does not fail");
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

struct Registrar<'a>(&'a mut Registry);

impl Registrar<'_> {
    /// Registers a clone of `metric`, which shares the metric's value. The registry adds a full stop to
    /// `help`.
    fn register<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: &M) {
        self.0.register(name, help, metric.clone());
    }
}

/// Raises a counter to a count that is stored elsewhere.
fn catch_up(counter: &Counter, count: u64) {
    counter.inner().fetch_max(count, Ordering::Relaxed);
}
