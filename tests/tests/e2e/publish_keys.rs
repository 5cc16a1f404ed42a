use encke_tests::bayeux::{
    BayeuxPolling, BayeuxWebSocket, assert_refused, assert_successful, publish, with_field,
};
use encke_tests::poll::post;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::until;
use encke_tests::{Client, PollClient, RunningServer};
use serde_json::{Value, json};

const JSON: &str = "Content-Type: application/json\r\n";

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
    let first = client.request(&command(1, "a", "k"));
    assert_eq!(first["ok"]["offset"], 1);
    assert_eq!(subscriber.object()["message"]["data"], "a");
    let again = client.request(&command(2, "other", "k"));
    assert_eq!(again["ok"], first["ok"]);
    let next = client.request(&command(3, "b", "l"));
    assert_eq!(next["ok"]["offset"], 2);
    assert_eq!(subscriber.object()["message"]["data"], "b", "no other message in between");
    assert_eq!(published(&server), ["a", "b"]);
}

#[test]
fn reconnected_client_may_repeat_an_unanswered_publish() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    client.send(&command(1, "a", "k"));
    let hello = client.drop_connection();
    let mut client = server.resume(&hello.resume);
    assert!(client.hello.recovered);
    assert_eq!(client.request(&command(1, "a", "k"))["ok"]["offset"], 1);
    assert_eq!(published(&server), ["a"]);
}

#[test]
fn anonymous_session_is_one_publisher_on_every_transport() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    let first = client.request(&command(1, "a", "k"));
    let query = format!("resume={}", client.hello.resume);
    let mut requests = PollClient::connect(server.public);
    requests.send(&post(&query, JSON, &command(2, "a", "k")));
    assert_eq!(
        requests.response().json()[0]["reply"]["ok"],
        first["ok"],
        "by a request next to the WebSocket"
    );
    assert_eq!(
        server.client().request(&command(1, "b", "k"))["ok"]["offset"],
        2,
        "another session is another publisher"
    );
    let api = r#"{"channel":"/news","data":"c","key":"k"}"#;
    let of_api = server.admin.post("/api/publish", api).json();
    assert_eq!(of_api["offset"], 3, "the API is another publisher, too");
    assert_eq!(server.admin.post("/api/publish", api).json(), of_api);
    assert_eq!(published(&server), ["a", "b", "c"]);
}

#[test]
fn a_user_is_one_publisher_on_all_sessions() {
    let server = RunningServer::with(&[&format!("auth.secret={SECRET}")]);
    let connect = |user: &str| {
        let claims = json!({"sub": user, "channels": {"*": ["publish"]}});
        Client::connect(server.public, &format!("token={}", sign(&claims, SECRET)))
    };
    let first = connect("alice").request(&command(1, "a", "k"));
    assert_eq!(connect("alice").request(&command(1, "a", "k"))["ok"], first["ok"]);
    assert_eq!(connect("bob").request(&command(1, "b", "k"))["ok"]["offset"], 2);
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
        let body = json!({"channels": channels, "data": "a", "key": "k"}).to_string();
        server.admin.post("/api/broadcast", &body).json()["published"].clone()
    };
    let first = ask(&["/news", "b"]);
    let again = ask(&["/news", "b", "c"]);
    assert_eq!((&again[0], &again[1]), (&first[0], &first[1]));
    assert_eq!(again[2]["offset"], 1);
    assert_eq!(published(&server), ["a"]);
}

#[test]
fn key_is_forgotten_with_its_message() {
    let server = RunningServer::with(&["channel.history_age=100ms"]);
    let (mut client, mut subscriber) = (server.client(), server.client());
    // The subscriber keeps the channel alive, and with it the epoch.
    subscriber.subscribe("/news");
    let first = client.request(&command(1, "a", "k"));
    let mut last = first.clone();
    until("the message is published again", || {
        last = client.request(&command(1, "a", "k"));
        last["ok"] != first["ok"]
    });
    assert_eq!(last["ok"], json!({"offset": 2, "epoch": first["ok"]["epoch"]}));
}

#[test]
fn invalid_key_is_refused() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    let long = "k".repeat(65);
    for key in ["", &long] {
        assert_eq!(client.request(&command(1, "a", key))["error"]["code"], "malformed");
        let body = json!({"channel": "/news", "data": 1, "key": key}).to_string();
        assert_eq!(server.admin.post("/api/publish", &body).status, 400);
    }
    assert_eq!(client.request(&command(1, "a", &long[..64]))["ok"]["offset"], 1);
}
