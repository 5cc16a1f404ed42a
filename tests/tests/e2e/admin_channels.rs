use std::io::Write;
use std::net::TcpStream;

use encke_tests::RunningServer;
use encke_tests::server::IN_MEMORY;
use encke_tests::waiting::until;
use serde_json::{Value, json};

#[test]
fn broadcast_reports_the_outcome_for_each_channel() {
    let server = RunningServer::with(&[IN_MEMORY, "limits.max_channels=2"]);
    // A channel with subscribers is not evicted to make room for another.
    let (mut subscriber, mut other) = (server.client(), server.client_from("127.0.0.2"));
    subscriber.subscribe("a");
    other.subscribe("d");
    let body = json!({"channels": ["a", "b,c", "d", "e", "a"], "data": 1});
    let answer = server.admin.post("/api/broadcast", body).ok();
    let published = answer["published"].as_array().expect("a list");
    let epoch = |channel: &str| server.admin.get(&format!("/api/channels/{channel}")).ok()["epoch"].clone();
    assert_eq!(published.len(), 5);
    assert_eq!(published[0], json!({"channel": "a", "offset": 1, "epoch": epoch("a")}));
    assert_eq!(published[1]["channel"], "b,c");
    assert_eq!(published[1]["error"]["code"], "bad_channel");
    assert_eq!(published[2], json!({"channel": "d", "offset": 1, "epoch": epoch("d")}));
    assert_eq!(published[3]["error"]["code"], "limit");
    assert_eq!(published[4], json!({"channel": "a", "offset": 2, "epoch": epoch("a")}));
    server.admin.post("/api/publish", r#"{"channel":"e","data":1}"#).assert_error(503, "limit");
    for count in [0, 1001] {
        let body = json!({"channels": vec!["a"; count], "data": 1});
        server.admin.post("/api/broadcast", body).assert_error(400, "bad_request");
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
    let page = server.admin.get("/api/channels?limit=1000").ok();
    let channels = page["channels"].as_array().expect("a list");
    assert!(channels.iter().all(|channel| channel["last"] == 1), "{page}");
    assert_eq!(server.admin.get("/api/channels/c999/history").ok()["messages"][0]["data"], " a b ");
}

#[test]
fn history_is_read_from_an_offset() {
    let server = RunningServer::with(&[IN_MEMORY, "channel.history_messages=5"]);
    server.admin.publish_each("a/b c", 1..=7);
    for (query, offsets) in [
        ("", &[3, 4, 5, 6, 7][..]),
        ("since=5", &[6, 7]),
        ("since=3&limit=2", &[4, 5]),
        ("since=7", &[]),
        ("before=18446744073709551616&limit=2", &[6, 7]),
        ("before=6&limit=2", &[4, 5]),
        ("before=4&limit=2", &[3]),
        ("before=6", &[3, 4, 5]),
        ("since=4&before=7", &[5, 6]),
        ("since=3&before=7&limit=2", &[5, 6]),
        ("since=5&before=3", &[]),
        ("before=0", &[]),
        ("before=3", &[]),
        ("since=18446744073709551615", &[]),
        // Numbers beyond 64 bits are accepted.
        ("since=18446744073709551616", &[]),
    ] {
        let page = server.admin.get(&format!("/api/channels/a%2Fb%20c/history?{query}")).ok();
        assert_eq!(page["channel"], "a/b c");
        assert_eq!([&page["first"], &page["last"]], [3, 7]);
        let messages = page["messages"].as_array().expect("a list");
        assert!(messages.iter().map(|message| &message["offset"]).eq(offsets), "{query}: {page}");
        for message in messages {
            assert!(message["age_ms"].as_f64() >= Some(0.0), "{message}");
            assert_eq!(message["offset"], message["data"]);
        }
    }
    for query in
        ["since=-1", "since=%2B1", "since=1.0", "since=", "before=-1", "limit=0", "limit=1001", "epoch=e"]
    {
        let path = format!("/api/channels/a%2Fb%20c/history?{query}");
        server.admin.get(&path).assert_error(400, "bad_request");
    }
}

#[test]
fn channels_are_paginated() {
    let server = RunningServer::with(&[IN_MEMORY]);
    let mut clients = [server.client(), server.client()];
    clients.iter_mut().for_each(|client| _ = client.subscribe("b"));
    for channel in ["d", "a", "c é"] {
        server.admin.publish(channel, json!("x"));
    }
    let page = server.admin.get("/api/channels?limit=2").ok();
    assert_eq!((&page["channels"][0]["channel"], &page["next_cursor"]), (&json!("a"), &json!("b")));
    let fields = |channel: &Value, names: [&str; 4]| names.map(|name| channel[name].clone());
    let empty = fields(&page["channels"][1], ["channel", "subscribers", "first", "last"]);
    assert_eq!(empty, [json!("b"), json!(2), json!(1), json!(0)]);
    let page = server.admin.get("/api/channels?limit=2&cursor=b").ok();
    assert_eq!((&page["channels"][0]["channel"], &page["next_cursor"]), (&json!("c é"), &Value::Null));
    let last = fields(&page["channels"][1], ["channel", "subscribers", "messages", "last"]);
    assert_eq!(last, [json!("d"), json!(0), json!(1), json!(1)]);
    assert_eq!(server.admin.get("/api/channels/c%20%C3%A9").ok(), page["channels"][0]);
    for query in ["limit=0", "limit=1001", "limit=x", "phase=attached"] {
        server.admin.get(&format!("/api/channels?{query}")).assert_error(400, "bad_request");
    }
}

#[test]
fn request_bodies_are_validated() {
    let server = RunningServer::with(&["limits.max_message=1KiB", "limits.handshake_timeout=4s"]);
    let good = r#"{"channel":"news","data":1}"#;
    for kind in ["", "Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"] {
        server.admin.send("/api/publish", kind, good).assert_error(415, "unsupported_media_type");
    }
    let with_data = |bytes: usize| format!(r#"{{"channel":"news","data":"{}"}}"#, "x".repeat(bytes - 2));
    assert_eq!(server.admin.post("/api/publish", with_data(1024)).status, 200);
    server.admin.post("/api/publish", with_data(1025)).assert_error(413, "too_large");
    // Limit of the whole body: `limits.max_message`, plus 512 KiB for names.
    server.admin.post("/api/publish", with_data(513 * 1024)).assert_error(413, "too_large");
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
        answer.assert_error(400, "bad_request");
        assert!(answer.body.contains(named), "{body}: {}", answer.body);
    }
    server.admin.post("/api/publish", r#"{"channel":"a,b","data":1}"#).assert_error(400, "bad_channel");
    assert_eq!(server.admin.get("/api/channels/news/history").ok()["last"], 1, "nothing else was published");
    // A body must arrive in time.
    let headers = "Content-Type: application/json\r\nContent-Length: 100\r\n";
    let headers = format!("Host: {}\r\n{headers}", server.admin.address());
    server.admin.request_with("POST", "/api/publish", &headers).assert_error(408, "timeout");
}

#[test]
fn unknown_and_invalid_channel_names_are_rejected() {
    let server = RunningServer::with(&["channel.name_bytes=8"]);
    for rest in ["", "/history", "/presence"] {
        let unknown = server.admin.get(&format!("/api/channels/unknown{rest}"));
        if rest == "/presence" {
            let empty =
                json!({"channel": "unknown", "total": 0, "present": [], "users": [], "next_cursor": null});
            assert_eq!(unknown.json(), empty);
        } else {
            unknown.assert_error(404, "not_found");
        }
        for name in ["", "a,b", "a%2Cb", "a%0Ab", "%FF", "ninebytes"] {
            server.admin.get(&format!("/api/channels/{name}{rest}")).assert_error(400, "bad_channel");
        }
    }
    server.admin.get("/api/channels/a/b").assert_error(404, "not_found");
}

#[test]
fn session_shows_its_backlog_and_unacknowledged_messages() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    client.subscribe("news");
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

    server.suspend(client);
    server.admin.publish_each("news", 3..=5);
    let session = server.admin.session(&id);
    assert_eq!((&session["subscriptions"], &session["unacked"]), (&subscription(2, 3), &json!(1)));
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
        let page = server.admin.get(&format!("/api/channels?sort={sort}&limit={limit}")).ok();
        assert_eq!(page["next_cursor"], Value::Null);
        page["channels"].as_array().cloned().expect("channels")
    };
    let rates = busiest("rate", 1);
    assert_eq!((rates.len(), &rates[0]["channel"], &rates[0]["messages"]), (1, &json!("often"), &json!(5)));
    let rate = rates[0]["rate"].as_f64().expect("a rate");
    assert!(rate > 0.08 && rate <= 5.0, "{rate}: between 5 a minute and 5 a second");
    // Channels with equally many subscribers are sorted by name.
    let bytes = busiest("bytes", 100);
    for (channels, expected) in
        [(&bytes, ["fat", "often", "liked"]), (&busiest("subscribers", 100), ["liked", "fat", "often"])]
    {
        assert!(channels.iter().map(|one| &one["channel"]).eq(expected), "{channels:?}");
    }
    // Except for the rate, the entry equals the response to a query for this channel alone.
    let mut fat = bytes[0].clone();
    assert!(fat.as_object_mut().expect("an object").remove("rate").is_some());
    assert_eq!(fat, server.admin.get("/api/channels/fat").ok());

    // The ranking is cached for a while, so the new message does not show up immediately.
    server.admin.publish("fatter", "x".repeat(4_000));
    until("the ranking is computed again", || busiest("bytes", 1)[0]["channel"] == "fatter");
    for query in ["sort=name", "sort=", "sort=rate&cursor=a", "sort=rate&limit=101", "sort=rate&limit=0"] {
        server.admin.get(&format!("/api/channels?{query}")).assert_error(400, "bad_request");
    }
}
