use std::sync::Arc;

use encke_core::Timestamp;
use hyper::StatusCode;
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanId, SpanKind, Status};
use parking_lot::Mutex;

use super::publish::{Publish, destination};
use super::span::{Parent, Span, number};

/// A request of the admin API, if it is traced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Root(Option<Arc<Request>>);

/// Sent when the last that has it lets go of it.
#[derive(Debug)]
struct Request {
    parent: Parent,
    caller: SpanId,
    route: &'static str,
    outcome: Mutex<Outcome>,
}

#[derive(Debug, Default)]
struct Outcome {
    attributes: Vec<KeyValue>,
    /// Its status, and when it was answered. Nothing, if its client has not waited for that.
    answered: Option<(StatusCode, Timestamp)>,
}

impl Root {
    /// `attributes` are those of the request.
    pub(super) fn begin(
        parent: Parent,
        caller: SpanId,
        route: &'static str,
        attributes: Vec<KeyValue>,
    ) -> Self {
        let outcome = Mutex::new(Outcome { attributes, answered: None });
        Self(Some(Arc::new(Request { parent, caller, route, outcome })))
    }

    /// The request publishes this one message.
    pub(crate) fn publish(&self, channel: &str, bytes: usize) -> Publish {
        let Some(request) = &self.0 else { return Publish::NONE };
        request.outcome.lock().attributes.extend(destination(channel, bytes));
        Publish::under(request.parent.clone(), channel)
    }

    /// The request publishes to so many channels.
    pub(crate) fn broadcast(&self, channels: usize) {
        if let Some(request) = &self.0 {
            let count = KeyValue::new("messaging.batch.message_count", number(channels));
            request.outcome.lock().attributes.push(count);
        }
    }

    /// One of several messages that the request publishes.
    pub(crate) fn one_of_many(&self, channel: &str, bytes: usize) -> Publish {
        let Some(request) = &self.0 else { return Publish::NONE };
        Publish::with_a_span(&request.parent, channel, bytes)
    }

    /// It was answered.
    pub(crate) fn end(&self, status: StatusCode) {
        if let Some(request) = &self.0 {
            request.outcome.lock().answered = Some((status, request.parent.now()));
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let Outcome { mut attributes, answered } = std::mem::take(self.outcome.get_mut());
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
                status = Status::error("nobody has waited for the answer");
                self.parent.now()
            }
        };
        let name = format!("POST {}", self.route).into();
        let start = self.parent.wall.began();
        let span = Span { name, kind: SpanKind::Server, start, end, attributes, status };
        self.parent.end(self.caller, self.caller != SpanId::INVALID, span);
    }
}
