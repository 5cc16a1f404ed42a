//! Tests of sampling.

use std::time::Duration;

use super::*;
use crate::transport::websocket::ConnectionEnd;

#[test]
fn a_sample_covers_the_time_since_the_last_one() {
    let recorder = Recorder::starting_now();
    let (early, lateness, backlog) = (Counter::default(), Times::default(), Gauge::default());
    recorder.counter("early", &early);
    recorder.times("lateness_ms", &lateness);
    recorder.gauge("backlog", &backlog);
    early.add(3);
    lateness.record(Duration::from_millis(1));
    recorder.sample();
    assert_eq!(recorder.last().get("early"), Some(3.0));
    assert_eq!(recorder.last().get("lateness_ms.count"), Some(1.0));
    assert!(recorder.last().get("lateness_ms.p99").is_some_and(|p99| (0.99..1.01).contains(&p99)));
    assert_eq!(recorder.last().get("backlog"), None);
    early.add(1);
    backlog.set(Some(0.5));
    recorder.sample();
    assert_eq!(recorder.last().get("early"), Some(1.0));
    assert_eq!(recorder.last().get("lateness_ms.count"), Some(0.0));
    assert_eq!(recorder.last().get("lateness_ms.p99"), None);
    assert_eq!(recorder.last().get("backlog"), Some(0.5));
}

#[test]
fn equal_names_are_added_up_and_prefixed_names_are_separate() {
    let recorder = Recorder::starting_now();
    let (one, other, inner) = (Counter::default(), Counter::default(), Counter::default());
    recorder.counter("early", &one);
    recorder.counter("early", &other);
    recorder.within("mute").counter("early", &inner);
    one.add(1);
    other.add(2);
    inner.add(4);
    recorder.sample();
    assert_eq!((recorder.last().get("early"), recorder.last().get("mute.early")), (Some(3.0), Some(4.0)));
    assert_eq!(
        (recorder.monotonic_value("early"), recorder.monotonic_value("mute.early")),
        (Some(3.0), Some(4.0))
    );
}

#[test]
fn counts_and_maxima_grow_and_percentiles_do_not() {
    let recorder = Recorder::starting_now();
    let connect = Latency::default();
    recorder.latency("connect", &connect);
    assert_eq!(recorder.monotonic_value("connect_ms.max"), None);
    assert!(
        recorder.is_monotonic("connect_ms.max")
            && recorder.is_monotonic("pings")
            && !recorder.is_monotonic("connect_ms.p99")
    );
    let now = Instant::now();
    connect.record(now, now, now + Duration::from_millis(4));
    assert!(
        recorder.monotonic_value("connect_from_start_ms.max").is_some_and(|max| (4.0..4.1).contains(&max))
    );
    assert_eq!(recorder.monotonic_value("connect_ms.count"), Some(1.0));
    for other in ["connect_ms.p99", "connect_ms", "early", "", "errors.max"] {
        assert_eq!(recorder.monotonic_value(other), None, "{other}");
    }
}

#[test]
fn traffic_needs_no_naming() {
    let recorder = Recorder::starting_now();
    let (one, other) = (recorder.traffic().opened(), recorder.traffic().opened());
    one.record_hello();
    one.record_ping();
    one.record_end(ConnectionEnd::Closed(Some(4000)));
    drop(one);
    recorder.sample();
    let last = recorder.last();
    for (name, value) in
        [("connections", 1.0), ("connects", 1.0), ("pings", 1.0), ("closes", 1.0), ("closes.4000", 1.0)]
    {
        assert_eq!(last.get(name), Some(value), "{name} in {last:?}");
    }
    assert_eq!(recorder.traffic().summary().connections_max, 2);
    drop(other);
    recorder.sample();
    assert_eq!(
        (recorder.last().get("connections"), recorder.last().get("closes.4000")),
        (Some(0.0), Some(0.0))
    );
}

#[test]
fn phases_follow_each_other() {
    let recorder = Recorder::starting_now();
    assert!(recorder.phases().is_empty());
    recorder.phase("connect");
    recorder.phase("hold");
    let phases = recorder.phases();
    assert_eq!(recorder.current_phase(), "hold");
    assert_eq!(phases[0].end, phases[1].start);
    assert!(phases[1].start <= phases[1].end);
    (0..2 * MAX_PHASES).for_each(|_| recorder.phase("more"));
    assert_eq!(recorder.phases().len(), MAX_PHASES);
}
