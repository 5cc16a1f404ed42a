use encke_tests::bayeux::{
    self, BayeuxPolling, assert_successful, client_id, connect_now, events, handshake, with_field,
};
use encke_tests::tokens::{SECRET, sign};
use encke_tests::{Client, EventStream, Hello, PollClient, RunningServer};
use serde_json::{Value, json};

/// User id with everything that JSON, an event stream or a Lua script could mistake for its own syntax.
const HOSTILE: &str = "a\"\\'\u{1}\r\n\u{2028} 1:2 }},\"user\":\"b\",\"data\":\u{1f980}";

fn server() -> RunningServer {
    RunningServer::with(&[&format!("auth.secret={SECRET}")])
}

fn token(user: &str) -> String {
    let all = ["subscribe", "publish", "presence"];
    sign(&json!({"sub": user, "channels": {"*": all}}), SECRET)
}

fn connect(server: &RunningServer, user: &str) -> Client {
    Client::connect(server.public, &format!("token={}", token(user)))
}

#[track_caller]
fn message(client: &mut Client) -> Value {
    let mut object = client.object();
    assert!(object["message"]["seq"].is_u64(), "{object}");
    object["message"].take()
}

#[test]
fn message_names_the_user_who_published_it() {
    let server = server();
    let [mut alice, mut hostile] = ["alice", HOSTILE].map(|user| connect(&server, user));
    let epoch = alice.subscribe("/a/b");
    hostile.subscribe("/a/*");
    // A client cannot set the user itself.
    let claims = r#"{"id":1,"publish":{"channel":"/a/b","data":1,"user":"bob"}}"#;
    assert_eq!(alice.request(claims)["error"]["code"], "malformed");
    connect(&server, "alice").publish("/a/b", [1]);
    let expected = json!({"seq": 1, "channel": "/a/b", "offset": 1, "user": "alice", "data": 1});
    assert_eq!(message(&mut alice), expected);
    connect(&server, HOSTILE).publish("/a/b", [2]);
    server.admin.publish("/a/b", json!({"user": "bob"}));
    let users: Vec<Value> = (0..2).map(|_| message(&mut alice)["user"].take()).collect();
    assert_eq!(users, [json!(HOSTILE), Value::Null], "the last message is anonymous");
    let by_pattern: Vec<Value> = (0..3).map(|_| message(&mut hostile)).collect();
    let users: Vec<&Value> = by_pattern.iter().map(|message| &message["user"]).collect();
    assert_eq!(users, [&json!("alice"), &json!(HOSTILE), &Value::Null]);
    assert_eq!((&by_pattern[0]["epoch"], &by_pattern[0]["pattern"]["offset"]), (&json!(epoch), &json!(1)));
    for name in ["%2Fa%2Fb", "%2Fa%2F*"] {
        let history = server.admin.get(&format!("/api/channels/{name}/history")).json();
        let messages = history["messages"].as_array().expect("an array");
        let users: Vec<Option<&Value>> = messages.iter().map(|message| message.get("user")).collect();
        assert_eq!(users, [Some(&json!("alice")), Some(&json!(HOSTILE)), None], "{history}");
    }
}

/// The user comes between the offset and the data.
#[test]
fn user_is_at_its_place_in_the_text() {
    let server = server();
    let query = format!("channels=news&token={}", token("alice"));
    let mut stream = EventStream::open(server.public, &query);
    stream.hello();
    connect(&server, "bob").publish("news", [7]);
    let event = stream.event();
    let text = r#"{"message":{"seq":1,"channel":"news","offset":1,"user":"bob","data":7}}"#;
    assert_eq!(event.split_once("\ndata: ").map(|(_, data)| data), Some(text));
}

