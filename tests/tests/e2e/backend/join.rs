use encke_tests::{Client, EventStream, PollClient};
use serde_json::{Value, json};

use super::{UNAUTHORIZED, assert_ok, client_of, connect, launch, message, resume, token};

/// Returns a token that joins these channels and permits subscribing to channels that begin with `a`.
fn joining(channels: &[&str]) -> String {
    token("alice", json!({"channels": {"a*": ["subscribe"]}, "join": channels}))
}

fn subscribed(object: &Value) -> &str {
    object["subscribed"]["channel"].as_str().unwrap_or_else(|| panic!("{object}"))
}

#[test]
fn session_joins_the_channels_of_its_token() {
    let server = launch().start();
    let mut client = connect(&server, &joining(&["a", "ab"]));
    let notices = [client.object(), client.object()];
    assert_eq!(notices.each_ref().map(subscribed), ["a", "ab"]);
    server.admin.publish("ab", 1);
    assert_eq!(client.object(), message(1, "ab", 1, 1));
    // A session does not rejoin a channel that it has left, neither on resume nor when a token names the
    // channel again.
    client.request(r#"{"id":1,"unsubscribe":{"channel":"a"}}"#);
    let query = format!("seq=1&token={}", joining(&["a", "ab"]));
    let mut client = resume(&server, &client.hello, &query);
    let more = json!({"id": 2, "refresh": {"token": joining(&["a", "ab", "abc"])}});
    client.send(&more.to_string());
    let mut received = [client.object(), client.object()];
    received.sort_by_key(|object| object["reply"].is_null());
    assert_eq!(received[0], json!({"reply": {"id": 2, "ok": {}}}));
    assert_eq!(subscribed(&received[1]), "abc");
    server.admin.publish("a", 1);
    server.admin.publish("abc", 1);
    assert_eq!(client.object(), message(2, "abc", 1, 1));
}

#[test]
fn token_that_joins_a_forbidden_channel_is_refused() {
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
fn session_joins_after_the_hello_on_every_transport() {
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

/// Subscriptions made by the backend last regardless of the token. Subscriptions made by a token last as long
/// as the current token allows them.
#[test]
fn another_token_ends_subscriptions_that_it_does_not_allow() {
    let server = launch().start();
    let mut client = connect(&server, &joining(&["a"]));
    assert_eq!(subscribed(&client.object()), "a");
    let path = format!("/api/sessions/{}/subscribe", client.hello.session);
    let subscription = assert_ok(&server.admin.post(&path, r#"{"channel":"secret"}"#));
    assert_eq!(client.object(), json!({"subscribed": subscription}));
    let nothing = token("alice", json!({"channels": {}}));
    client.send(&json!({"id": 1, "refresh": {"token": nothing}}).to_string());
    let forbidden = json!({"unsubscribed": {"channel": "a", "reason": "forbidden"}});
    assert_eq!(client.object(), forbidden);
    assert_eq!(client.object(), json!({"reply": {"id": 1, "ok": {}}}));
    // The client may not have received these notices, so they are sent again.
    let mut client = resume(&server, &client.hello, &format!("seq=0&token={nothing}"));
    assert_eq!(client.object(), forbidden);
    assert_eq!(client.object(), json!({"subscribed": subscription}));
    server.admin.publish("a", 1);
    server.admin.publish("secret", 1);
    assert_eq!(client.object(), message(1, "secret", 1, 1));
}
