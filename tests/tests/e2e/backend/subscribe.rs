use encke_tests::RunningServer;
use serde_json::{Value, json};

use super::{
    message, refresh_to_nothing, removed, resume, subscribe, subscribe_session, token, unsubscribe_session,
    unsubscribed,
};

#[test]
fn backend_subscribes_and_unsubscribes_a_session() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    let session = client.hello.session.clone();
    server.admin.publish("news", 1);
    let notice = subscribe_session(server.admin, &session, "news");
    assert_eq!(notice["subscribed"]["offset"], 1);
    server.admin.publish("news", 2);
    assert_eq!(client.object(), notice);
    assert_eq!(client.object(), message(1, "news", 2, 2));
    // Subscribing again, by the backend or by the client, changes nothing.
    subscribe_session(server.admin, &session, "news");
    client.subscribe("news");
    unsubscribe_session(server.admin, &session, "news");
    assert_eq!(client.object(), removed("news"));
    server.admin.publish("news", 3);
    // Unsubscribing from a channel without a subscription succeeds as well.
    unsubscribe_session(server.admin, &session, "news");
    unsubscribe_session(server.admin, &session, "other");
    // A client may end a subscription that the backend created.
    let notice = subscribe_session(server.admin, &session, "other");
    assert_eq!(client.object(), notice);
    client.request(r#"{"id":1,"unsubscribe":{"channel":"other"}}"#);
    server.admin.publish("other", 1);
    client.subscribe("last");
    server.admin.publish("last", 1);
    assert_eq!(client.object(), message(2, "last", 1, 1));
}

/// A grant holds regardless of the client's token and of whether the client or the backend subscribes first.
#[test]
fn existing_subscription_of_the_client_is_granted_as_well() {
    let server = RunningServer::with_tokens(&[]);
    let forbidden = unsubscribed("other", "forbidden");
    let mut client = server.client_of("alice");
    client.subscribe("news");
    client.subscribe("other");
    subscribe_session(server.admin, &client.hello.session, "news");
    client.send(refresh_to_nothing());
    assert_eq!(client.object(), forbidden, "only of this channel");
    assert_eq!(client.object()["reply"]["id"], 9);
    server.admin.publish("news", 1);
    assert_eq!(client.object(), message(1, "news", 1, 1));
    // The grant still holds after a disconnect, without another notice.
    let query = format!("seq=1&token={}", token("alice", json!({"channels": {}})));
    let mut client = resume(&server, &client.drop_connection(), &query);
    server.admin.publish("news", 2);
    let received = client.object();
    let received = if received == forbidden { client.object() } else { received };
    assert_eq!(received, message(2, "news", 2, 2));
    unsubscribe_session(server.admin, &client.hello.session, "news");
    assert_eq!(client.object(), removed("news"));
}

#[test]
fn subscription_may_include_history() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    let mut epoch = Value::Null;
    for number in 1..=4 {
        epoch = server.admin.publish("news", number)["epoch"].take();
    }
    let since = json!({"channel": "news", "since": {"epoch": epoch, "offset": 2}});
    let answer = subscribe(server.admin, &client.hello.session, &since).ok();
    assert_eq!(answer, json!({"channel": "news", "epoch": epoch, "offset": 4, "recovered": true}));
    // The client's notice has the offset before its first message.
    let notice = json!({"subscribed": {"channel": "news", "epoch": epoch, "offset": 2}});
    assert_eq!(client.object(), notice);
    assert_eq!(client.object(), message(1, "news", 3, 3));
    assert_eq!(client.object(), message(2, "news", 4, 4));
}

#[test]
fn invalid_subscriptions_are_refused() {
    let server = RunningServer::with(&["limits.max_subscriptions=1"]);
    let mut client = server.client();
    let session = client.hello.session.clone();
    for body in [json!({}), json!({"channel": 1}), json!({"channel": "a", "more": 1})] {
        subscribe(server.admin, &session, &body).assert_error(400, "bad_request");
    }
    for channel in ["", "a,b", "$session", "$user"] {
        let body = json!({"channel": channel});
        subscribe(server.admin, &session, &body).assert_error(400, "bad_channel");
        let path = format!("/api/sessions/{session}/unsubscribe");
        server.admin.post(&path, &body).assert_error(400, "bad_channel");
    }
    assert_eq!(subscribe_session(server.admin, &session, "/a/*"), client.object());
    subscribe(server.admin, &session, &json!({"channel": "b"})).assert_error(503, "limit");
    server.admin.publish("/a/b", 1);
    assert_eq!(client.object()["message"]["pattern"]["name"], "/a/*");
    assert_eq!(server.admin.kick(&session).status, 204);
    subscribe(server.admin, &session, &json!({"channel": "b"})).assert_error(404, "not_found");
}
