use encke_tests::{Client, EventStream, PollClient, RunningServer};
use serde_json::{Value, json};

use super::{UNAUTHORIZED, message, refresh_to_nothing, resume, subscribe_session, token, unsubscribed};

/// Returns a token that joins these channels and permits subscribing to channels that begin with `a`.
fn joining(channels: &[&str]) -> String {
    token("alice", json!({"channels": {"a*": ["subscribe"]}, "join": channels}))
}

fn subscribed(object: &Value) -> &str {
    object["subscribed"]["channel"].as_str().unwrap_or_else(|| panic!("{object}"))
}

#[test]
fn session_joins_the_channels_of_its_token() {
    let server = RunningServer::with_tokens(&[]);
    let mut client = server.client_with(&joining(&["a", "ab"]));
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
    client.send(more);
    let mut received = [client.object(), client.object()];
    received.sort_by_key(|object| object["reply"].is_null());
    assert_eq!(received[0], json!({"reply": {"id": 2, "ok": {}}}));
    assert_eq!(subscribed(&received[1]), "abc");
    server.admin.publish("a", 1);
    server.admin.publish("abc", 1);
    assert_eq!(client.object(), message(2, "abc", 1, 1));

    // A session joins after the hello on every transport.
    let query = format!("channels=ab&token={}", joining(&["a"]));
    let (mut stream, _) = EventStream::greeted(server.public, &query);
    assert_eq!(subscribed(&stream.object().1), "a");
    let answer = PollClient::connect(server.public).get(&query).json();
    assert!(answer[0]["hello"].is_object(), "{answer}");
    assert_eq!(subscribed(&answer[1]), "a");
}

#[test]
fn token_that_joins_a_forbidden_channel_is_refused() {
    let server = RunningServer::with_tokens(&["limits.max_subscriptions=2"]);
    let invalid = "the token's `join` has an invalid channel name";
    for (token, message) in [
        (
            joining(&["a", "b"]),
            "the token's `join` contains a channel without `subscribe` permission in `channels`",
        ),
        (joining(&["a1", "a2", "a3"]), "the token's `join` has more channels than limits.max_subscriptions"),
        (joining(&["a,b"]), invalid),
        (token("alice", json!({"channels": {"*": ["subscribe"]}, "join": ["$user"]})), invalid),
    ] {
        assert_eq!(Client::refusal_code(server.public, &format!("token={token}")), UNAUTHORIZED);
        let refresh = json!({"id": 1, "refresh": {"token": token}}).to_string();
        let reply = server.client_of("alice").request(&refresh);
        assert_eq!(reply["error"], json!({"code": "unauthorized", "message": message}));
    }
    server.client_with(&joining(&["a1", "a2"]));
}

/// Subscriptions made by the backend last regardless of the token. Subscriptions made by a token last as long
/// as the current token allows them.
#[test]
fn another_token_ends_subscriptions_that_it_does_not_allow() {
    let server = RunningServer::with_tokens(&[]);
    let mut client = server.client_with(&joining(&["a"]));
    assert_eq!(subscribed(&client.object()), "a");
    let granted = subscribe_session(server.admin, &client.hello.session, "secret");
    assert_eq!(client.object(), granted);
    client.send(refresh_to_nothing());
    let forbidden = unsubscribed("a", "forbidden");
    assert_eq!(client.object(), forbidden);
    assert_eq!(client.object(), json!({"reply": {"id": 9, "ok": {}}}));
    // The client may not have received these notices, so they are sent again.
    let query = format!("seq=0&token={}", token("alice", json!({"channels": {}})));
    let mut client = resume(&server, &client.hello, &query);
    assert_eq!(client.object(), forbidden);
    assert_eq!(client.object(), granted);
    server.admin.publish("a", 1);
    server.admin.publish("secret", 1);
    assert_eq!(client.object(), message(1, "secret", 1, 1));
}
