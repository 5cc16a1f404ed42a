//! Exports spans to a collector, by OTLP over HTTP.
//!
//! Queueing and sending are implemented here; only the encoding comes from `opentelemetry-proto`. The SDK's
//! `BatchSpanProcessor` could run on this server's executor and clock, but only together with
//! `opentelemetry-otlp`, which has its own: it sleeps between retries with tokio's timers or
//! `std::thread::sleep`, does not report how many spans the collector rejected, and keeps retrying during a
//! shutdown. The processor blocks a thread until the last export has ended, wakes up every few seconds even
//! if nothing is traced, and requires an experimental feature.

use std::collections::VecDeque;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use encke_timeouts::Timeouts;
use futures_util::future::select;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use prost::Message;
use tokio::sync::Notify;

use super::settings::TraceSettings;
use super::text::truncated;
use crate::entropy::Entropy;
use crate::locks::Mutex;
use crate::metrics::{DroppedSpans, Metrics};
use crate::outbound::{Backoff, OutboundClient, OutboundError, Pending};

/// Maximum number of queued spans; more are dropped. A broadcast to the maximum number of channels creates
/// 3,001.
pub(super) const MAX_QUEUED: usize = 8192;
/// Maximum number of spans in a request.
const MAX_BATCH_SPANS: usize = 512;
/// How long a batch waits for more spans after its first.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// Time limit for a response.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a failed request is retried before its spans are dropped.
const RETRY_FOR: Duration = Duration::from_secs(30);
/// Maximum number of idle connections. Only one request is in flight at a time.
const IDLE_CONNECTIONS: usize = 1;
/// Maximum size of a response, in bytes. It contains the number of rejected spans and the reason.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");

/// Queue of spans and the task that sends them; see the [module](self).
pub(super) struct Exporter {
    settings: TraceSettings,
    client: OutboundClient,
    resource: ResourceAttributesWithSchema,
    timeouts: Arc<Timeouts>,
    entropy: Entropy,
    metrics: Arc<Metrics>,
    queue: Mutex<VecDeque<SpanData>>,
    /// Notified when the queue gets its first span, and when it holds a full batch.
    filled: Notify,
    pending: Pending,
}

/// Why a request failed.
#[derive(Debug)]
enum ExportFailure {
    Status(StatusCode),
    Outbound(OutboundError),
}

