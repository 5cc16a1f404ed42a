use std::time::Duration;

use encke_tests::authority::Authority;
use encke_tests::server::IN_MEMORY;
use encke_tests::waiting::{TIMEOUT, until};
use encke_tests::{Backend, BackendReply, Collector, RunningServer};
use serde_json::json;
use tempfile::TempDir;

use super::publish;

fn dropped_spans(server: &RunningServer, reason: &str) -> f64 {
    server.admin.metrics().value(&format!("encke_trace_dropped_total{{reason=\"{reason}\"}}"))
}

/// Broadcasts to the maximum number of channels that one request allows.
fn broadcast(server: &RunningServer) {
    let channels: Vec<_> = (0..1000).map(|number| format!("c{number}")).collect();
    let body = json!({ "channels": channels, "data": 1 }).to_string();
    assert_eq!(server.admin.post("/api/broadcast", &body).status, 200);
}

#[test]
fn a_collector_that_hangs_delays_nothing() {
    let collector = Collector::default();
    collector.backend.reply_with(|_| BackendReply::status(200).delayed_by(Duration::from_secs(60)));
    let mut server = collector.server(&[IN_MEMORY, "shutdown.drain=1s"]).start();
    let mut client = server.client();
    client.subscribe("news");
    assert_eq!(publish(&server, "other", 1, ""), 200);
    until("the collector receives an export", || collector.backend.requests().len() == 1);
    for number in 1..50 {
        assert_eq!(publish(&server, "news", number, ""), 200);
        assert_eq!(client.object()["message"]["offset"], number);
    }
    // Each broadcast creates 3001 spans. The queue holds 8192.
    (0..6).for_each(|_| broadcast(&server));
    assert!(dropped_spans(&server, "queue") > 0.0);
    server.assert_healthy();
    server.terminate();
    assert!(server.await_exit(TIMEOUT).success(), "the shutdown does not wait for the response");
    server.logs.await_line("unexported traces were lost");
}

#[test]
fn spans_rejected_temporarily_are_sent_again() {
    let collector = Collector::default();
    collector.backend.reply_with_status(503);
    let server = collector.server(&[]).start();
    assert_eq!(publish(&server, "news", 1, ""), 200);
    server.logs.await_line("trace export failed");
    collector.backend.reply_with_status(200);
    assert_eq!(collector.await_trace("POST /api/publish", 3).len(), 3);
    server.logs.await_line("trace collector recovered");
    assert_eq!(dropped_spans(&server, "collector"), 0.0);
}

#[test]
fn spans_rejected_permanently_are_counted() {
    let collector = Collector::default();
    collector.backend.reply_with_status(400);
    let server = collector.server(&[]).start();
    assert_eq!(publish(&server, "news", 1, ""), 200);
    until("the spans are counted as dropped", || dropped_spans(&server, "collector") == 3.0);
    let requests = collector.backend.requests().len();
    collector.backend.reply_with_status(200);
    assert_eq!(publish(&server, "news", 2, ""), 200);
    assert_eq!(collector.await_trace("POST /api/publish", 3).len(), 3);
    assert_eq!(collector.backend.requests().len(), requests + 1, "rejected spans are not sent again");
}

#[test]
fn tls_requires_a_trusted_certificate() {
    let (authority, folder) =
        (Authority::new(), TempDir::new().expect("a temporary directory can be created"));
    let (certificate, key) = authority.issue("127.0.0.1", folder.path());
    let collector = Collector { backend: Backend::start_tls(&certificate, &key) };
    let url = format!("trace.otlp=https://{}", collector.backend.address);
    let trusting = |authority: &Authority| {
        let ca = format!("trace.ca={}", authority.path().display());
        collector.server(&[]).set(&url).set(&ca).start()
    };
    let server = trusting(&authority);
    assert_eq!(publish(&server, "news", 1, ""), 200);
    assert_eq!(collector.await_trace("POST /api/publish", 3).len(), 3);

    let server = trusting(&Authority::new());
    assert_eq!(publish(&server, "news", 1, ""), 200);
    server.logs.await_line("invalid peer certificate");
    assert_eq!(collector.spans().len(), 3, "the collector received nothing");
}

#[test]
fn rejected_spans_are_capped_at_those_sent() {
    let collector = Collector::default();
    // A partial success that reports 100 rejected spans.
    collector.backend.reply_with(|_| BackendReply::json("\n\x02\x08d"));
    let server = collector.server(&[]).start();
    assert_eq!(publish(&server, "news", 1, ""), 200);
    server.logs.await_line("trace collector rejected some spans");
    until("the spans are counted as dropped", || dropped_spans(&server, "collector") == 3.0);
}

#[test]
fn an_overlong_response_still_counts() {
    let collector = Collector::default();
    collector.backend.reply_with(|_| BackendReply::json("x".repeat(100_000)));
    let server = collector.server(&[]).start();
    assert_eq!(publish(&server, "news", 1, ""), 200);
    assert_eq!(collector.await_trace("POST /api/publish", 3).len(), 3);
    assert_eq!(publish(&server, "news", 2, ""), 200);
    until("the next spans are sent, and the first not again", || collector.spans().len() == 6);
    assert_eq!((collector.backend.requests().len(), dropped_spans(&server, "collector")), (2, 0.0));
}

#[test]
fn an_absent_collector_does_not_delay_the_shutdown() {
    let collector = Collector::default();
    let unused_address = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port is free")
        .local_addr()
        .expect("the listener is bound");
    let mut server =
        collector.server(&["shutdown.drain=60s"]).set(&format!("trace.otlp=http://{unused_address}")).start();
    assert_eq!(publish(&server, "news", 1, ""), 200);
    server.logs.await_line("trace export failed");
    server.terminate();
    assert!(server.await_exit(TIMEOUT).success(), "one more export is attempted");
    assert_eq!(collector.spans(), []);
}

#[test]
fn pending_spans_are_sent_at_shutdown() {
    let collector = Collector::default();
    let mut server = collector.server(&[IN_MEMORY]).start();
    assert_eq!(publish(&server, "news", 1, ""), 200);
    server.terminate();
    assert!(server.await_exit(TIMEOUT).success());
    assert_eq!(collector.spans().len(), 3, "{:#?}", collector.spans());
}
