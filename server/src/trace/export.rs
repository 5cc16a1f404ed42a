//! Spans on their way to a collector, by OTLP over HTTP.
//!
//! The SDK has processors for that, and a crate beside it an exporter; but these wait on threads and clocks of their own, and what they drop
//! they do not tell. So the queue and the request are ours, and what is sent is made by `opentelemetry-proto`.

use std::collections::VecDeque;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
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
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::Notify;

use super::settings::TraceSettings;
use super::span::beginning;
use crate::entropy::Entropy;
use crate::metrics::Metrics;
use crate::outbound::{Backoff, Client, OutboundError, Pending};
use crate::timeouts::Timeouts;

/// The most spans that wait. One more is dropped. A broadcast to as many channels as it may have makes half as many.
pub(super) const MOST_QUEUED: usize = 8192;
/// The most spans of a request.
const MOST_AT_ONCE: usize = 512;
/// How long the first span of a request waits for others.
const GATHERING: Duration = Duration::from_secs(1);
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a request is repeated that was not accepted. Then its spans are dropped.
const TRIED_FOR: Duration = Duration::from_secs(30);
/// There is one request at a time.
const IDLE_CONNECTIONS: usize = 1;
/// An answer says how many spans were refused, and why.
const LONGEST_ANSWER: usize = 64 * 1024;

const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");

/// See the [module](self).
pub(super) struct Exporter {
    settings: TraceSettings,
    client: Client,
    resource: ResourceAttributesWithSchema,
    timeouts: Arc<Timeouts>,
    entropy: Entropy,
    metrics: Arc<Metrics>,
    waiting: Mutex<VecDeque<SpanData>>,
    /// There is a first span, or a whole request of them.
    filled: Notify,
    pending: Pending,
}

/// Why a request was not accepted.
#[derive(Debug)]
enum Problem {
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
            client: Client::new(trust, Arc::clone(&timeouts), IDLE_CONNECTIONS, LONGEST_ANSWER),
            resource: ResourceAttributesWithSchema::from(&resource.build()),
            settings,
            timeouts,
            entropy,
            metrics,
            waiting: Mutex::default(),
            filled: Notify::new(),
            pending: Pending::default(),
        }
    }

    /// Has it sent, unless too many wait.
    pub(super) fn push(&self, span: SpanData) {
        if !self.pending.enter(MOST_QUEUED) {
            return self.metrics.trace.overflowed();
        }
        let waiting = {
            let mut waiting = self.waiting.lock();
            waiting.push_back(span);
            waiting.len()
        };
        if matches!(waiting, 1 | MOST_AT_ONCE) {
            self.filled.notify_one();
        }
    }

    /// What waits, or is on its way.
    pub(super) fn pending(&self) -> &Pending {
        &self.pending
    }

    /// Sends what there is, for ever.
    pub(super) async fn run(self: Arc<Self>) {
        let mut is_failing = false;
        loop {
            self.gather().await;
            let batch = self.take();
            let count = batch.len();
            let unsent = self.deliver(batch, &mut is_failing).await;
            self.metrics.trace.unsent(unsent.min(count));
            self.pending.leave(count);
        }
    }

    fn take(&self) -> Vec<SpanData> {
        let mut waiting = self.waiting.lock();
        let count = waiting.len().min(MOST_AT_ONCE);
        let batch = waiting.drain(..count).collect();
        // A burst's memory is given back.
        if waiting.is_empty() {
            *waiting = VecDeque::new();
        }
        batch
    }

    fn waiting(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Waits until there is something to be sent.
    async fn gather(&self) {
        while self.waiting() == 0 {
            self.filled.notified().await;
        }
        let is_full = pin!(async {
            while self.waiting() < MOST_AT_ONCE {
                self.filled.notified().await;
            }
        });
        select(is_full, pin!(self.pause(GATHERING))).await;
    }

    /// Waits, unless the server is going away.
    async fn pause(&self, pause: Duration) {
        select(pin!(self.timeouts.sleep(pause)), pin!(self.pending.hurried())).await;
    }

    /// Sends these until they are accepted, or refused for good, or have been tried for too long. Returns how many of them the collector has not
    /// got, by its own word.
    async fn deliver(&self, batch: Vec<SpanData>, is_failing: &mut bool) -> usize {
        let request = ExportTraceServiceRequest {
            resource_spans: group_spans_by_resource_and_scope(batch, &self.resource),
        };
        let body = Bytes::from(request.encode_to_vec());
        let clock = self.timeouts.clock();
        let until = clock.now() + TRIED_FOR;
        let mut backoff = Backoff::new();
        loop {
            let problem = match self.send(body.clone()).await {
                Ok(refused) => {
                    if std::mem::take(is_failing) {
                        tracing::info!(collector = ?self.settings.target, "it accepts traces again");
                    }
                    return refused;
                }
                Err(problem) => problem,
            };
            let collector = &self.settings.target;
            if !std::mem::replace(is_failing, true) {
                tracing::warn!(?collector, %problem, "it does not accept traces: some will be missing (trace.otlp)");
            } else {
                tracing::debug!(?collector, %problem, "it does not accept traces");
            }
            if problem.is_final() || self.pending.is_hurried() || clock.now() >= until {
                return usize::MAX;
            }
            let pause = backoff.pause(&self.entropy).min(until.since(clock.now()));
            self.pause(pause).await;
        }
    }

    /// Returns how many of the spans were refused.
    async fn send(&self, body: Bytes) -> Result<usize, Problem> {
        let mut headers = self.settings.headers.clone();
        headers.insert(CONTENT_TYPE, PROTOBUF);
        let (status, answer) = match self.client.post(&self.settings.target, headers, body, TIMEOUT).await {
            Ok(reply) => (reply.status, reply.body),
            // It has the spans, or will not have them, whatever else it says.
            Err(OutboundError::Unreadable { status, .. }) => (status, Bytes::new()),
            Err(error) => return Err(Problem::Outbound(error)),
        };
        if !status.is_success() {
            return Err(Problem::Status(status));
        }
        let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
        let refused = answer.partial_success.filter(|part| part.rejected_spans > 0);
        Ok(refused.map_or(0, |part| {
            let (spans, why) = (part.rejected_spans, beginning(&part.error_message));
            tracing::warn!(collector = ?self.settings.target, spans, why, "it has refused some of the spans");
            usize::try_from(spans).unwrap_or(usize::MAX)
        }))
    }
}

impl Problem {
    /// Whether the same request will never be accepted, by OTLP's own list.
    fn is_final(&self) -> bool {
        match self {
            Self::Status(status) => !matches!(status.as_u16(), 429 | 502..=504),
            Self::Outbound(_) => false,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "it answered {status}"),
            Self::Outbound(error) => write!(f, "{error}"),
        }
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("collector", &self.settings.target).finish_non_exhaustive()
    }
}
