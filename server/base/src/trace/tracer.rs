use std::sync::Arc;

use encke_core::Timestamp;
use encke_timeouts::Timeouts;
use hyper::HeaderMap;
use hyper::header::HOST;
use opentelemetry::KeyValue;

use super::context::{SampledContext, TraceSampler};
use super::export::Exporter;
use super::root::RequestTrace;
use super::settings::TraceSettings;
use super::span::{Parent, WallClock, truncated};
use crate::entropy::Entropy;
use crate::executor::Executor;
use crate::metrics::Metrics;

/// Creates traces and exports them.
#[derive(Debug)]
pub struct Tracer {
    pub(super) sampler: TraceSampler,
    /// Kind of the engine that appends messages.
    pub(super) engine: &'static str,
    pub(super) exporter: Arc<Exporter>,
    timeouts: Arc<Timeouts>,
}

impl Tracer {
    /// Whether this build can trace.
    pub const IS_AVAILABLE: bool = true;

    /// Creates a tracer. Nothing is sent before [`Self::start`]. Returns `None` if this build cannot trace.
    pub fn new(
        settings: TraceSettings,
        engine: &'static str,
        timeouts: &Arc<Timeouts>,
        entropy: &Entropy,
        metrics: &Arc<Metrics>,
    ) -> Option<Arc<Self>> {
        let sampler = TraceSampler::new(settings.sample, entropy.clone());
        let exporter = Exporter::new(settings, Arc::clone(timeouts), entropy.clone(), Arc::clone(metrics));
        let (exporter, timeouts) = (Arc::new(exporter), Arc::clone(timeouts));
        Some(Arc::new(Self { sampler, engine, exporter, timeouts }))
    }

    /// Starts sending.
    pub fn start(&self, executor: &dyn Executor) {
        executor.spawn(Box::pin(Arc::clone(&self.exporter).run()));
    }

    /// Starts the trace of a POST request for this route.
    pub fn begin(
        self: &Arc<Self>,
        route: &'static str,
        headers: &HeaderMap,
        scheme: &'static str,
    ) -> RequestTrace {
        let Some(SampledContext { own, parent: caller }) = self.sampler.sample(route, headers) else {
            return RequestTrace::default();
        };
        let wall = WallClock::of(self.timeouts.clock());
        let parent = Parent { tracer: Arc::clone(self), context: own, wall };
        let mut attributes = vec![
            KeyValue::new("http.request.method", "POST"),
            KeyValue::new("http.route", route),
            KeyValue::new("url.path", route),
            KeyValue::new("url.scheme", scheme),
        ];
        if let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) {
            attributes.extend(server(host));
        }
        RequestTrace::begin(parent, caller, route, attributes)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.timeouts.clock().now()
    }

    /// Sends queued spans without delay from now on.
    pub fn hurry(&self) {
        self.exporter.pending().hurry();
    }

    /// Waits until every queued span has been sent or dropped.
    pub async fn flushed(&self) {
        self.exporter.pending().flushed().await;
    }

    /// Number of spans that are queued or in flight.
    pub fn queued(&self) -> usize {
        self.exporter.pending().len()
    }
}

/// Attributes of the server's address, from the request's `Host` header.
fn server(host: &str) -> Vec<KeyValue> {
    let (address, port) = match host.rsplit_once(':') {
        Some((address, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (address, port.parse::<u16>().ok())
        }
        _ => (host, None),
    };
    let address = KeyValue::new("server.address", truncated(address.trim_matches(['[', ']'])).to_owned());
    let port = port.map(|port| KeyValue::new("server.port", i64::from(port)));
    std::iter::once(address).chain(port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_address_from_the_host_header() {
        for (host, address, port) in [
            ("encke.example:8001", "encke.example", Some(8001)),
            ("127.0.0.1", "127.0.0.1", None),
            ("[::1]:80", "::1", Some(80)),
            ("[::1]", "::1", None),
            ("a:99999", "a", None),
            ("a:b", "a:b", None),
        ] {
            let mut expected = vec![KeyValue::new("server.address", address)];
            expected.extend(port.map(|port: i64| KeyValue::new("server.port", port)));
            assert_eq!(server(host), expected, "{host}");
        }
    }
}
