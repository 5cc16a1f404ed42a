use encke_tests::bayeux::{
    self, BayeuxPolling, assert_successful, client_id, connect_now, events, handshake, with_token,
};
use encke_tests::tokens::token;
use encke_tests::{EventStream, Hello, PollClient, RunningServer};
use serde_json::{Value, json};

/// User id with everything that JSON, an event stream or a Lua script could mistake for its own syntax.
const HOSTILE: &str = "a\"\\'\u{2028} 1:2 }},\"user\":\"b\",\"data\":\u{1f980}";

#[track_caller]
pub(crate) fn assert_user(server: &RunningServer, hello: &Hello, user: &str) {
    assert_eq!(server.admin.session(&hello.session)["user"], user);
}

#[test]
fn message_names_the_user_who_published_it() {
    let server = RunningServer::with_tokens(&[]);
    let [mut alice, mut hostile] = ["alice", HOSTILE].map(|user| server.client_of(user));
    let epoch = alice.subscribe("/a/b");
    hostile.subscribe("/a/*");
    // A client cannot set the user itself.
    let claims = r#"{"id":1,"publish":{"channel":"/a/b","data":1,"user":"bob"}}"#;
    alice.assert_refused(claims, "malformed");
    server.client_of("alice").publish("/a/b", [1]);
    let expected = json!({"seq": 1, "channel": "/a/b", "offset": 1, "user": "alice", "data": 1});
    assert_eq!(alice.message(), expected);
    server.client_of(HOSTILE).publish("/a/b", [2]);
    server.admin.publish("/a/b", json!({"user": "bob"}));
    let users: Vec<Value> = (0..2).map(|_| alice.message()["user"].take()).collect();
    assert_eq!(users, [json!(HOSTILE), Value::Null], "the last message is anonymous");
    let by_pattern: Vec<Value> = (0..3).map(|_| hostile.message()).collect();
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

#[test]
fn user_is_the_same_on_all_transports() {
    let server = RunningServer::with_tokens(&[]);
    let query = |user: &str| format!("channels=news&last=2&token={}", token(user, json!({})));
    let mut requests = PollClient::connect(server.public);
    let hello = Hello::parse(requests.get(&query("polling")).json()[0].clone());
    let resume = format!("resume={}&token={}", hello.resume, token("polling", json!({})));
    let posted = requests.post(&resume, r#"{"publish":{"channel":"news","data":1}}"#);
    assert_eq!(posted.status, 200, "{posted:?}");
    let (mut stream, _) = EventStream::greeted(server.public, &query("reading"));
    // The user comes between the offset and the data.
    let event = stream.event();
    let text = r#"{"message":{"seq":1,"channel":"news","offset":1,"user":"polling","data":1}}"#;
    assert_eq!(event.split_once("\ndata: ").map(|(_, data)| data), Some(text));
    server.client_of(HOSTILE).publish("news", [2]);
    assert_eq!(stream.object().1["message"]["user"], HOSTILE);
    let polled = requests.get(&format!("{resume}&seq=0")).json();
    assert_eq!(polled[0]["message"]["user"], "polling", "{polled}");
}

#[test]
fn bayeux_carries_the_user_in_an_extension() {
    let server = RunningServer::with_tokens(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let [reading, writing] = ["bob", HOSTILE]
        .map(|user| client_id(&polls.reply(&with_token(handshake(), &token(user, json!({}))))));
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
fn presence_lists_users_with_their_sessions_and_connections() {
    let server = RunningServer::with_tokens(&[]);
    let mut asks = server.client_of("alice");
    asks.subscribe("news");
    let mut leaves = server.client_of("alice");
    leaves.subscribe("news");
    server.suspend(leaves);
    let query = format!("channels=news&token={}", token(HOSTILE, json!({})));
    let hello = PollClient::connect(server.public).get(&query).json();
    assert_eq!(hello[0]["hello"]["recovered"], false, "the session is between polls: {hello}");
    let presence = asks.request(r#"{"id":1,"presence":{"channel":"news"}}"#)["ok"].take();
    let users = json!([
        {"user": "alice", "sessions": 2, "connections": 1},
        {"user": HOSTILE, "sessions": 1, "connections": 1},
    ]);
    assert_eq!((&presence["total"], &presence["users"]), (&json!(3), &users), "{presence}");
    let shown = server.admin.get("/api/channels/news/presence").json();
    assert_eq!((&shown["users"], &shown["total"]), (&users, &json!(3)));
    let present = shown["present"].as_array().expect("a list").iter();
    let present: Vec<_> = present.map(|it| (it["user"].clone(), it["phase"].clone())).collect();
    let is = |user: &str, phase: &str| (json!(user), json!(phase));
    assert_eq!(present, [is("alice", "attached"), is("alice", "suspended"), is(HOSTILE, "attached")]);
    let pages: Vec<Value> = ["limit=2", "limit=2&cursor=2"]
        .map(|query| server.admin.get(&format!("/api/channels/news/presence?{query}")).json())
        .into();
    assert_eq!((&pages[0]["users"], &pages[0]["next_cursor"]), (&json!([users[0]]), &json!(2)));
    assert_eq!((&pages[1]["users"], &pages[1]["next_cursor"]), (&json!([users[1]]), &Value::Null));
}

#[test]
fn users_are_listed_in_pages() {
    let server = RunningServer::with_tokens(&[]);
    let list = |query: &str| server.admin.get(&format!("/api/users{query}")).json();
    assert_eq!(list(""), json!({"users": [], "next_cursor": null}));
    let clients: Vec<_> = ["bob", "alice", HOSTILE, "bob"].map(|user| server.client_of(user)).into();
    let suspended = server.client_of("bob").drop_connection();
    server.await_phase(&suspended.session, "suspended");
    let user = |name: &str, sessions: u32, connections: u32| json!({"user": name, "sessions": sessions, "connections": connections});
    let all = [user(HOSTILE, 1, 1), user("alice", 1, 1), user("bob", 3, 2)];
    assert_eq!(list(""), json!({"users": all, "next_cursor": null}));
    assert_eq!(list("?limit=2"), json!({"users": all[..2], "next_cursor": "alice"}));
    assert_eq!(list("?limit=2&cursor=alice"), json!({"users": all[2..], "next_cursor": null}));
    drop(clients);
}
