use std::time::Duration;

use encke_tests::authority::Authority;
use encke_tests::server::IN_MEMORY;
use encke_tests::waiting::{TIMEOUT, until};
use encke_tests::{Backend, Collector, BackendReply, RunningServer};
use serde_json::json;
use tempfile::TempDir;

use super::publish;

fn dropped(server: &RunningServer, reason: &str) -> f64 {
    server.admin.metrics().value(&format!("encke_trace_dropped_total{{reason=\"{reason}\"}}"))
}

/// Broadcasts to as many channels as a request may have.
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
    until("it is asked", || collector.backend.requests().len() == 1);
    for number in 1..50 {
        assert_eq!(publish(&server, "news", number, ""), 200);
        assert_eq!(client.object()["message"]["offset"], number);
    }
    // Each makes 2001 spans at least, and 8192 may wait.
    (0..6).for_each(|_| broadcast(&server));
    assert!(dropped(&server, "queue") > 0.0);
    server.assert_healthy();
    server.terminate();
    assert!(server.await_exit(TIMEOUT).success(), "it ends without the answer");
    server.logs.await_line("unexported traces were lost");
}

#[test]
fn what_is_refused_for_a_while_is_sent_again() {
    let collector = Collector::default();
    collector.backend.reply_with_status(503);
    let server = collector.server(&[]).start();
    assert_eq!(publish(&server, "news", 1, ""), 200);
    server.logs.await_line("trace export failed");
    collector.backend.reply_with_status(200);
    assert_eq!(collector.await_trace("POST /api/publish", 4).len(), 4);
    server.logs.await_line("trace collector recovered");
    assert_eq!(dropped(&server, "collector"), 0.0);
}

#[test]
fn what_is_refused_for_good_is_counted() {
    let collector = Collector::default();
    collector.backend.reply_with_status(400);
    let server = collector.server(&[]).start();
    assert_eq!(publish(&server, "news", 1, ""), 200);
    until("it is counted", || dropped(&server, "collector") == 4.0);
    let asked = collector.backend.requests().len();
    collector.backend.reply_with_status(200);
    assert_eq!(publish(&server, "news", 2, ""), 200);
    assert_eq!(collector.await_trace("POST /api/publish", 4).len(), 4);
    assert_eq!(collector.backend.requests().len(), asked + 1, "nothing is sent twice");
}

#[test]
fn tls_needs_a_certificate_of_an_authority_that_is_trusted() {
    let (authority, folder) = (Authority::new(), TempDir::new().expect("a folder"));
    let (certificate, key) = authority.issue("127.0.0.1", folder.path());
    let collector = Collector { backend: Backend::start_tls(&certificate, &key) };
    let url = format!("trace.otlp=https://{}", collector.backend.address);
    let trusting = |authority: &Authority| {
        let ca = format!("trace.ca={}", authority.path().display());
        collector.server(&[]).set(&url).set(&ca).start()
    };
    let server = trusting(&authority);
    assert_eq!(publish(&server, "news", 1, ""), 200);
    assert_eq!(collector.await_trace("POST /api/publish", 4).len(), 4);

    let server = trusting(&Authority::new());
    assert_eq!(publish(&server, "news", 1, ""), 200);
    server.logs.await_line("invalid peer certificate");
    assert_eq!(collector.spans().len(), 4, "it is told nothing");
}

#[test]
fn no_more_is_refused_than_was_sent() {
    let collector = Collector::default();
    // A partial success, that is a refusal of 100 spans.
    collector.backend.reply_with(|_| BackendReply::json("\n\x02\x08d"));
    let server = collector.server(&[]).start();
    assert_eq!(publish(&server, "news", 1, ""), 200);
    server.logs.await_line("trace collector rejected some spans");
    until("they are counted", || dropped(&server, "collector") == 4.0);
}

#[test]
fn an_answer_that_is_too_long_is_an_answer() {
    let collector = Collector::default();
    collector.backend.reply_with(|_| BackendReply::json("x".repeat(100_000)));
    let server = collector.server(&[]).start();
    assert_eq!(publish(&server, "news", 1, ""), 200);
    assert_eq!(collector.await_trace("POST /api/publish", 4).len(), 4);
    assert_eq!(publish(&server, "news", 2, ""), 200);
    until("the next are sent, and these not again", || collector.spans().len() == 8);
    assert_eq!((collector.backend.requests().len(), dropped(&server, "collector")), (2, 0.0));
}

#[test]
fn a_collector_that_is_not_there_holds_up_no_end() {
    let collector = Collector::default();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let mut server =
        collector.server(&["shutdown.drain=60s"]).set(&format!("trace.otlp=http://{gone}")).start();
    assert_eq!(publish(&server, "news", 1, ""), 200);
    server.logs.await_line("trace export failed");
    server.terminate();
    assert!(server.await_exit(TIMEOUT).success(), "it is asked once more, and no more");
    assert_eq!(collector.spans(), []);
}

#[test]
fn at_the_end_what_is_there_is_sent() {
    let collector = Collector::default();
    let mut server = collector.server(&[IN_MEMORY]).start();
    // Awaited until its connection is closed.
    let mut poll = encke_tests::PollClient::connect(server.public);
    poll.get("channels=news");
    assert_eq!(publish(&server, "news", 1, ""), 200);
    server.terminate();
    assert!(server.await_exit(TIMEOUT).success());
    assert_eq!(collector.spans().len(), 4, "{:#?}", collector.spans());
}