impl Exporter {
    pub(super) fn new(
        settings: TraceSettings,
        timeouts: Arc<Timeouts>,
        entropy: Entropy,
        metrics: Arc<Metrics>,
    ) -> Self {
        let instance = data_encoding::HEXLOWER.encode(&entropy.bytes::<16>());
        let resource = Resource::builder_empty().with_service_name("encke").with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", instance),
        ]);
        let trust = settings.trust.clone();
        Self {
            client: OutboundClient::new(trust, Arc::clone(&timeouts), IDLE_CONNECTIONS, MAX_RESPONSE_BYTES),
            resource: ResourceAttributesWithSchema::from(&resource.build()),
            settings,
            timeouts,
            entropy,
            metrics,
            queue: Mutex::default(),
            filled: Notify::new(),
            pending: Pending::default(),
        }
    }

    /// Queues a span, or drops it if the queue is full.
    pub(super) fn push(&self, span: SpanData) {
        if !self.pending.enter(MAX_QUEUED) {
            return self.count_dropped(DroppedSpans::QUEUE, 1);
        }
        let queue = {
            let mut queue = self.queue.lock();
            queue.push_back(span);
            queue.len()
        };
        if matches!(queue, 1 | MAX_BATCH_SPANS) {
            self.filled.notify_one();
        }
    }

    fn count_dropped(&self, reason: DroppedSpans, spans: usize) {
        self.metrics.trace_dropped.get_or_create(&reason).inc_by(spans as u64);
    }

    /// Counts the spans that are queued or in flight.
    pub(super) fn pending(&self) -> &Pending {
        &self.pending
    }

    /// Sends queued spans until the runtime shuts down.
    pub(super) async fn run(self: Arc<Self>) {
        let mut is_failing = false;
        loop {
            self.await_batch().await;
            let batch = self.take();
            let count = batch.len();
            let unsent = self.deliver(batch, &mut is_failing).await;
            self.count_dropped(DroppedSpans::COLLECTOR, unsent.min(count));
            self.pending.leave(count);
        }
    }

    fn take(&self) -> Vec<SpanData> {
        let mut queue = self.queue.lock();
        let count = queue.len().min(MAX_BATCH_SPANS);
        let batch = queue.drain(..count).collect();
        // Free the memory of a burst.
        if queue.is_empty() {
            *queue = VecDeque::new();
        }
        batch
    }

    fn queue(&self) -> usize {
        self.queue.lock().len()
    }

    /// Waits until a batch is ready to be sent.
    async fn await_batch(&self) {
        while self.queue() == 0 {
            self.filled.notified().await;
        }
        let is_full = pin!(async {
            while self.queue() < MAX_BATCH_SPANS {
                self.filled.notified().await;
            }
        });
        select(is_full, pin!(self.pause(BATCH_DELAY))).await;
    }

    /// Waits, unless the server is shutting down.
    async fn pause(&self, pause: Duration) {
        select(pin!(self.timeouts.sleep(pause)), pin!(self.pending.hurried())).await;
    }

    /// Sends spans until they are accepted, permanently rejected, or the retry time has passed. Returns the
    /// number of spans that the collector did not accept.
    async fn deliver(&self, batch: Vec<SpanData>, is_failing: &mut bool) -> usize {
        let request = ExportTraceServiceRequest {
            resource_spans: group_spans_by_resource_and_scope(batch, &self.resource),
        };
        let body = Bytes::from(request.encode_to_vec());
        let clock = self.timeouts.clock();
        let until = clock.now() + RETRY_FOR;
        let mut backoff = Backoff::new();
        loop {
            let problem = match self.send(body.clone()).await {
                Ok(refused) => {
                    if std::mem::take(is_failing) {
                        tracing::info!(collector = %self.settings.target, "trace collector recovered");
                    }
                    return refused;
                }
                Err(problem) => problem,
            };
            let collector = &self.settings.target;
            if !std::mem::replace(is_failing, true) {
                tracing::warn!(%collector, %problem, "trace export failed: some traces will be missing (trace.otlp)");
            } else {
                tracing::debug!(%collector, %problem, "trace export failed");
            }
            if problem.is_final() || self.pending.is_hurried() || clock.now() >= until {
                return usize::MAX;
            }
            let pause = backoff.pause(&self.entropy).min(until.since(clock.now()));
            self.pause(pause).await;
        }
    }

    /// Sends one request. Returns the number of rejected spans.
    async fn send(&self, body: Bytes) -> Result<usize, ExportFailure> {
        let mut headers = self.settings.headers.clone();
        headers.insert(CONTENT_TYPE, PROTOBUF);
        let (status, answer) = match self.client.post(&self.settings.target, headers, body, TIMEOUT).await {
            Ok(reply) => (reply.status, reply.body),
            // The status is enough: the response body is optional.
            Err(OutboundError::Unreadable { status, .. }) => (status, Bytes::new()),
            Err(error) => return Err(ExportFailure::Outbound(error)),
        };
        if !status.is_success() {
            return Err(ExportFailure::Status(status));
        }
        let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
        let refused = answer.partial_success.filter(|part| part.rejected_spans > 0);
        Ok(refused.map_or(0, |part| {
            let (spans, reason) = (part.rejected_spans, truncated(&part.error_message));
            tracing::warn!(collector = %self.settings.target, spans, reason, "trace collector rejected some spans");
            usize::try_from(spans).unwrap_or(usize::MAX)
        }))
    }
}

impl ExportFailure {
    /// Returns whether a retry is pointless, according to OTLP's list of retryable statuses.
    fn is_final(&self) -> bool {
        match self {
            Self::Status(status) => !matches!(status.as_u16(), 429 | 502..=504),
            Self::Outbound(_) => false,
        }
    }
}

impl fmt::Display for ExportFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "collector answered {status}"),
            Self::Outbound(error) => write!(f, "{error}"),
        }
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("collector", &self.settings.target).finish_non_exhaustive()
    }
}
