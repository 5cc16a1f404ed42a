use std::net::TcpStream;
use std::time::{Duration, Instant};

use encke_tests::poll::post;
use encke_tests::tokens::{sign, token};
use encke_tests::waiting::until;
use encke_tests::{Client, EventStream, PollClient, RunningServer};
use serde_json::{Value, json};

use super::{JSON, command_query, goaway, message, open, poll_query};

#[track_caller]
fn ids(replies: &Value) -> Vec<&Value> {
    replies.as_array().expect("an array").iter().map(|object| &object["reply"]["id"]).collect()
}

#[test]
fn replies_arrive_in_order() {
    let server = RunningServer::with(&[]);
    let (mut requests, hello) = open(&server, "news");
    let answer = requests.post(
        &command_query(&hello),
        r#"[{"id":3,"publish":{"channel":"news","data":1}},{"publish":{"channel":"news","data":2}},
            {"id":1,"dance":{}},{"id":2,"presence":{"channel":"news"}}]"#,
    );
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")));
    let replies = answer.json();
    assert_eq!(ids(&replies), [3, 1, 2]);
    assert_eq!(replies[0]["reply"]["ok"]["offset"], 1);
    assert_eq!(replies[1]["reply"]["error"]["code"], "unknown_command");
    assert_eq!(replies[2]["reply"]["ok"]["total"], 1);
    // Send a single command without an array, and bodies without any command that has an id.
    assert_eq!(ids(&requests.post(&command_query(&hello), r#" {"id":4,"ack":{"seq":0}}"#).json()), [4]);
    for nothing in ["[]", r#"{"ack":{"seq":0}}"#] {
        assert_eq!(requests.post(&command_query(&hello), nothing).body, "[]");
    }
    assert_eq!(requests.get(&poll_query(&hello, 0)).json(), json!([message(1, 1, 1), message(2, 2, 2)]));
}

#[test]
fn a_subscription_completes_a_held_poll() {
    let server = RunningServer::with(&[]);
    let (mut requests, hello) = open(&server, "chat");
    let [epoch, _] = [1, 2].map(|number| server.admin.publish("news", number)["epoch"].clone());
    requests.send_get(&poll_query(&hello, 0));
    server.await_held(&hello.session);
    let since = json!({"epoch": epoch, "offset": 0});
    let subscribe = json!({"id": 1, "subscribe": {"channel": "news", "since": since}});
    let replies = PollClient::connect(server.public).post(&command_query(&hello), &subscribe).json();
    assert_eq!(replies[0]["reply"]["ok"]["recovered"], true, "{replies}");
    assert_eq!(requests.response().json(), json!([message(1, 1, 1), message(2, 2, 2)]));
}

#[test]
fn clients_with_another_transport_send_commands_by_post() {
    let server = RunningServer::with(&[]);
    let mut requests = PollClient::connect(server.public);
    let body = r#"[{"id":1,"subscribe":{"channel":"news"}},{"id":2,"publish":{"channel":"news","data":7}}]"#;
    let (mut events, hello) = EventStream::greeted(server.public, "channels=chat");
    assert_eq!(ids(&requests.post(&command_query(&hello), body).json()), [1, 2]);
    assert_eq!(events.object().1["message"]["data"], 7);
    assert_eq!(ids(&requests.post(&command_query(&hello), r#"{"id":3,"close":{}}"#).json()), [3]);
    assert!(events.to_end().last().is_some_and(|end| end.contains("goaway")), "the stream gets a goaway");
    server.await_removal(&hello.session);
    let mut client = server.client();
    let query = command_query(&client.hello);
    assert_eq!(ids(&requests.post(&query, body).json()), [1, 2]);
    assert_eq!(client.object(), message(1, 2, 7));
    requests.post(&query, r#"{"close":{}}"#);
    assert_eq!(client.close_code(), Some(1000));
}

#[test]
fn bad_requests_leave_the_session_unharmed() {
    let server = RunningServer::with(&["limits.max_message=1KiB", "limits.receive_total=1MiB"]);
    let (mut requests, hello) = open(&server, "news");
    let query = command_query(&hello);
    let ack = r#"{"ack":{"seq":0}}"#;
    for (content_type, status) in [
        ("", 415),
        ("Content-Type: text/plain\r\n", 415),
        ("Content-Type: application/x-www-form-urlencoded\r\n", 415),
        ("Content-Type: Application/JSON; charset=utf-8\r\n", 200),
    ] {
        let answer = PollClient::connect(server.public).exchange(post(&query, content_type, ack));
        assert_eq!(answer.status, status, "{content_type}");
    }
    let commands = |count: usize| format!("[{}]", vec!["{}"; count].join(","));
    let long = format!(r#"{{"publish":{{"channel":"news","data":"{}"}}}}"#, "x".repeat(1024));
    for (body, status, code) in [
        ("[", 400, "bad_request"),
        ("[{}", 400, "bad_request"),
        ("not JSON", 400, "bad_request"),
        ("", 400, "bad_request"),
        (&*commands(65), 413, "too_large"),
        (&*long, 413, "too_large"),
    ] {
        let answer = PollClient::connect(server.public).post(&query, body);
        assert_eq!((answer.status, answer.error_code().as_str()), (status, code), "{body}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    let length = "Content-Length: 99999999999";
    let long = format!("POST /poll?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{JSON}{length}\r\n\r\n");
    assert_eq!(PollClient::connect(server.public).exchange(long).status, 413);
    let replies = requests.post(&query, commands(64)).json();
    assert_eq!(replies.as_array().map(Vec::len), Some(64));
    assert_eq!(requests.post("", ack).status, 400, "no session is named");
    assert_eq!(requests.post("resume=nonsense", ack).status, 410);
    let (session, _) = hello.resume.split_once('.').expect("an id and a secret");
    assert_eq!(requests.post(&format!("resume={session}.AAAA"), ack).status, 410);
    server.await_lifecycle(&hello.session, "opened connect");
}

/// The rate limit applies to the session, regardless of how its commands arrive. A flood ends the session; the
/// next poll reports the same reason as the commands.
#[test]
fn posted_commands_count_towards_the_session_rate() {
    let server = RunningServer::with(&["limits.commands_per_second=5"]);
    let presence = r#"{"id":1,"presence":{"channel":"news"}}"#;
    let many = |count| format!("[{}]", vec![presence; count].join(","));
    let client = server.client();
    let mut separate = PollClient::connect(server.public);
    let mut answers = (0..50).map(|_| separate.post(&command_query(&client.hello), many(4)).json());
    let is_limited = |reply: &Value| reply["reply"]["error"]["code"] == "rate_limited";
    assert!(answers.any(|answer| answer.as_array().is_some_and(|replies| replies.iter().any(is_limited))));

    let (mut requests, hello) = open(&server, "news");
    let mut flood = (0..50).map(|_| requests.post(&command_query(&hello), many(64)).json());
    let answer = flood.find(|answer| answer.as_array().is_some_and(|all| all.len() < 64));
    drop(flood);
    assert_eq!(goaway(&answer.expect("the flood ends the session")), "limit");
    assert_eq!(goaway(&requests.get(&poll_query(&hello, 0)).json()), "limit");
    server.await_lifecycle(&hello.session, "opened connect, closed limit");
}

/// A client need not read the replies, so they must not become much larger than its request.
#[test]
fn commands_after_large_replies_are_refused() {
    let server = RunningServer::with_tokens(&[]);
    // Each name takes 510 bytes, because quotes are escaped.
    let users = (0..40).map(|number| format!("{number:03}{}", "\"".repeat(252)));
    let _present: Vec<Client> = users
        .map(|user| {
            let mut client = server.client_of(&user);
            client.subscribe("room");
            client
        })
        .collect();
    let client = server.client_of("eve");
    let presence = r#"{"id":1,"presence":{"channel":"room"}}"#;
    let query = format!("{}&token={}", command_query(&client.hello), token("eve", json!({})));
    let replies =
        PollClient::connect(server.public).post(&query, format!("[{presence},{presence},{presence}]")).json();
    assert_eq!(replies[1]["reply"]["ok"]["truncated"], true);
    assert_eq!(replies[1]["reply"]["ok"]["total"], 40);
    assert_eq!(replies[2]["reply"]["error"]["code"], "too_large");
}

#[test]
fn another_users_token_changes_nothing() {
    let server = RunningServer::with_tokens(&[]);
    let alices = token("alice", json!({"channels": {"news": ["subscribe"]}}));
    let mut requests = PollClient::connect(server.public);
    let hello = super::hello(&requests.get(&format!("channels=news&token={alices}")).json());
    let poll = format!("{}&token={alices}", poll_query(&hello, 0));
    requests.send_get(&poll);
    server.await_held(&hello.session);
    let bobs = token("bob", json!({}));
    let forged = sign(&json!({"sub": "alice", "channels": {"*": ["publish"]}}), &"x".repeat(32));
    let mut separate = PollClient::connect(server.public);
    let commands = format!("{}&token={alices}", command_query(&hello));
    for (bad, code) in [(&bobs, "forbidden"), (&forged, "unauthorized")] {
        let body = json!([{"id": 1, "refresh": {"token": bad}}, {"id": 2, "publish": {"channel": "news", "data": 1}}]);
        let replies = separate.post(&commands, &body).json();
        assert_eq!(replies[0]["reply"]["error"]["code"], code, "{replies}");
        assert_eq!(replies[1]["reply"]["error"]["code"], "forbidden", "{replies}");
    }
    assert_eq!(separate.get(&format!("{}&token={bobs}", poll_query(&hello, 0))).status, 403);
    // If Alice's own new token permits less, her poll is notified as well.
    let none = token("alice", json!({"channels": {}}));
    let replies = separate.post(&commands, json!({"id": 1, "refresh": {"token": none}})).json();
    assert_eq!(replies[0], json!({"unsubscribed": {"channel": "news", "reason": "forbidden"}}));
    assert_eq!(ids(&json!([replies[1]])), [1]);
    server.await_lifecycle(&hello.session, "opened connect");
    assert!(Client::connect(server.public, &commands).hello.recovered);
}

/// Incomplete bodies count towards the limit on partial messages.
#[test]
fn partial_bodies_are_limited_in_total() {
    const CLIENTS: usize = 40;
    let server = RunningServer::with(&["limits.receive_total=256KiB", "limits.handshake_timeout=60s"]);
    let (mut requests, hello) = open(&server, "news");
    let half = format!(
        "POST /poll?{} HTTP/1.1\r\nHost: 127.0.0.1\r\n{JSON}Content-Length: 60000\r\n\r\n{}",
        command_query(&hello),
        " ".repeat(32_000)
    );
    let mut crowd: Vec<_> = (0..CLIENTS).map(|_| PollClient::connect(server.public)).collect();
    for client in &mut crowd {
        client.send(&half);
    }
    let metric = |name: &str| server.admin.metrics().value(name);
    until("partial bodies are evicted", || metric("encke_partial_messages_closed_total") >= 30.0);
    assert!(metric("encke_partial_message_bytes") <= 256.0 * 1024.0);
    // On a busy machine, the first client may not be the one that receives a response.
    let mut answered = None;
    until("one of the clients gets a response", || {
        answered = crowd.iter().position(|client| is_readable(client.stream()));
        answered.is_some()
    });
    crowd[answered.expect("a response was found")].response().assert_error(503, "overloaded");
    drop(crowd);
    until("all partial bodies are freed", || metric("encke_partial_message_bytes") == 0.0);
    assert_eq!(requests.post(&command_query(&hello), r#"{"id":1,"ack":{"seq":0}}"#).status, 200);
    server.await_lifecycle(&hello.session, "opened connect");
}

/// Whether data can be read.
fn is_readable(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("the socket is open");
    let is_readable = stream.peek(&mut [0]).is_ok();
    stream.set_nonblocking(false).expect("the socket is open");
    is_readable
}

/// Polls and requests may arrive at the rate at which an idle WebSocket may send frames. The excess is
/// delayed.
#[test]
fn requests_above_the_rate_are_delayed() {
    let server = RunningServer::with(&["limits.frames_per_second=10"]);
    let (mut requests, hello) = open(&server, "news");
    let acks = |count| format!("[{}]", vec![r#"{"ack":{"seq":0}}"#; count].join(","));
    let mut is_delayed = |acknowledged| {
        let from = Instant::now();
        if acknowledged > 0 {
            assert_eq!(requests.post(&command_query(&hello), acks(acknowledged)).body, "[]");
        } else {
            assert_eq!(requests.get(&poll_query(&hello, 0)).json(), json!([message(1, 1, 1)]));
        }
        from.elapsed() >= Duration::from_millis(900)
    };
    server.admin.publish("news", 1);
    let [_, second, third] = [20, 10, 0].map(&mut is_delayed);
    assert!(second && third);
    server.await_lifecycle(&hello.session, "opened connect");
}
