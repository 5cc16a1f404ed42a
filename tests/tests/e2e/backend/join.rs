use encke_tests::{Client, EventStream, PollClient};
use serde_json::{Value, json};

use super::{UNAUTHORIZED, client_of, come_back, connect, done, launch, message, token};

/// A token that joins these channels, and may follow those that begin with an `a`.
fn joining(channels: &[&str]) -> String {
    token("alice", json!({"channels": {"a*": ["subscribe"]}, "join": channels}))
}

fn subscribed(object: &Value) -> &str {
    object["subscribed"]["channel"].as_str().unwrap_or_else(|| panic!("{object}"))
}

#[test]
fn a_session_joins_what_its_token_names() {
    let server = launch().start();
    let mut client = connect(&server, &joining(&["a", "ab"]));
    let told = [client.object(), client.object()];
    assert_eq!(told.each_ref().map(subscribed), ["a", "ab"]);
    server.admin.publish("ab", 1);
    assert_eq!(client.object(), message(1, "ab", 1, 1));
    // What it has left it does not join again, neither when it comes back nor with a token that names the same.
    client.request(r#"{"id":1,"unsubscribe":{"channel":"a"}}"#);
    let query = format!("seq=1&token={}", joining(&["a", "ab"]));
    let mut client = come_back(&server, &client.hello, &query);
    let more = json!({"id": 2, "refresh": {"token": joining(&["a", "ab", "abc"])}});
    client.send(&more.to_string());
    let mut heard = [client.object(), client.object()];
    heard.sort_by_key(|object| object["reply"].is_null());
    assert_eq!(heard[0], json!({"reply": {"id": 2, "ok": {}}}));
    assert_eq!(subscribed(&heard[1]), "abc");
    server.admin.publish("a", 1);
    server.admin.publish("abc", 1);
    assert_eq!(client.object(), message(2, "abc", 1, 1));
}

#[test]
fn a_token_that_does_not_allow_what_it_joins_is_refused() {
    let server = launch().set("limits.max_subscriptions=2").start();
    let refused = |token: &str| {
        assert_eq!(Client::refusal_code(server.public, &format!("token={token}")), UNAUTHORIZED);
        let refresh = json!({"id": 1, "refresh": {"token": token}}).to_string();
        let reply = client_of(&server, "alice").request(&refresh);
        assert_eq!(reply["error"]["code"], "unauthorized", "{reply}");
        reply["error"]["message"].as_str().expect("a message").to_owned()
    };
    let not_allowed = "the token's `join` contains a channel without `subscribe` permission in `channels`";
    assert_eq!(refused(&joining(&["a", "b"])), not_allowed);
    let too_many = "the token's `join` has more channels than limits.max_subscriptions";
    assert_eq!(refused(&joining(&["a1", "a2", "a3"])), too_many);
    assert_eq!(refused(&joining(&["a,b"])), "the token's `join` has an invalid channel name");
    let all = json!({"channels": {"*": ["subscribe"]}, "join": ["$user"]});
    assert_eq!(refused(&token("alice", all)), "the token's `join` has an invalid channel name");
    connect(&server, &joining(&["a1", "a2"]));
}

#[test]
fn it_joins_on_every_transport_after_the_hello() {
    let server = launch().start();
    let token = joining(&["a"]);
    let mut stream = EventStream::open(server.public, &format!("channels=ab&token={token}"));
    stream.hello();
    assert_eq!(subscribed(&stream.object().1), "a");
    let mut requests = PollClient::connect(server.public);
    let answer = requests.get(&format!("channels=ab&token={token}")).json();
    assert!(answer[0]["hello"].is_object(), "{answer}");
    assert_eq!(subscribed(&answer[1]), "a");
}

/// What the backend has said holds, whatever the token; what a token has said, for as long as the token says so.
#[test]
fn another_token_ends_what_it_does_not_allow() {
    let server = launch().start();
    let mut client = connect(&server, &joining(&["a"]));
    assert_eq!(subscribed(&client.object()), "a");
    let path = format!("/api/sessions/{}/subscribe", client.hello.session);
    let begun = done(&server.admin.post(&path, r#"{"channel":"secret"}"#));
    assert_eq!(client.object(), json!({"subscribed": begun}));
    let nothing = token("alice", json!({"channels": {}}));
    client.send(&json!({"id": 1, "refresh": {"token": nothing}}).to_string());
    let forbidden = json!({"unsubscribed": {"channel": "a", "reason": "forbidden"}});
    assert_eq!(client.object(), forbidden);
    assert_eq!(client.object(), json!({"reply": {"id": 1, "ok": {}}}));
    // It may not have heard that.
    let mut client = come_back(&server, &client.hello, &format!("seq=0&token={nothing}"));
    assert_eq!(client.object(), forbidden);
    assert_eq!(client.object(), json!({"subscribed": begun}));
    server.admin.publish("a", 1);
    server.admin.publish("secret", 1);
    assert_eq!(client.object(), message(1, "secret", 1, 1));
}
