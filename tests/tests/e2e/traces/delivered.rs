use std::time::{Duration, SystemTime};

use encke_tests::server::IN_MEMORY;
use encke_tests::waiting::let_pass;
use encke_tests::{Collector, RawClient, PollClient, RunningServer, CollectedSpan};
use serde_json::json;

use super::{named, publish, said};

fn traced_server() -> (Collector, RunningServer) {
    let collector = Collector::default();
    let server = collector.server(&[IN_MEMORY]).start();
    (collector, server)
}

/// A session that follows `news` by long-polling, between two polls; and its token.
fn polling(server: &RunningServer) -> (PollClient, String) {
    let mut poll = PollClient::connect(server.public);
    let opened = poll.get("channels=news").json();
    let token = opened[0]["hello"]["resume"].as_str().expect("a token").to_owned();
    (poll, token)
}

/// The way of this message to its readers.
#[track_caller]
fn delivered(collector: &Collector) -> CollectedSpan {
    named(&collector.await_trace("POST /api/publish", 4), "deliver").clone()
}

#[test]
fn a_session_that_is_away_is_not_awaited() {
    let (collector, server) = traced_server();
    let (mut here, mut away) = (server.client(), server.client());
    here.subscribe("news");
    away.subscribe("news");
    let away = away.drop_connection();
    server.await_phase(&away.session, "suspended");
    assert_eq!(publish(&server, "news", 1, ""), 200);
    here.object();
    let deliver = delivered(&collector);
    assert_eq!(said(&deliver, "encke.deliver.complete"), Some(&json!(true)), "{deliver:#?}");
    assert_eq!(said(&deliver, "encke.deliver.connections"), Some(&json!(1)));
}

#[test]
fn a_poll_that_comes_later_is_awaited() {
    let (collector, server) = traced_server();
    let (mut poll, token) = polling(&server);
    assert_eq!(publish(&server, "news", 1, ""), 200);
    // Nothing is over before it comes. Time passes, so that this shows.
    let_pass(Duration::from_millis(300));
    let asked = SystemTime::now();
    poll.get(&format!("resume={token}&seq=0"));
    let deliver = delivered(&collector);
    assert_eq!(said(&deliver, "encke.deliver.connections.poll"), Some(&json!(1)), "{deliver:#?}");
    assert_eq!(said(&deliver, "encke.deliver.complete"), Some(&json!(true)));
    let asked = asked.duration_since(SystemTime::UNIX_EPOCH).expect("it is later");
    assert!(u128::from(deliver.end) >= asked.as_nanos(), "{deliver:#?}");
}

#[test]
fn a_session_that_leaves_meanwhile_is_not_awaited() {
    let (collector, server) = traced_server();
    let (_poll, token) = polling(&server);
    assert_eq!(publish(&server, "news", 1, ""), 200);
    assert_eq!(server.admin.kick(token.split_once('.').expect("an id").0).status, 204);
    let deliver = delivered(&collector);
    assert_eq!(said(&deliver, "encke.deliver.complete"), Some(&json!(true)), "{deliver:#?}");
    assert_eq!(said(&deliver, "encke.deliver.connections"), Some(&json!(0)));
}

/// One that does not read, and for which more waits than its buffers hold.
fn deaf_client(server: &RunningServer) -> RawClient {
    let (mut deaf, _) = RawClient::greeted(server.public, "");
    deaf.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    deaf.object();
    let body = json!({ "channel": "news", "data": "x".repeat(60_000) }).to_string();
    let unsampled = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00\r\n";
    for _ in 0..100 {
        let headers = format!("Content-Type: application/json\r\n{unsampled}");
        assert_eq!(server.admin.send("/api/publish", &headers, &body).status, 200);
    }
    deaf
}

#[test]
fn one_that_does_not_read_is_awaited_for_a_while() {
    let collector = Collector::default();
    let settings = ["limits.send_buffer=16KiB", "channel.history_bytes=64MiB", "session.write_timeout=30s"];
    let server = collector.server(&[&settings[..], &[IN_MEMORY]].concat()).start();
    let _deaf = deaf_client(&server);
    let mut other = server.client();
    other.subscribe("news");
    assert_eq!(publish(&server, "news", 1, ""), 200);
    other.object();
    let deliver = delivered(&collector);
    assert_eq!(said(&deliver, "encke.deliver.complete"), Some(&json!(false)), "{deliver:#?}");
    assert_eq!(said(&deliver, "encke.deliver.connections"), Some(&json!(1)));
    assert_eq!(said(&deliver, "encke.deliver.missing"), Some(&json!(1)));
    assert!(deliver.end - deliver.start >= 5_000_000_000, "{deliver:#?}");
}

#[test]
fn whoever_follows_a_channel_in_two_ways_is_one() {
    let (collector, server) = traced_server();
    let (mut both, mut pattern) = (server.client(), server.client());
    both.subscribe("/a/*");
    both.subscribe("/a/b");
    pattern.subscribe("/a/**");
    assert_eq!(publish(&server, "/a/b", 1, ""), 200);
    both.object();
    pattern.object();
    let deliver = delivered(&collector);
    assert_eq!(said(&deliver, "encke.deliver.complete"), Some(&json!(true)), "{deliver:#?}");
    assert_eq!(said(&deliver, "encke.deliver.connections.websocket"), Some(&json!(2)));
}

#[test]
fn a_crowd_has_it() {
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
    let deliver = delivered(&collector);
    assert_eq!(said(&deliver, "encke.deliver.complete"), Some(&json!(true)), "{deliver:#?}");
    assert_eq!(said(&deliver, "encke.deliver.connections"), Some(&json!(CROWD)));
}
