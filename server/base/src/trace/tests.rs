//! Spans of publishes, and the limit of the queue.

use std::sync::Arc;
use std::time::Duration;

use encke_timeouts::Timeouts;
use encke_timeouts::clock::Clock;
use hyper::{HeaderMap, StatusCode};

use super::export::MAX_QUEUED;
use super::{FanOutTraces, RequestTrace, TraceSettings, Tracer};
use crate::entropy::Entropy;
use crate::metrics::{Metrics, Readings};
use crate::outbound::Trust;

/// A tracer that is not started, so spans stay in its queue.
struct TestTracer {
    tracer: Arc<Tracer>,
    metrics: Arc<Metrics>,
}

impl TestTracer {
    fn new() -> Self {
        let clock = Arc::new(Clock::new(Duration::from_millis(500)));
        let (timeouts, _) = Timeouts::new(clock, Duration::ZERO, 16);
        let metrics = Arc::new(Metrics::new());
        let trust = Trust::load(false, "trace.ca", None).expect("no authorities to load");
        let target = "http://127.0.0.1:9/v1/traces".parse().expect("a URL");
        let settings = TraceSettings { target, trust, headers: HeaderMap::new(), sample: 1.0 };
        let tracer = Tracer::new(settings, "memory", &timeouts, &Entropy::system(), &metrics);
        let tracer = tracer.expect("the build has the feature");
        Self { tracer, metrics }
    }

    fn begin(&self) -> RequestTrace {
        self.tracer.begin("/api/publish", &HeaderMap::new(), "http")
    }

    fn dropped(&self, reason: &str) -> String {
        let text = self.metrics.encode(&Readings::default(), &[]);
        let series = format!("encke_trace_dropped_total{{reason=\"{reason}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&series));
        line.expect("present from the start").to_owned()
    }
}

#[test]
fn fan_out_ends_in_the_last_log() {
    let world = TestTracer::new();
    let publish = world.begin().publish("/a/b", 1);
    let spans = || world.tracer.queued();
    let before = spans();
    let mut logs = [FanOutTraces::default(), FanOutTraces::default()];
    let fan_out = publish.fan_out("/a/b");
    logs.iter_mut().for_each(|log| log.add(&fan_out));
    drop(fan_out);
    drop(std::mem::take(&mut logs[0]));
    assert_eq!(spans(), before, "the other log still notifies its subscribers");
    drop(std::mem::take(&mut logs[1]));
    assert_eq!(spans(), before + 1);
}

#[test]
fn untraced_requests_and_failed_publishes_have_no_fan_out() {
    let world = TestTracer::new();
    let publish = world.begin().publish("news", 1);
    publish.answered(Err("unavailable"));
    // The request and its append have one span each.
    assert_eq!(world.tracer.queued(), 2);
    let root = RequestTrace::default();
    root.end(StatusCode::OK);
    drop(root.publish("news", 1).fan_out("news"));
    root.publish("news", 1).answered(Ok((1, "e")));
    root.publish_one_of_many("news", 1).refused("bad_channel");
    assert_eq!(world.tracer.queued(), 2);
}

#[test]
fn each_message_of_a_broadcast_has_a_span() {
    let world = TestTracer::new();
    let root = world.begin();
    root.broadcast(2);
    root.publish_one_of_many("a", 1).answered(Ok((1, "e")));
    root.publish_one_of_many("b*", 1).refused("bad_channel");
    assert_eq!(world.tracer.queued(), 3, "two publishes, one of which was appended");
    root.end(StatusCode::OK);
    drop(root);
    assert_eq!(world.tracer.queued(), 4);
}

#[test]
fn queued_spans_are_limited() {
    let world = TestTracer::new();
    for _ in 0..MAX_QUEUED {
        world.begin().end(StatusCode::OK);
    }
    assert_eq!((world.tracer.queued(), &*world.dropped("queue")), (MAX_QUEUED, "0"));
    world.begin().end(StatusCode::OK);
    assert_eq!((world.tracer.queued(), &*world.dropped("queue")), (MAX_QUEUED, "1"));
}
