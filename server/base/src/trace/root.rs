use std::sync::Arc;

use encke_core::Timestamp;
use hyper::header::HOST;
use hyper::{HeaderMap, StatusCode};
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanId, SpanKind, Status};

use super::context::SampledContext;
use super::publish::{PublishTrace, destination};
use super::span::{Parent, Span, WallClock, count_value};
use super::text::truncated;
use super::tracer::Tracer;
use crate::locks::Mutex;

/// A request to the admin API, possibly traced.
#[derive(Clone, Debug, Default)]
pub struct RequestTrace(Option<Arc<TracedRequest>>);

/// A traced request. Its span is exported when the last reference is dropped.
#[derive(Debug)]
struct TracedRequest {
    parent: Parent,
    caller: SpanId,
    route: &'static str,
    outcome: Mutex<RequestOutcome>,
}

#[derive(Debug, Default)]
struct RequestOutcome {
    attributes: Vec<KeyValue>,
    /// Status and time of the response. `None` if the client disconnected before the response.
    answered: Option<(StatusCode, Timestamp)>,
}

impl Tracer {
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
}

impl RequestTrace {
    /// Starts a traced request with these attributes.
    fn begin(parent: Parent, caller: SpanId, route: &'static str, attributes: Vec<KeyValue>) -> Self {
        let outcome = Mutex::new(RequestOutcome { attributes, answered: None });
        Self(Some(Arc::new(TracedRequest { parent, caller, route, outcome })))
    }

    /// Starts the only publish of the request.
    pub fn publish(&self, channel: &str, bytes: usize) -> PublishTrace {
        let Some(request) = &self.0 else { return PublishTrace::NONE };
        request.outcome.lock().attributes.extend(destination(channel, bytes));
        PublishTrace::without_own_span(request.parent.clone())
    }

    /// Records that the request publishes to several channels.
    pub fn broadcast(&self, channels: usize) {
        if let Some(request) = &self.0 {
            let count = KeyValue::new("messaging.batch.message_count", count_value(channels));
            request.outcome.lock().attributes.push(count);
        }
    }

    /// Starts one of several publishes of the request.
    pub fn publish_one_of_many(&self, channel: &str, bytes: usize) -> PublishTrace {
        let Some(request) = &self.0 else { return PublishTrace::NONE };
        PublishTrace::with_own_span(&request.parent, channel, bytes)
    }

    /// Records the response.
    pub fn end(&self, status: StatusCode) {
        if let Some(request) = &self.0 {
            request.outcome.lock().answered = Some((status, request.parent.now()));
        }
    }
}

impl Drop for TracedRequest {
    fn drop(&mut self) {
        let RequestOutcome { mut attributes, answered } = std::mem::take(self.outcome.get_mut());
        let mut status = Status::Unset;
        let end = match answered {
            Some((code, at)) => {
                attributes.push(KeyValue::new("http.response.status_code", i64::from(code.as_u16())));
                if code.is_server_error() {
                    attributes.push(KeyValue::new("error.type", code.as_str().to_owned()));
                    status = Status::error("");
                }
                at
            }
            None => {
                attributes.push(KeyValue::new("error.type", "client_left"));
                status = Status::error("the client disconnected before the response");
                self.parent.now()
            }
        };
        let name = format!("POST {}", self.route).into();
        let start = self.parent.wall.began();
        let span = Span { name, kind: SpanKind::Server, start, end, attributes, status };
        self.parent.end(self.caller, self.caller != SpanId::INVALID, span);
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
