use std::time::{Duration, Instant};

use encke_tests::port::listen;
use encke_tests::server::IN_MEMORY;
use encke_tests::waiting::until;
use encke_tests::{BackendReply, Collector, RunningServer};
use serde_json::json;

use super::publish;

fn dropped_spans(server: &RunningServer, reason: &str) -> f64 {
    server.admin.metrics().value(&format!("encke_trace_dropped_total{{reason=\"{reason}\"}}"))
}

/// Broadcasts to the maximum number of channels that one request allows.
fn broadcast(server: &RunningServer) {
    let channels: Vec<_> = (0..1000).map(|number| format!("c{number}")).collect();
    server.admin.post("/api/broadcast", json!({ "channels": channels, "data": 1 })).ok();
}

#[test]
fn a_collector_that_hangs_delays_nothing() {
    let collector = Collector::default();
    collector.backend.reply_with(|_| BackendReply::status(200).delayed_by(Duration::from_secs(60)));
    let mut server = collector.server(&[IN_MEMORY, "shutdown.drain=1s"]).start();
    let mut client = server.client();
    client.subscribe("news");
    assert_eq!(publish(&server, "other", ""), 200);
    until("the collector receives an export", || collector.backend.requests().len() == 1);
    for number in 1..50 {
        assert_eq!(publish(&server, "news", ""), 200);
        assert_eq!(client.object()["message"]["offset"], number);
    }
    // Each broadcast creates 3001 spans. The queue holds 8192.
    (0..6).for_each(|_| broadcast(&server));
    assert!(dropped_spans(&server, "queue") > 0.0);
    server.assert_healthy();
    server.terminate();
    assert!(server.await_exit().success(), "the shutdown does not wait for the response");
    server.logs.await_line("unexported traces were lost");
}

#[test]
fn spans_are_sent_again_unless_they_are_rejected_permanently() {
    let collector = Collector::default();
    let server = collector.server(&[]).start();
    let dropped = || dropped_spans(&server, "collector");
    collector.backend.reply_with_status(503);
    assert_eq!(publish(&server, "news", ""), 200);
    server.logs.await_line("trace export failed");
    collector.backend.reply_with_status(200);
    assert_eq!(collector.await_trace("POST /api/publish", 3).len(), 3);
    server.logs.await_line("trace collector recovered");
    assert_eq!(dropped(), 0.0);

    let requests = collector.backend.requests().len();
    // A permanent rejection, a partial success that reports 100 rejected spans, and an overlong response,
    // which still counts.
    let answers = [
        (BackendReply::status(400), 3.0),
        (BackendReply::json("\n\x02\x08d"), 6.0),
        (BackendReply::json("x".repeat(100_000)), 6.0),
    ];
    for (sent, (answer, expected)) in (1..).zip(answers) {
        collector.backend.reply_with(move |_| answer.clone());
        assert_eq!(publish(&server, "news", ""), 200);
        until("the spans are exported", || collector.backend.requests().len() == requests + sent);
        until("the rejected spans are counted", || dropped() == expected);
    }
    server.logs.await_line("trace collector rejected some spans");
    collector.backend.reply_with_status(200);
    assert_eq!(publish(&server, "news", ""), 200);
    until("the last spans are sent", || collector.spans().len() == 12);
    assert_eq!((collector.backend.requests().len(), dropped()), (requests + 4, 6.0), "nothing is sent again");
}

#[test]
fn pending_spans_are_sent_at_shutdown_unless_the_collector_is_absent() {
    let collector = Collector::default();
    let mut server = collector.server(&[IN_MEMORY]).start();
    assert_eq!(publish(&server, "news", ""), 200);
    server.stop();
    assert_eq!(collector.spans().len(), 3, "{:#?}", collector.spans());

    let absent = format!("trace.otlp=http://{}", listen().1);
    let mut server = collector.server(&["shutdown.drain=60s"]).set(&absent).start();
    assert_eq!(publish(&server, "news", ""), 200);
    server.logs.await_line("trace export failed");
    let began = Instant::now();
    server.terminate();
    assert!(server.await_exit().success(), "one more export is attempted");
    // Without a hurry, the exporter would first wait out its retries.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}
