use std::time::{Duration, Instant};

use encke_tests::poll::{get, get_with, post};
use encke_tests::tls::{VERSIONS, handshake};
use encke_tests::waiting::{MAX_LATENESS, let_pass};
use encke_tests::{PollClient, RunningServer};
use serde_json::json;

use super::{JSON, await_polls, command_query, hello, message, open, over_tls, poll_query};

#[test]
fn requests_may_follow_a_held_poll() {
    let server = RunningServer::with(&[]);
    let (mut requests, hello) = open(&server, "news");
    let publish = |data: u64| {
        post(
            &command_query(&hello),
            JSON,
            &format!(r#"{{"id":{data},"publish":{{"channel":"chat","data":{data}}}}}"#),
        )
    };
    // Send several requests in one packet, then one byte by byte.
    requests.send(&(get(&poll_query(&hello, 0)) + &publish(1) + &get(&poll_query(&hello, 1)) + &publish(2)));
    server.await_held(&hello.session);
    for byte in publish(3).chars() {
        requests.send(byte.to_string());
    }
    server.admin.publish("news", 1);
    assert_eq!(requests.response().json(), json!([message(1, 1, 1)]));
    assert_eq!(requests.response().json()[0]["reply"]["id"], 1);
    server.await_held(&hello.session);
    server.admin.publish("news", 2);
    assert_eq!(requests.response().json(), json!([message(2, 2, 2)]));
    for id in 2..=3 {
        let reply = requests.response().json();
        assert_eq!((&reply[0]["reply"]["id"], &reply[0]["reply"]["ok"]["offset"]), (&json!(id), &json!(id)));
    }
}

/// Requests beyond the read-ahead limit stay in the socket.
#[test]
fn requests_beyond_the_read_ahead_limit_are_answered() {
    const REQUESTS: usize = 1000;
    let server = RunningServer::with(&[]);
    let (mut requests, hello) = open(&server, "news");
    let ack = post(&command_query(&hello), JSON, r#"{"id":1,"ack":{"seq":0}}"#);
    requests.send(&(get(&poll_query(&hello, 0)) + &ack.repeat(REQUESTS)));
    server.await_held(&hello.session);
    server.admin.publish("news", 1);
    assert_eq!(requests.response().json(), json!([message(1, 1, 1)]));
    for _ in 0..REQUESTS {
        assert_eq!(requests.response().json()[0]["reply"]["ok"], json!({}));
    }
    // One connection may open many sessions.
    requests.send(get("channels=news").repeat(REQUESTS / 4));
    for _ in 0..REQUESTS / 4 {
        assert!(!super::hello(&requests.response().json()).recovered);
    }
}

#[test]
fn connection_close_is_honoured() {
    let server = RunningServer::with(&[]);
    let (_, hello) = open(&server, "news");
    let held_then = |request: &str| {
        let mut requests = PollClient::connect(server.public);
        requests.send(request);
        server.await_held(&hello.session);
        let offset = server.admin.publish("news", 0)["offset"].as_u64().expect("an offset");
        let answer = requests.response();
        assert_eq!(answer.json(), json!([message(offset, offset, 0)]));
        assert_eq!(answer.header("connection"), Some("close"));
        requests.await_end_without_response();
    };
    held_then(&get_with(&poll_query(&hello, 0), "Connection: close\r\n"));
    held_then(&get_with(&poll_query(&hello, 1), "Connection: Keep-Alive, Close\r\n"));
    held_then(&format!("GET /poll?{} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", poll_query(&hello, 2)));
    let mut requests = PollClient::connect(server.public);
    let request = post(&command_query(&hello), &format!("{JSON}Connection: close\r\n"), "[]");
    assert_eq!(requests.exchange(request).body, "[]");
    requests.await_end_without_response();
}

/// A body must not be parsed as a request: a proxy that forwards a GET with a body would receive one response
/// too many.
#[test]
fn the_body_of_a_get_is_not_read_as_a_request() {
    let server = RunningServer::with(&[]);
    let (_, hello) = open(&server, "news");
    server.admin.publish("news", 1);
    let smuggled = get("channels=smuggled");
    let length = format!("Content-Length: {}\r\n", smuggled.len());
    let chunked = format!("{:x}\r\n{smuggled}\r\n0\r\n\r\n", smuggled.len());
    for (headers, body) in [(&*length, &smuggled), ("Transfer-Encoding: chunked\r\n", &chunked)] {
        for query in [poll_query(&hello, 0), "channels=news".into()] {
            let mut requests = PollClient::connect(server.public);
            assert_eq!(requests.exchange(&(get_with(&query, headers) + body)).status, 200);
            if let Some(answer) = requests.try_response() {
                panic!("a response to the body: {answer:?}");
            }
        }
    }
    assert_eq!(server.admin.get("/api/channels/smuggled").status, 404);
}

#[test]
fn malformed_requests_are_rejected() {
    let server = RunningServer::with(&[]);
    let (mut requests, hello) = open(&server, "news");
    for query in ["seq=x", "seq=-1", "channels=", "channels=a%0Ab", "resume=a&seq="] {
        let answer = requests.get(query);
        assert_eq!((answer.status, answer.error_code().as_str()), (400, "bad_request"), "{query}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    for (path, methods, allowed) in [
        ("/poll", ["PUT", "DELETE", "PATCH"], "GET, POST, OPTIONS"),
        ("/events", ["POST", "PUT", "DELETE"], "GET, OPTIONS"),
        ("/bayeux", ["GET", "PUT", "DELETE"], "POST, OPTIONS"),
    ] {
        for method in methods {
            let answer = requests.exchange(format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
            assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)), "{method}");
        }
    }
    server.admin.publish("news", 1);
    assert_eq!(requests.get(&poll_query(&hello, 0)).json(), json!([message(1, 1, 1)]));
    // A malformed request closes the connection, but the response to the previous poll is still sent.
    let mut broken = PollClient::connect(server.public);
    broken.send_get(&poll_query(&hello, 1));
    server.await_held(&hello.session);
    broken.send("nonsense\r\n\r\n");
    server.admin.publish("news", 2);
    assert_eq!(broken.response().json(), json!([message(2, 2, 2)]));
    assert_eq!(broken.response().status, 400);
    broken.await_end_without_response();
}

#[test]
fn polls_over_tls() {
    let (server, certificate) = over_tls(&[]);
    for version in VERSIONS {
        let stream = handshake(server.public, &certificate, version).expect("the certificate is trusted");
        let mut requests = PollClient::over(stream);
        let hello = hello(&requests.get("channels=news").json());
        for seq in 0..3 {
            // The command is in the same TLS record as the poll.
            let ack = post(&command_query(&hello), JSON, r#"{"id":1,"ack":{"seq":0}}"#);
            requests.send(&(get(&poll_query(&hello, seq)) + &ack));
            server.await_held(&hello.session);
            server.admin.publish("news", seq);
            assert_eq!(requests.response().json()[0]["message"]["seq"], seq + 1);
            assert_eq!(requests.response().json()[0]["reply"]["id"], 1);
        }
        let reply = requests.post(&command_query(&hello), r#"{"id":2,"close":{}}"#).json();
        assert_eq!(reply[0]["reply"]["id"], 2);
        server.await_removal(&hello.session);
    }
    await_polls(&server, 0);
}

/// The time between requests is bounded on connections with and without a session, and so is the time that a
/// body takes to arrive. The duration of a held poll is not.
#[test]
fn the_pause_between_requests_is_bounded() {
    const ACK: &str = r#"{"ack":{"seq":0}}"#;
    let limit = Duration::from_secs(5);
    let server = RunningServer::with(&["limits.handshake_timeout=5s", "limits.keep_alive_timeout=5s"]);
    let mut commanded = PollClient::connect(server.public);
    let (mut polled, hello) = open(&server, "news");
    let mut half = PollClient::connect(server.public);
    half.send(format!(
        "POST /poll?{} HTTP/1.1\r\nHost: 127.0.0.1\r\n{JSON}Content-Length: 9\r\n\r\n[",
        command_query(&hello)
    ));
    let mut held = PollClient::connect(server.public);
    held.send_get(&poll_query(&hello, 0));
    let from = Instant::now();
    // Each request restarts the time limit.
    for _ in 0..3 {
        assert_eq!(commanded.post(&command_query(&hello), ACK).status, 200);
        let_pass(Duration::from_secs(2));
    }
    polled.await_end();
    let answer = half.try_response();
    assert!(answer.as_ref().is_none_or(|answer| answer.status == 408), "{answer:?}");
    assert!(from.elapsed() < Duration::from_secs(6) + MAX_LATENESS, "{:?}", from.elapsed());
    assert_eq!(commanded.post(&command_query(&hello), ACK).status, 200);
    server.admin.publish("news", 1);
    assert_eq!(held.response().json(), json!([message(1, 1, 1)]));
    // The time limit restarts after the response.
    let from = Instant::now();
    commanded.await_end();
    assert!(from.elapsed() < limit + MAX_LATENESS, "{:?}", from.elapsed());
    held.await_end();
    assert!(from.elapsed() >= limit - Duration::from_millis(100), "{:?}", from.elapsed());
    let refusals = server.admin.metrics().refusals("handshake_timeout");
    assert_eq!(refusals, 0.0, "all of these connections had made requests");
    server.assert_healthy();
}
