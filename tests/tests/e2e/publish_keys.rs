use encke_tests::bayeux::{
    BayeuxPolling, BayeuxWebSocket, assert_refused, assert_successful, publish, with_field,
};
use encke_tests::{PollClient, RunningServer};
use serde_json::{Value, json};

fn command(id: u64, data: &str, key: &str) -> String {
    json!({"id": id, "publish": {"channel": "/news", "data": data, "key": key}}).to_string()
}

/// Returns the data of all messages in `/news`.
#[track_caller]
fn published(server: &RunningServer) -> Vec<Value> {
    let history = server.admin.get("/api/channels/%2Fnews/history").json();
    history["messages"].as_array().expect("a list").iter().map(|message| message["data"].clone()).collect()
}

#[test]
fn repeated_publish_gets_the_first_reply_and_is_not_published_again() {
    let server = RunningServer::with(&[]);
    let (mut client, mut subscriber) = (server.client(), server.client());
    subscriber.subscribe("/news");
    let first = client.request(command(1, "a", "k"));
    assert_eq!(first["ok"]["offset"], 1);
    assert_eq!(client.request(command(2, "other", "k"))["ok"], first["ok"]);
    // A session is one publisher on every transport.
    let query = format!("resume={}", client.hello.resume);
    let answer = PollClient::connect(server.public).post(&query, command(3, "other", "k")).json();
    assert_eq!(answer[0]["reply"]["ok"], first["ok"], "by a request next to the WebSocket");
    assert_eq!(client.request(command(4, "b", "l"))["ok"]["offset"], 2);
    for data in ["a", "b"] {
        assert_eq!(subscriber.object()["message"]["data"], data, "no other message in between");
    }
    // Another session and the API are other publishers.
    assert_eq!(server.client().request(command(1, "c", "k"))["ok"]["offset"], 3);
    let api = r#"{"channel":"/news","data":"d","key":"k"}"#;
    let replies = [(); 2].map(|()| server.admin.post("/api/publish", api).json());
    assert_eq!((&replies[0]["offset"], &replies[0]), (&json!(4), &replies[1]));
    assert_eq!(published(&server), ["a", "b", "c", "d"]);

    let long = "k".repeat(65);
    for key in ["", &long] {
        client.assert_refused(command(1, "a", key), "malformed");
        let body = json!({"channel": "/news", "data": 1, "key": key});
        assert_eq!(server.admin.post("/api/publish", body).status, 400);
    }
    assert_eq!(client.request(command(1, "e", &long[..64]))["ok"]["offset"], 5);
}

#[test]
fn a_user_is_one_publisher_on_all_sessions() {
    let server = RunningServer::with_tokens(&[]);
    let publish = |user: &str, data: &str| server.client_of(user).request(command(1, data, "k"));
    let first = publish("alice", "a");
    assert_eq!(publish("alice", "other"), first);
    assert_eq!(publish("bob", "b")["ok"]["offset"], 2);
    assert_eq!(published(&server), ["a", "b"]);
}

#[test]
fn bayeux_carries_the_key_in_an_extension() {
    let server = RunningServer::with(&[]);
    let (mut polls, mut socket) =
        (BayeuxPolling::connect(server.public), BayeuxWebSocket::connect(server.public));
    let id = polls.open(&[]);
    let keyed = |id: &str, data: &str, key: Value| {
        with_field(publish(id, "/news", data), "ext", json!({"encke": {"key": key}, "other": 1}))
    };
    for _ in 0..2 {
        assert_successful(&polls.reply(&keyed(&id, "a", "k".into())));
    }
    assert_successful(&polls.reply(&keyed(&id, "b", "l".into())));
    let other = socket.open(&[]);
    for _ in 0..2 {
        assert_successful(&socket.reply(&keyed(&other, "c", "k".into())));
    }
    assert_refused(&polls.reply(&keyed(&id, "d", "".into())), "400");
    assert_refused(&polls.reply(&keyed(&id, "d", 7.into())), "400");
    assert_eq!(published(&server), ["a", "b", "c"]);
}

#[test]
fn a_broadcast_has_one_key_for_all_its_channels() {
    let server = RunningServer::with(&[]);
    let ask = |channels: &[&str]| {
        let body = json!({"channels": channels, "data": "a", "key": "k"});
        server.admin.post("/api/broadcast", body).json()["published"].clone()
    };
    let first = ask(&["/news", "b"]);
    let again = ask(&["/news", "b", "c"]);
    assert_eq!((&again[0], &again[1]), (&first[0], &first[1]));
    assert_eq!(again[2]["offset"], 1);
    assert_eq!(published(&server), ["a"]);
}
