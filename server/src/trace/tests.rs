//! Limits of tracing, and the spans that are queued.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::{HeaderMap, StatusCode};

use super::delivery::TracedLog;
use super::export::MAX_QUEUED;
use super::open_deliveries::MAX_OPEN;
use super::{
    Delivery, PublishTrace, Receipts, RequestTrace, TakenRun, TraceSettings, TracedMessages, Tracer,
};
use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::metrics::{Metrics, Readings};
use crate::outbound::Trust;
use crate::timeouts::Timeouts;

/// A tracer that is not started, so spans stay in its queue.
struct TestTracer {
    tracer: Arc<Tracer>,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct NoLog;

impl TracedLog for NoLog {
    fn forget(&self, _: &Arc<Delivery>) {}
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
        Self { tracer, metrics }
    }

    fn begin(&self) -> RequestTrace {
        self.tracer.begin("/api/publish", &HeaderMap::new(), "http")
    }

    /// Appends a message to a log with three subscribers.
    fn publish(&self, traced: &mut TracedMessages) -> PublishTrace {
        let publish = self.begin().publish("news", 1);
        let nowhere = || Weak::<NoLog>::new() as Weak<dyn TracedLog>;
        traced.appended(&publish, (1, 1), nowhere, 0..3);
        publish
    }

    fn dropped(&self, reason: &str) -> String {
        let text = self.metrics.encode(&Readings::default(), &[]);
        let series = format!("encke_trace_dropped_total{{reason=\"{reason}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&series));
        line.expect("present from the start").to_owned()
    }
}

fn take(traced: &TracedMessages, index: usize) -> Receipts {
    let mut receipts = Receipts::default();
    let run = TakenRun { offset: 1, count: 1, index, transport: "websocket" };
    receipts.take(traced, run, |_| None);
    receipts
}

#[test]
fn message_is_traced_until_all_subscribers_have_it() {
    let world = TestTracer::new();
    let mut traced = TracedMessages::default();
    let _publish = world.publish(&mut traced);
    let before = world.tracer.queued();
    assert!(!traced.is_empty());
    let (log_index, delivery) = traced.all().pop().expect("one");
    let mut first = take(&traced, 0);
    first.add(take(&traced, 1));
    first.written();
    // Dropped or forgotten receipts do not count as written.
    drop(take(&traced, 2));
    let mut forgotten = take(&traced, 2);
    forgotten.forget();
    forgotten.written();
    assert_eq!(delivery.awaited_from(log_index, 0, 10), [2]);
    assert!(delivery.fanned_out(log_index));
    delivery.absent_excluded();
    assert_eq!(world.tracer.queued(), before, "one subscriber is awaited");
    traced.departure(2).report();
    assert_eq!(world.tracer.queued(), before + 2, "fan out and deliver");
    take(&traced, 2).written();
    assert_eq!(world.tracer.queued(), before + 2, "the delivery has ended");
    traced.forget(&delivery);
    assert!(traced.is_empty());
}

#[test]
fn untraced_requests_and_failed_publishes_open_no_delivery() {
    let world = TestTracer::new();
    let publish = world.begin().publish("news", 1);
    publish.answered(Err("unavailable"));
    // The request and its append have one span each.
    assert_eq!(world.tracer.queued(), 2);
    let root = RequestTrace::default();
    root.end(StatusCode::OK);
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

/// A run may start and end anywhere, and deliveries inside it may have ended.
#[test]
fn traced_messages_of_a_run_are_found() {
    let world = TestTracer::new();
    let mut traced = TracedMessages::default();
    let nowhere = || Weak::<NoLog>::new() as Weak<dyn TracedLog>;
    let mut offsets: Vec<u64> = vec![3, 4, 8, 9, 20];
    let publishes: Vec<_> = offsets
        .iter()
        .map(|offset| {
            let publish = world.begin().publish("news", 1);
            traced.appended(&publish, (1, *offset), nowhere, 0..3);
            publish
        })
        .collect();
    let found = |traced: &TracedMessages, offset, count| traced.of(offset, count).count();
    for last in [false, true] {
        for from in 0..25 {
            for count in 0..25 {
                let expected = offsets.iter().filter(|offset| (from..from + count).contains(*offset)).count();
                assert_eq!(
                    found(&traced, from, usize::try_from(count).expect("small")),
                    expected,
                    "{from} {count}"
                );
            }
        }
        if !last {
            offsets.remove(2);
            let over = publishes[2].delivery().expect("a traced publish");
            traced.forget(over);
        }
    }
}

#[test]
fn sweep_returns_messages_appended_since_the_previous_one() {
    let world = TestTracer::new();
    let mut traced = TracedMessages::default();
    assert_eq!(traced.end_sweep().len(), 0);
    let _first = [world.publish(&mut traced), world.publish(&mut traced)];
    assert_eq!((traced.end_sweep().len(), traced.end_sweep().len()), (2, 0));
    let _second = world.publish(&mut traced);
    assert_eq!((traced.end_sweep().len(), traced.end_sweep().len()), (1, 0));
    assert_eq!(traced.all().len(), 3);
}

#[test]
fn open_deliveries_are_limited() {
    let world = TestTracer::new();
    let mut traced = TracedMessages::default();
    let open: Vec<_> = (0..MAX_OPEN).map(|_| world.publish(&mut traced)).collect();
    assert_eq!(traced.all().len(), MAX_OPEN);
    assert_eq!(world.dropped("open"), "0");
    drop(world.publish(&mut traced));
    assert_eq!(traced.all().len(), MAX_OPEN);
    assert_eq!(world.dropped("open"), "1");
    // A completed delivery makes room.
    let (log_index, delivery) = traced.all().swap_remove(0);
    delivery.fanned_out(log_index);
    (0..3).for_each(|index| delivery.exclude(log_index, index));
    delivery.absent_excluded();
    traced.forget(&delivery);
    drop(world.publish(&mut traced));
    assert_eq!(traced.all().len(), MAX_OPEN);
    assert_eq!(world.dropped("open"), "1");
    drop(open);
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
