//! What the server counts, and its Prometheus text.
//!
//! Each room counts into a struct of its own. All are registered here.

mod backend;
mod channels;
mod connections;
mod engine;
mod histogram;
mod issuer;
mod labelled;
mod limits;
mod process;
mod reminders;
mod sessions;
mod timers;
#[cfg(feature = "otlp")]
mod trace;
mod webhooks;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::{Metric, Registry};

use channels::ChannelMetrics;
use connections::ConnectionMetrics;
use engine::EngineMetrics;
use issuer::IssuerMetrics;
use limits::LimitMetrics;
use process::ProcessMetrics;
use reminders::ReminderMetrics;
use sessions::SessionMetrics;
#[cfg(feature = "otlp")]
use trace::TraceMetrics;
use webhooks::WebhookMetrics;

pub(crate) use backend::BackendMetrics;
pub(crate) use channels::Messages;
pub(crate) use connections::ConnectionsView;
pub(crate) use engine::EngineView;
pub(crate) use limits::Limit;
pub(crate) use process::ProcessView;
pub(crate) use reminders::ReminderOutcome;
pub(crate) use sessions::SessionsView;
pub(crate) use timers::{Lateness, TimerMetrics};
pub(crate) use webhooks::WebhookCounters;

/// Every metric of the server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// What is named as other programs name it, without our own name before it.
    common: Registry,
    pub(crate) timers: TimerMetrics,
    pub(crate) channels: ChannelMetrics,
    pub(crate) sessions: SessionMetrics,
    pub(crate) connections: ConnectionMetrics,
    /// Of an engine that is elsewhere.
    pub(crate) engine: EngineMetrics,
    pub(crate) webhooks: WebhookMetrics,
    pub(crate) reminders: ReminderMetrics,
    pub(crate) backend: Arc<BackendMetrics>,
    pub(crate) issuer: IssuerMetrics,
    limits: LimitMetrics,
    process: ProcessMetrics,
    #[cfg(feature = "otlp")]
    pub(crate) trace: TraceMetrics,
    log_lines_dropped: Counter,
}

/// Counts that are kept elsewhere and read when the metrics are asked for.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(Default))]
pub(crate) struct Readings {
    /// Timers in the wheel.
    pub(crate) timer_entries: usize,
    /// Stalls of the wheel since the start.
    pub(crate) stalls: u64,
    /// Batches on their way to the workers.
    pub(crate) dispatch_depth: usize,
    /// How long the oldest expiry has waited for a worker.
    pub(crate) dispatch_age: Duration,
    /// Panics that workers have survived.
    pub(crate) worker_panics: u64,
    pub(crate) channels: usize,
    /// Of all logs together.
    pub(crate) log_bytes: usize,
    pub(crate) unfinished_bytes: usize,
    pub(crate) reminders: usize,
    /// Log lines that found the writer busy.
    pub(crate) log_lines_dropped: u64,
    /// What the process takes.
    pub(crate) process: ProcessView,
    /// When the server was started, since 1970.
    pub(crate) started_at: Duration,
}

