//! What is full, and what is told.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::{HeaderMap, StatusCode};

use super::delivery::TracedLog;
use super::export::MOST_QUEUED;
use super::open::MOST_OPEN;
use super::{Delivery, Publish, Receipts, Root, TakenRun, TraceSettings, Traced, Tracer};
use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::metrics::{Metrics, Readings};
use crate::outbound::Trust;
use crate::timeouts::Timeouts;

/// Traces that nobody sends.
struct World {
    tracer: Arc<Tracer>,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct NoLog;

impl TracedLog for NoLog {
    fn forget(&self, _: &Arc<Delivery>) {}
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(Clock::new(Duration::from_millis(500)));
        let (timeouts, _) = Timeouts::new(clock, Duration::ZERO, 16);
        let metrics = Arc::new(Metrics::new());
        let trust = Trust::load(false, "trace.ca", None).expect("nobody is trusted");
        let target = "http://127.0.0.1:9/v1/traces".parse().expect("a URL");
        let settings = TraceSettings { target, trust, headers: HeaderMap::new(), sample: 1.0 };
        let tracer = Tracer::new(settings, "memory", &timeouts, &Entropy::system(), &metrics);
        Self { tracer, metrics }
    }

    fn begin(&self) -> Root {
        self.tracer.begin("/api/publish", &HeaderMap::new(), "http")
    }

    /// A message that three follow is in a log.
    fn publish(&self, traced: &mut Traced) -> Publish {
        let publish = self.begin().publish("news", 1);
        let nowhere = || Weak::<NoLog>::new() as Weak<dyn TracedLog>;
        traced.appended(&publish, (1, 1), nowhere, 0..3);
        publish
    }

    fn dropped(&self, reason: &str) -> String {
        let text = self.metrics.encode(&Readings::default(), &[]);
        let series = format!("encke_trace_dropped_total{{reason=\"{reason}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&series));
        line.expect("it is there from the beginning").to_owned()
    }
}

fn take(traced: &Traced, index: usize) -> Receipts {
    let mut receipts = Receipts::default();
    let run = TakenRun { offset: 1, count: 1, index, transport: "websocket" };
    receipts.take(traced, run, |_| None);
    receipts
}

#[test]
fn a_message_is_followed_until_all_have_it() {
    let world = World::new();
    let mut traced = Traced::default();
    let _publish = world.publish(&mut traced);
    let before = world.tracer.queued();
    assert!(!traced.is_empty());
    let (part, delivery) = traced.all().pop().expect("one");
    let mut first = take(&traced, 0);
    first.add(take(&traced, 1));
    first.written();
    // A connection that ends with its receipt has written nothing, and another that gets the message in its place has.
    drop(take(&traced, 2));
    let mut forgotten = take(&traced, 2);
    forgotten.forget();
    forgotten.written();
    assert_eq!(delivery.awaited_from(part, 0, 10), [2]);
    assert!(delivery.fanned_out(part));
    delivery.was_looked_through();
    assert_eq!(world.tracer.queued(), before, "one is awaited");
    traced.left(2).tell();
    assert_eq!(world.tracer.queued(), before + 2, "fan out and deliver");
    take(&traced, 2).written();
    assert_eq!(world.tracer.queued(), before + 2, "it is over");
    traced.forget(&delivery);
    assert!(traced.is_empty());
}

#[test]
fn what_nobody_opened_is_nothing() {
    let world = World::new();
    let publish = world.begin().publish("news", 1);
    publish.answered(Err("unavailable"));
    // The request and its append.
    assert_eq!(world.tracer.queued(), 2);
    let root = Root::default();
    root.end(StatusCode::OK);
    root.publish("news", 1).answered(Ok((1, "e")));
    root.one_of_many("news", 1).refused("bad_channel");
    assert_eq!(world.tracer.queued(), 2);
}

#[test]
fn of_many_messages_each_has_a_span() {
    let world = World::new();
    let root = world.begin();
    root.broadcast(2);
    root.one_of_many("a", 1).answered(Ok((1, "e")));
    root.one_of_many("b*", 1).refused("bad_channel");
    assert_eq!(world.tracer.queued(), 3, "two publishes, one of which was appended");
    root.end(StatusCode::OK);
    drop(root);
    assert_eq!(world.tracer.queued(), 4);
}

/// The runs that connections take are of any length, and what is over in between is gone.
#[test]
fn those_of_a_run_are_found() {
    let world = World::new();
    let mut traced = Traced::default();
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
    let found = |traced: &Traced, offset, count| traced.of(offset, count).count();
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
            let over = publishes[2].delivery().expect("it is traced");
            traced.forget(over);
        }
    }
}

#[test]
fn of_a_sweep_those_are_new_that_came_since_the_last() {
    let world = World::new();
    let mut traced = Traced::default();
    assert_eq!(traced.swept().len(), 0);
    let _first = [world.publish(&mut traced), world.publish(&mut traced)];
    assert_eq!((traced.swept().len(), traced.swept().len()), (2, 0));
    let _second = world.publish(&mut traced);
    assert_eq!((traced.swept().len(), traced.swept().len()), (1, 0));
    assert_eq!(traced.all().len(), 3);
}

#[test]
fn so_many_are_open_and_no_more() {
    let world = World::new();
    let mut traced = Traced::default();
    let open: Vec<_> = (0..MOST_OPEN).map(|_| world.publish(&mut traced)).collect();
    assert_eq!(traced.all().len(), MOST_OPEN);
    assert_eq!(world.dropped("open"), "0");
    drop(world.publish(&mut traced));
    assert_eq!(traced.all().len(), MOST_OPEN);
    assert_eq!(world.dropped("open"), "1");
    // One that is over makes room.
    let (part, delivery) = traced.all().swap_remove(0);
    delivery.fanned_out(part);
    (0..3).for_each(|index| delivery.is_gone(part, index));
    delivery.was_looked_through();
    traced.forget(&delivery);
    drop(world.publish(&mut traced));
    assert_eq!(traced.all().len(), MOST_OPEN);
    assert_eq!(world.dropped("open"), "1");
    drop(open);
}

#[test]
fn so_many_spans_wait_and_no_more() {
    let world = World::new();
    for _ in 0..MOST_QUEUED {
        world.begin().end(StatusCode::OK);
    }
    assert_eq!((world.tracer.queued(), &*world.dropped("queue")), (MOST_QUEUED, "0"));
    world.begin().end(StatusCode::OK);
    assert_eq!((world.tracer.queued(), &*world.dropped("queue")), (MOST_QUEUED, "1"));
}