#[test]
fn user_is_the_same_on_all_transports() {
    let server = server();
    let query = format!("channels=news&token={}", token("polling"));
    let mut requests = PollClient::connect(server.public);
    let hello = Hello::parse(requests.get(&query).json()[0].clone());
    let posted =
        requests.post(&format!("resume={}", hello.resume), r#"{"publish":{"channel":"news","data":1}}"#);
    assert_eq!(posted.status, 200, "{posted:?}");
    connect(&server, HOSTILE).publish("news", [2]);
    let mut stream =
        EventStream::open(server.public, &format!("channels=news&last=2&token={}", token("reading")));
    stream.hello();
    let read = [stream.object().1, stream.object().1];
    let users = read.each_ref().map(|object| &object["message"]["user"]);
    assert_eq!(users, [&json!("polling"), &json!(HOSTILE)]);
    let polled = requests.get(&format!("resume={}&seq=0&token={}", hello.resume, token("polling"))).json();
    assert_eq!(polled[0]["message"]["user"], "polling", "{polled}");
}

#[test]
fn bayeux_carries_the_user_in_an_extension() {
    let server = server();
    let mut polls = BayeuxPolling::connect(server.public);
    let [reading, writing] = ["bob", HOSTILE].map(|user| {
        let ext = json!({"authentication": {"token": token(user)}});
        client_id(&polls.reply(&with_field(handshake(), "ext", ext)))
    });
    assert_successful(&polls.reply(&bayeux::subscribe(&reading, "/news")));
    assert_successful(&polls.reply(&bayeux::publish(&writing, "/news", 1)));
    server.admin.publish("/news", 2);
    let mut read = Vec::new();
    while read.len() < 2 {
        let answer = polls.request(&connect_now(&reading));
        read.extend(answer.into_iter().filter(|message| message["channel"] == "/news"));
    }
    assert_eq!(events(&read), [1, 2]);
    let ext = json!({"encke": {"user": HOSTILE}});
    assert_eq!((read[0].get("ext"), read[1].get("ext")), (Some(&ext), None), "{read:?}");
}

#[test]
fn repeat_with_a_key_gets_the_first_reply() {
    let server = server();
    let command = r#"{"id":1,"publish":{"channel":"news","data":1,"key":"k"}}"#;
    let first = connect(&server, "alice").request(command);
    assert_eq!(connect(&server, "alice").request(command), first);
    assert_eq!(
        connect(&server, "bob").request(command)["ok"]["offset"],
        2,
        "keys of another user are separate"
    );
}

#[test]
fn anonymous_messages_name_no_user() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    client.subscribe("news");
    server.client().publish("news", [1]);
    assert_eq!(message(&mut client), json!({"seq": 1, "channel": "news", "offset": 1, "data": 1}));
}

#[test]
fn presence_lists_users_with_their_sessions_and_connections() {
    let server = server();
    let mut asks = connect(&server, "alice");
    asks.subscribe("news");
    let left = {
        let mut leaves = connect(&server, "alice");
        leaves.subscribe("news");
        leaves.drop_connection()
    };
    server.await_phase(&left.session, "suspended");
    let query = format!("channels=news&token={}", token(HOSTILE));
    let hello = PollClient::connect(server.public).get(&query).json();
    assert_eq!(hello[0]["hello"]["recovered"], false, "the session is between polls: {hello}");
    let presence = asks.request(r#"{"id":1,"presence":{"channel":"news"}}"#)["ok"].take();
    let users = json!([
        {"user": "alice", "sessions": 2, "connections": 1},
        {"user": HOSTILE, "sessions": 1, "connections": 1},
    ]);
    assert_eq!((&presence["total"], &presence["users"]), (&json!(3), &users), "{presence}");
    let shown = server.admin.get("/api/channels/news/presence").json();
    assert_eq!(shown["users"], users);
    let pages: Vec<Value> = ["limit=2", "limit=2&cursor=2"]
        .map(|query| server.admin.get(&format!("/api/channels/news/presence?{query}")).json())
        .into();
    assert_eq!((&pages[0]["users"], &pages[0]["next_cursor"]), (&json!([users[0]]), &json!(2)));
    assert_eq!((&pages[1]["users"], &pages[1]["next_cursor"]), (&json!([users[1]]), &Value::Null));
}
