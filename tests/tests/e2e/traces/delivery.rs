use std::time::{Duration, SystemTime};

use encke_tests::server::IN_MEMORY;
use encke_tests::waiting::let_pass;
use encke_tests::{CollectedSpan, Collector, PollClient, RawClient, RunningServer};
use serde_json::json;

use super::{attribute, publish, span_named};

fn traced_server() -> (Collector, RunningServer) {
    let collector = Collector::default();
    let server = collector.server(&[IN_MEMORY]).start();
    (collector, server)
}

/// Opens a long-polling session that is subscribed to `news` and is between polls. Returns the connection and
/// the resume token.
fn open_polling_session(server: &RunningServer) -> (PollClient, String) {
    let mut poll = PollClient::connect(server.public);
    let opened = poll.get("channels=news").json();
    let token = opened[0]["hello"]["resume"].as_str().expect("a token").to_owned();
    (poll, token)
}

/// Waits for the `deliver` span of the message.
#[track_caller]
fn await_deliver_span(collector: &Collector) -> CollectedSpan {
    span_named(&collector.await_trace("POST /api/publish", 4), "deliver").clone()
}

#[test]
fn a_suspended_session_is_not_awaited() {
    let (collector, server) = traced_server();
    let (mut connected, mut suspended) = (server.client(), server.client());
    connected.subscribe("news");
    suspended.subscribe("news");
    let suspended = suspended.drop_connection();
    server.await_phase(&suspended.session, "suspended");
    assert_eq!(publish(&server, "news", 1, ""), 200);
    connected.object();
    let deliver = await_deliver_span(&collector);
    assert_eq!(attribute(&deliver, "encke.deliver.complete"), Some(&json!(true)), "{deliver:#?}");
    assert_eq!(attribute(&deliver, "encke.deliver.connections"), Some(&json!(1)));
}

#[test]
fn a_later_poll_is_awaited() {
    let (collector, server) = traced_server();
    let (mut poll, token) = open_polling_session(&server);
    assert_eq!(publish(&server, "news", 1, ""), 200);
    // The span ends only with the next poll. Pause, so that a span that ended earlier can be distinguished.
    let_pass(Duration::from_millis(300));
    let polled_at = SystemTime::now();
    poll.get(&format!("resume={token}&seq=0"));
    let deliver = await_deliver_span(&collector);
    assert_eq!(attribute(&deliver, "encke.deliver.connections.poll"), Some(&json!(1)), "{deliver:#?}");
    assert_eq!(attribute(&deliver, "encke.deliver.complete"), Some(&json!(true)));
    let polled_at = polled_at.duration_since(SystemTime::UNIX_EPOCH).expect("the clock is past 1970");
    assert!(u128::from(deliver.end) >= polled_at.as_nanos(), "{deliver:#?}");
}

#[test]
fn a_session_closed_in_the_meantime_is_not_awaited() {
    let (collector, server) = traced_server();
    let (_poll, token) = open_polling_session(&server);
    assert_eq!(publish(&server, "news", 1, ""), 200);
    assert_eq!(server.admin.kick(token.split_once('.').expect("an id").0).status, 204);
    let deliver = await_deliver_span(&collector);
    assert_eq!(attribute(&deliver, "encke.deliver.complete"), Some(&json!(true)), "{deliver:#?}");
    assert_eq!(attribute(&deliver, "encke.deliver.connections"), Some(&json!(0)));
}

/// Connects a subscriber that does not read, and publishes more to it than its buffers hold.
fn non_reading_client(server: &RunningServer) -> RawClient {
    let (mut client, _) = RawClient::greeted(server.public, "");
    client.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    client.object();
    let body = json!({ "channel": "news", "data": "x".repeat(60_000) }).to_string();
    let unsampled = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00\r\n";
    for _ in 0..100 {
        let headers = format!("Content-Type: application/json\r\n{unsampled}");
        assert_eq!(server.admin.send("/api/publish", &headers, &body).status, 200);
    }
    client
}

#[test]
fn a_client_that_does_not_read_is_awaited_for_a_limited_time() {
    let collector = Collector::default();
    let settings = ["limits.send_buffer=16KiB", "channel.history_bytes=64MiB", "session.write_timeout=30s"];
    let server = collector.server(&[&settings[..], &[IN_MEMORY]].concat()).start();
    let _client = non_reading_client(&server);
    let mut other = server.client();
    other.subscribe("news");
    assert_eq!(publish(&server, "news", 1, ""), 200);
    other.object();
    let deliver = await_deliver_span(&collector);
    assert_eq!(attribute(&deliver, "encke.deliver.complete"), Some(&json!(false)), "{deliver:#?}");
    assert_eq!(attribute(&deliver, "encke.deliver.connections"), Some(&json!(1)));
    assert_eq!(attribute(&deliver, "encke.deliver.missing"), Some(&json!(1)));
    assert!(deliver.end - deliver.start >= 5_000_000_000, "{deliver:#?}");
}

#[test]
fn overlapping_subscriptions_count_as_one_connection() {
    let (collector, server) = traced_server();
    let (mut both, mut pattern) = (server.client(), server.client());
    both.subscribe("/a/*");
    both.subscribe("/a/b");
    pattern.subscribe("/a/**");
    assert_eq!(publish(&server, "/a/b", 1, ""), 200);
    both.object();
    pattern.object();
    let deliver = await_deliver_span(&collector);
    assert_eq!(attribute(&deliver, "encke.deliver.complete"), Some(&json!(true)), "{deliver:#?}");
    assert_eq!(attribute(&deliver, "encke.deliver.connections.websocket"), Some(&json!(2)));
}

#[test]
fn delivery_to_a_crowd_is_complete() {
    const CROWD: usize = 300;
    let (collector, server) = traced_server();
    let mut crowd: Vec<_> = (0..CROWD).map(|_| server.client()).collect();
    for client in &mut crowd {
        client.subscribe("news");
    }
    assert_eq!(publish(&server, "news", 1, ""), 200);
    for client in &mut crowd {
        client.object();
    }
    let deliver = await_deliver_span(&collector);
    assert_eq!(attribute(&deliver, "encke.deliver.complete"), Some(&json!(true)), "{deliver:#?}");
    assert_eq!(attribute(&deliver, "encke.deliver.connections"), Some(&json!(CROWD)));
}