impl Metrics {
    /// All at zero.
    #[must_use]
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("encke"),
            common: Registry::default(),
            timers: TimerMetrics::new(),
            channels: ChannelMetrics::default(),
            sessions: SessionMetrics::new(),
            connections: ConnectionMetrics::new(),
            engine: EngineMetrics::new(),
            webhooks: WebhookMetrics::default(),
            reminders: ReminderMetrics::new(),
            backend: Arc::default(),
            issuer: IssuerMetrics::default(),
            limits: LimitMetrics::default(),
            process: ProcessMetrics::default(),
            #[cfg(feature = "otlp")]
            trace: TraceMetrics::new(),
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
            webhooks,
            reminders,
            backend,
            issuer,
            limits,
            process,
            #[cfg(feature = "otlp")]
            trace,
            log_lines_dropped,
        } = self;
        let mut add = Add(registry);
        add.metric("connections", "Open connections", &connections.open);
        let help = "Connections without a task, which are open, too";
        add.metric("connections_at_rest", help, &connections.at_rest);
        add.metric("connections_woken", "Connections that got a task again", &connections.woken);
        add.metric("sessions", "Sessions, by phase", &sessions.by_phase);
        add.metric("session_events", "Lifecycle events", &sessions.events);
        add.metric("resumes", "Resumes asked for, by outcome", &sessions.resumes);
        add.metric("timer_expiries", "Deadlines that passed and were acted on", &timers.expiries);
        let help = "How long after its deadline (a ping: after its slack) an expiry was acted on";
        add.metric("timer_lateness_seconds", help, &timers.lateness);
        add.metric("timer_entries", "Timers in the wheel", &timers.entries);
        let help = "Turns of the wheel that came later than planned by more than stall_threshold";
        add.metric("wheel_stalls", help, &timers.stalls);
        let help = "Messages of expiries on their way to the workers";
        add.metric("dispatch_depth", help, &timers.dispatch_depth);
        let help = "How long the oldest expiry has waited that no worker has acted on yet";
        add.metric("dispatch_age_seconds", help, &timers.dispatch_age);
        let help = "How long a message of expiries was on its way to a worker";
        add.metric("dispatch_delay_seconds", help, &timers.dispatch_delay);
        let help = "Panics of workers, each of which goes on with the next expiry";
        add.metric("worker_panics", help, &timers.worker_panics);
        let help = "From a ping's last byte in the kernel to its pong";
        add.metric("ping_rtt_seconds", help, &sessions.ping_round_trip);
        add.metric("refusals", "Connections that got no session, by reason", &connections.refusals);
        add.metric(
            "accept_errors",
            "Connections that could not be accepted, or had to wait for a descriptor",
            &connections.accept_errors,
        );
        let help = "What clients have sent of messages that are not whole";
        add.metric("unfinished_bytes", help, &connections.unfinished_bytes);
        let help = "Connections closed because that was more than limits.receive_total";
        add.metric("unfinished_closed", help, &connections.unfinished_closed);
        let help = "Log lines that were dropped because the writer was busy";
        add.metric("log_lines_dropped", help, log_lines_dropped);
        add.metric("channels", "Channels", &channels.channels);
        add.metric("log_bytes", "What the logs of all channels hold", &channels.log_bytes);
        add.metric("messages_published", "Messages published", &channels.published);
        let help = "Messages handed to connections, those sent again included";
        add.metric("messages_delivered", help, &channels.delivered);
        add.metric("gaps", "Gaps told", &channels.gaps);
        let help = "Joins and leaves that followers should have been told of (join_leave) and were not";
        add.metric("join_leave_lost", help, &channels.untold);
        let help = "Whether channels live in an engine that is elsewhere";
        add.metric("engine_elsewhere", help, &engine.elsewhere);
        add.metric("engine_up", "Whether an engine that is elsewhere can be reached", &engine.up);
        add.metric("engine_connects", "Connections to it", &engine.connects);
        add.metric(
            "engine_life",
            "Which life of it this is: one more after each change of masters",
            &engine.life,
        );
        add.metric("engine_publish_seconds", "How long it took to publish there", &engine.publish_seconds);
        let help = "From a probe that was published there to its coming back here";
        add.metric("engine_feed_lag_seconds", help, &engine.feed_lag_seconds);
        let help = "Channels that were opened there: followed, followed again, or read because something was missing";
        add.metric("engine_openings", help, &engine.openings);
        let help = "Servers that share channels by it, this one included";
        add.metric("engine_servers", help, &engine.servers);
        add.metric("webhook_queued", "Events that wait for a webhook or are on their way", &webhooks.queued);
        let help = "Events that a webhook has, that found no room, or that were tried for too long";
        add.metric("webhook_events", help, &webhooks.events);
        add.metric("webhook_requests", "Requests of webhooks, by outcome", &webhooks.requests);
        add.metric("reminders", "Reminders that wait", &reminders.waiting);
        let help = "Reminders that were due and were published, told to their webhook, or not published";
        add.metric("reminders_due", help, &reminders.fired);
        add.metric("backend_questions", "Questions to the backend, by outcome", &backend.asked);
        add.metric("backend_seconds", "How long the backend took to answer, or failed to", &backend.seconds);
        add.metric("backend_in_flight", "Questions to the backend that are under way", &backend.in_flight);
        let help = "Whether the backend is left alone because it has failed again and again";
        add.metric("backend_open", help, &backend.open);
        add.metric("issuer_reads", "Attempts to read the issuer's keys, by outcome", &issuer.reads);
        add.metric("issuer_keys", "The issuer's keys that tokens may be signed with", &issuer.keys);
        let help = "When the issuer's keys were read, in seconds since 1970";
        add.metric("issuer_read_timestamp_seconds", help, &issuer.read_at);
        add.metric("limit_used", "How much of what a limit allows is in use", &limits.used);
        add.metric("limit_max", "How much a limit allows, by the setting that says so", &limits.max);
        #[cfg(feature = "otlp")]
        {
            let help =
                "Spans that were not sent, and messages that were not followed to their readers, by reason";
            add.metric("trace_dropped", help, &trace.dropped);
        }
        let mut add = Add(common);
        add.metric("process_resident_memory_bytes", "Memory of the process", &process.resident_bytes);
        let help = "Addresses that it has taken, whether or not there is memory behind them";
        add.metric("process_virtual_memory_bytes", help, &process.virtual_bytes);
        add.metric("process_cpu_seconds", "What it has had of processors", &process.processor_seconds);
        let help = "Descriptors that are open; not there where Linux is older than 6.2";
        add.metric("process_open_fds", help, &process.open_descriptors);
        add.metric("process_max_fds", "Descriptors that it may open", &process.max_descriptors);
        let help = "When the server was started, in seconds since 1970";
        add.metric("process_start_time_seconds", help, &process.started_at);
    }

    /// The metrics in the OpenMetrics text format, which Prometheus reads.
    #[must_use]
    pub(crate) fn encode(&self, readings: &Readings, limits: &[Limit<'_>]) -> String {
        self.limits.set(limits);
        self.process.set(&readings.process, readings.started_at);
        self.timers.entries.set(as_gauge(readings.timer_entries));
        self.timers.dispatch_depth.set(as_gauge(readings.dispatch_depth));
        self.timers.dispatch_age.set(readings.dispatch_age.as_secs_f64());
        catch_up(&self.timers.worker_panics, readings.worker_panics);
        self.channels.channels.set(as_gauge(readings.channels));
        self.channels.log_bytes.set(as_gauge(readings.log_bytes));
        self.reminders.waiting.set(as_gauge(readings.reminders));
        self.connections.unfinished_bytes.set(as_gauge(readings.unfinished_bytes));
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

struct Add<'a>(&'a mut Registry);

impl Add<'_> {
    /// The registry ends `help` with a full stop itself. A clone of a metric counts into the same.
    fn metric<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: &M) {
        self.0.register(name, help, metric.clone());
    }
}

/// Brings a counter up to a count that is kept elsewhere.
fn catch_up(counter: &Counter, count: u64) {
    counter.inner().fetch_max(count, Ordering::Relaxed);
}

fn as_gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
