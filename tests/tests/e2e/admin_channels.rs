use std::io::Write;
use std::net::TcpStream;

use encke_tests::server::IN_MEMORY;
use encke_tests::waiting::until;
use encke_tests::{HttpResponse, RunningServer};
use serde_json::{Value, json};

#[track_caller]
fn assert_error(answer: &HttpResponse, status: u16, code: &str) {
    assert_eq!((answer.status, &*answer.error_code()), (status, code), "{answer:?}");
}

#[track_caller]
fn get(server: &RunningServer, path: &str) -> Value {
    let answer = server.admin.get(path);
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

fn subscribe(channel: &str) -> String {
    json!({"id": 1, "subscribe": {"channel": channel}}).to_string()
}

#[test]
fn published_message_reaches_its_subscribers() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    let subscribed = client.request(&subscribe("news"));
    let answer =
        server.admin.post("/api/publish", r#"{"channel":"news","data": {"b": [1, 2.50], "a": null} }"#);
    assert_eq!(answer.json(), json!({"offset": 1, "epoch": subscribed["ok"]["epoch"]}));
    let message = &client.object()["message"];
    assert_eq!((&message["channel"], &message["offset"]), (&json!("news"), &json!(1)));
    // The data is delivered as written, except for white space between tokens.
    let history = server.admin.get("/api/channels/news/history");
    assert!(history.body.contains(r#""data":{"b":[1,2.50],"a":null}"#), "{}", history.body);
}

#[test]
fn broadcast_reports_the_outcome_for_each_channel() {
    let server = RunningServer::with(&[IN_MEMORY, "limits.max_channels=2"]);
    // A channel with subscribers is not evicted to make room for another.
    let (mut subscriber, mut other) = (server.client(), server.client_from("127.0.0.2"));
    subscriber.subscribe("a");
    other.subscribe("d");
    let body = json!({"channels": ["a", "b,c", "d", "e", "a"], "data": 1}).to_string();
    let answer = server.admin.post("/api/broadcast", &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = answer.json();
    let published = answer["published"].as_array().expect("a list");
    let epoch = |channel: &str| get(&server, &format!("/api/channels/{channel}"))["epoch"].clone();
    assert_eq!(published.len(), 5);
    assert_eq!(published[0], json!({"channel": "a", "offset": 1, "epoch": epoch("a")}));
    assert_eq!(published[1]["channel"], "b,c");
    assert_eq!(published[1]["error"]["code"], "bad_channel");
    assert_eq!(published[2], json!({"channel": "d", "offset": 1, "epoch": epoch("d")}));
    assert_eq!(published[3]["error"]["code"], "limit");
    assert_eq!(published[4], json!({"channel": "a", "offset": 2, "epoch": epoch("a")}));
    let full = server.admin.post("/api/publish", r#"{"channel":"e","data":1}"#);
    assert_error(&full, 503, "limit");
    for count in [0, 1001] {
        let body = json!({"channels": vec!["a"; count], "data": 1}).to_string();
        assert_error(&server.admin.post("/api/broadcast", &body), 400, "bad_request");
    }
}

#[test]
fn broadcast_continues_after_its_connection_closes() {
    let server = RunningServer::with(&[]);
    let names: Vec<_> = (0..1000).map(|number| format!("c{number}")).collect();
    let body = json!({"channels": names, "data": " a b "}).to_string();
    let (host, length) = (server.admin.address(), body.len());
    let head = format!("Host: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n");
    let mut stream = TcpStream::connect(host).expect("the listener accepts");
    write!(stream, "POST /api/broadcast HTTP/1.1\r\n{head}\r\n{body}").expect("the listener reads");
    let published = || server.admin.metrics().value("encke_messages_published_total");
    until("the broadcast has begun", || published() > 0.0);
    drop(stream);
    until("all are published", || published() == 1000.0);
    let page = get(&server, "/api/channels?limit=1000");
    let channels = page["channels"].as_array().expect("a list");
    assert!(channels.iter().all(|channel| channel["last"] == 1), "{page}");
    assert_eq!(get(&server, "/api/channels/c999/history")["messages"][0]["data"], " a b ");
}

#[test]
fn history_is_read_from_an_offset() {
    let server = RunningServer::with(&[IN_MEMORY, "channel.history_messages=5"]);
    for number in 1..=7 {
        server.admin.publish("a/b c", json!(number));
    }
    let history = |query: &str| {
        let page = get(&server, &format!("/api/channels/a%2Fb%20c/history{query}"));
        assert_eq!((&page["first"], &page["last"]), (&json!(3), &json!(7)), "{page}");
        assert_eq!(page["channel"], "a/b c");
        let messages = page["messages"].as_array().expect("a list").clone();
        let numbers = messages.iter().map(|message| {
            assert!(message["age_ms"].as_f64() >= Some(0.0), "{message}");
            assert_eq!(message["offset"], message["data"]);
            message["offset"].as_u64().expect("a number")
        });
        numbers.collect::<Vec<_>>()
    };
    assert_eq!(history(""), [3, 4, 5, 6, 7]);
    assert_eq!(history("?since=5"), [6, 7]);
    assert_eq!(history("?since=3&limit=2"), [4, 5]);
    assert!(history("?since=7").is_empty());
    assert_eq!(history("?before=18446744073709551616&limit=2"), [6, 7], "the newest messages");
    assert_eq!(history("?before=6&limit=2"), [4, 5]);
    assert_eq!(history("?before=4&limit=2"), [3]);
    assert_eq!(history("?before=6"), [3, 4, 5]);
    assert_eq!(history("?since=4&before=7"), [5, 6]);
    assert_eq!(history("?since=3&before=7&limit=2"), [5, 6]);
    assert!(history("?since=5&before=3").is_empty());
    for before in ["0", "1", "3"] {
        assert!(history(&format!("?before={before}")).is_empty(), "{before}");
    }
    assert!(history("?since=18446744073709551615").is_empty());
    assert!(history("?since=18446744073709551616").is_empty(), "numbers beyond 64 bits are accepted");
    for query in [
        "since=-1",
        "since=%2B1",
        "since=1.0",
        "since=",
        "since=x",
        "before=-1",
        "limit=0",
        "limit=1001",
        "epoch=e",
    ] {
        let answer = server.admin.get(&format!("/api/channels/a%2Fb%20c/history?{query}"));
        assert_error(&answer, 400, "bad_request");
    }
}

#[test]
fn presence_lists_suspended_but_not_expired_sessions() {
    let server = RunningServer::with(&["session.reconnect_window=1s"]);
    let (mut stays, mut leaves) = (server.client(), server.client());
    stays.request(&subscribe("news"));
    leaves.request(&subscribe("news"));
    let presence = || get(&server, "/api/channels/news/presence");
    let entry = |session: &str, phase: &str| json!({"session": session, "user": null, "phase": phase});
    let (first, second) = (stays.hello.session.clone(), leaves.hello.session.clone());
    let both = json!([entry(&first, "attached"), entry(&second, "attached")]);
    let all = json!({"channel": "news", "total": 2, "present": both, "users": [], "next_cursor": null});
    assert_eq!(presence(), all);
    drop(leaves);
    until("the second is suspended", || presence()["present"][1] == entry(&second, "suspended"));
    assert_eq!(presence()["total"], 2);
    until("the second session has expired", || presence()["total"] == 1);
    assert_eq!(presence()["present"], json!([entry(&first, "attached")]));
    server.logs.await_lifecycle(
        &second,
        &[("opened", "connect"), ("suspended", "connection_lost"), ("expired", "reconnect_window")],
    );
}

#[test]
fn channels_and_subscribers_are_paginated() {
    let server = RunningServer::with(&[IN_MEMORY]);
    let mut clients: Vec<_> = (0..5).map(|_| server.client()).collect();
    for client in &mut clients {
        client.request(&subscribe("b"));
    }
    for channel in ["d", "a", "c é"] {
        server.admin.publish(channel, json!("x"));
    }
    let page = get(&server, "/api/channels?limit=2");
    assert_eq!((&page["channels"][0]["channel"], &page["next_cursor"]), (&json!("a"), &json!("b")));
    let empty = &page["channels"][1];
    assert_eq!((&empty["channel"], &empty["subscribers"]), (&json!("b"), &json!(5)));
    assert_eq!((&empty["first"], &empty["last"], &empty["bytes"]), (&json!(1), &json!(0), &json!(0)));
    let page = get(&server, "/api/channels?limit=2&cursor=b");
    let last = &page["channels"][1];
    assert_eq!((&last["channel"], &last["messages"], &last["last"]), (&json!("d"), &json!(1), &json!(1)));
    assert_eq!((&page["channels"][0]["channel"], &page["next_cursor"]), (&json!("c é"), &Value::Null));
    assert_eq!(get(&server, "/api/channels/c%20%C3%A9"), page["channels"][0]);
    for query in ["limit=0", "limit=1001", "limit=x", "phase=attached"] {
        assert_error(&server.admin.get(&format!("/api/channels?{query}")), 400, "bad_request");
    }

    let mut seen = Vec::new();
    let mut cursor = json!(0);
    for size in [2, 2, 1] {
        let page = get(&server, &format!("/api/channels/b/presence?limit=2&cursor={cursor}"));
        let present = page["present"].as_array().expect("a list");
        assert_eq!((present.len(), &page["total"]), (size, &json!(5)));
        seen.extend(present.iter().map(|present| present["session"].clone()));
        cursor = page["next_cursor"].clone();
    }
    assert_eq!(cursor, Value::Null);
    assert_eq!(seen, clients.iter().map(|client| json!(client.hello.session)).collect::<Vec<_>>());
}

#[test]
fn request_bodies_are_validated() {
    let server = RunningServer::with(&["limits.max_message=1KiB"]);
    let good = r#"{"channel":"news","data":1}"#;
    for kind in ["", "Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"] {
        assert_error(&server.admin.send("/api/publish", kind, good), 415, "unsupported_media_type");
    }
    let with_data = |bytes: usize| format!(r#"{{"channel":"news","data":"{}"}}"#, "x".repeat(bytes - 2));
    assert_eq!(server.admin.post("/api/publish", &with_data(1024)).status, 200);
    assert_error(&server.admin.post("/api/publish", &with_data(1025)), 413, "too_large");
    // Limit of the whole body: `limits.max_message`, plus 512 KiB for names.
    assert_error(&server.admin.post("/api/publish", &with_data(513 * 1024)), 413, "too_large");
    for (path, body, named) in [
        ("/api/publish", r#"{"channel":"news","data":1,"ttl":5}"#, "ttl"),
        ("/api/publish", r#"{"channel":"news"}"#, "data"),
        ("/api/publish", r#"{"data":1}"#, "channel"),
        ("/api/publish", r#"{"channel":7,"data":1}"#, "string"),
        ("/api/publish", r#"{"channel":"news","data":1} x"#, "trailing"),
        ("/api/publish", "", "EOF"),
        ("/api/broadcast", r#"{"channels":["a"],"channel":"a","data":1}"#, "`channel`"),
    ] {
        let answer = server.admin.post(path, body);
        assert_error(&answer, 400, "bad_request");
        assert!(answer.body.contains(named), "{body}: {}", answer.body);
    }
    assert_error(&server.admin.post("/api/publish", r#"{"channel":"a,b","data":1}"#), 400, "bad_channel");
    assert_eq!(get(&server, "/api/channels/news/history")["last"], 1, "nothing else was published");
    let (get, post) = (server.admin.get("/api/publish"), server.admin.post("/api/channels", good));
    assert_eq!((get.status, get.header("allow")), (405, Some("POST")));
    assert_eq!((post.status, post.header("allow")), (405, Some("GET, HEAD")));
}

#[test]
fn a_body_must_arrive_in_time() {
    let server = RunningServer::with(&["limits.handshake_timeout=300ms"]);
    let headers = "Content-Type: application/json\r\nContent-Length: 100\r\n";
    let host = server.admin.address();
    let answer = server.admin.request_with("POST", "/api/publish", &format!("Host: {host}\r\n{headers}"));
    assert_error(&answer, 408, "timeout");
}

#[test]
fn unknown_and_invalid_channel_names_are_rejected() {
    let server = RunningServer::with(&["channel.name_bytes=8"]);
    for rest in ["", "/history", "/presence"] {
        let unknown = server.admin.get(&format!("/api/channels/unknown{rest}"));
        if rest == "/presence" {
            assert_eq!(
                unknown.json(),
                json!({"channel": "unknown", "total": 0, "present": [], "users": [], "next_cursor": null})
            );
        } else {
            assert_error(&unknown, 404, "not_found");
        }
        for name in ["", "a,b", "a%2Cb", "a%0Ab", "%FF", "ninebytes"] {
            assert_error(&server.admin.get(&format!("/api/channels/{name}{rest}")), 400, "bad_channel");
        }
    }
    assert_error(&server.admin.get("/api/channels/a/b"), 404, "not_found");
}

#[test]
fn session_shows_its_backlog_and_unacknowledged_messages() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    client.request(&subscribe("news"));
    let id = client.hello.session.clone();
    let subscription =
        |cursor: u64, backlog: u64| json!([{"channel": "news", "cursor": cursor, "backlog": backlog}]);
    assert_eq!(server.admin.session(&id)["subscriptions"], subscription(0, 0));
    server.admin.publish("news", json!(1));
    server.admin.publish("news", json!(2));
    let (_, last) = (client.object(), client.object());
    assert_eq!(last["message"]["offset"], 2);
    let session = server.admin.session(&id);
    assert_eq!((&session["subscriptions"], &session["unacked"]), (&subscription(2, 0), &json!(2)));
    client.request(r#"{"id":2,"ack":{"seq":1}}"#);
    assert_eq!(server.admin.session(&id)["unacked"], 1);

    let left = client.drop_connection();
    server.await_phase(&left.session, "suspended");
    for number in 3..=5 {
        server.admin.publish("news", json!(number));
    }
    let session = server.admin.session(&id);
    assert_eq!((&session["subscriptions"], &session["unacked"]), (&subscription(2, 3), &json!(1)));
}

#[test]
fn the_api_describes_itself() {
    let server = RunningServer::with(&[]);
    let document = get(&server, "/api/openapi.json");
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/api/publish"]["post"].is_object(), "{document}");
}

#[test]
fn the_busiest_channels_come_first() {
    let server = RunningServer::with(&[IN_MEMORY]);
    let mut subscriber = server.client();
    subscriber.subscribe("liked");
    for _ in 0..5 {
        server.admin.publish("often", 1);
    }
    server.admin.publish("fat", "x".repeat(2_000));
    let busiest = |sort: &str, limit: usize| {
        let page = get(&server, &format!("/api/channels?sort={sort}&limit={limit}"));
        assert_eq!(page["next_cursor"], Value::Null);
        page["channels"].as_array().cloned().expect("channels")
    };
    let rates = busiest("rate", 1);
    let (bytes, subscribed) = (busiest("bytes", 100), busiest("subscribers", 100));
    assert_eq!((rates.len(), &rates[0]["channel"], &rates[0]["messages"]), (1, &json!("often"), &json!(5)));
    let rate = rates[0]["rate"].as_f64().expect("a rate");
    assert!(rate > 0.08 && rate <= 5.0, "{rate}: between 5 a minute and 5 a second");
    let names = |channels: &[Value]| channels.iter().map(|one| one["channel"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&bytes), ["fat", "often", "liked"]);
    assert_eq!(
        names(&subscribed),
        ["liked", "fat", "often"],
        "channels with equally many subscribers are sorted by name"
    );
    assert_eq!(subscribed[0]["subscribers"], 1);
    // Except for the rate, the entry equals the response to a query for this channel alone.
    let mut fat = bytes[0].clone();
    assert!(fat.as_object_mut().expect("an object").remove("rate").is_some());
    assert_eq!(fat, get(&server, "/api/channels/fat"));

    // The ranking is cached for a while, so the new message does not show up immediately.
    server.admin.publish("fatter", "x".repeat(4_000));
    until("the ranking is computed again", || busiest("bytes", 1)[0]["channel"] == "fatter");
}

#[test]
fn query_for_the_busiest_channels_is_validated() {
    let server = RunningServer::with(&[]);
    for query in ["sort=name", "sort=", "sort=rate&cursor=a", "sort=rate&limit=101", "sort=rate&limit=0"] {
        assert_error(&server.admin.get(&format!("/api/channels?{query}")), 400, "bad_request");
    }
    assert_eq!(get(&server, "/api/channels?sort=rate&limit=100")["channels"], json!([]));
    assert_eq!(get(&server, "/api/channels?limit=1000")["channels"], json!([]));
}
