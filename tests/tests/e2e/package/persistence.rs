//! Sessions that outlive their page: the next page of the tab continues them.

use encke_tests::tokens::token;
use encke_tests::waiting::until;
use encke_tests::{RunningServer, Script};
use serde_json::{Value, json};

use super::{ClientKind, KINDS, assert_news, await_open, data, session_id};

fn pages() -> impl Iterator<Item = ClientKind> {
    KINDS.into_iter().filter(|kind| kind.place == "page")
}

/// Starts a page that has received the first two messages of `news`, and leaves it.
fn start_and_leave(kind: ClientKind, server: &RunningServer) -> (Script, Value) {
    let (mut client, hello) = kind.start_subscribed(server, server.public, &["news"], &json!({}));
    server.admin.publish_each("news", 1..=2);
    client.await_object("message", 2);
    client.send_command(&json!({"leave": true}));
    client.await_object("done", 1);
    (client, hello)
}

/// Returns the ids of all sessions.
fn sessions(server: &RunningServer) -> Vec<String> {
    let sessions = server.admin.get("/api/sessions").json();
    let sessions = sessions["sessions"].as_array().expect("a list").clone();
    sessions.iter().map(|session| session["id"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn the_next_page_of_a_tab_continues_the_session() {
    for kind in pages() {
        let server = RunningServer::with(&[]);
        let (mut client, hello) = start_and_leave(kind, &server);
        server.admin.publish_each("news", 3..=4);
        client.send_command(&json!({"return": {}}));
        await_open(&client, 2);
        server.admin.publish("news", 5);
        assert_news(&client, 5);
        assert_eq!(sessions(&server), [session_id(&hello)], "{kind:?}");
        assert_eq!(server.admin.metrics().events("closed", "client"), 0.0, "{kind:?}");
        assert_eq!(client.count("gap"), 0, "{kind:?}");
    }
}

#[test]
fn subscriptions_of_the_previous_page_end_unless_the_next_one_has_them() {
    for kind in pages() {
        let server = RunningServer::with(&[]);
        let (mut client, hello) = kind.start_subscribed(&server, server.public, &["news", "old"], &json!({}));
        server.admin.publish_each("news", 1..=2);
        client.await_object("message", 2);
        client.send_command(&json!({"leave": true}));
        client.await_object("done", 1);
        server.admin.publish_each("old", 1..=2);
        server.admin.publish_each("news", 3..=4);
        client.send_command(&json!({"return": {"channels": [{"channel": "news", "last": 3}]}}));
        await_open(&client, 2);
        client.await_object("message", 5);
        server.admin.publish("old", 3);
        server.admin.publish("news", 5);
        client.await_object("message", 6);
        assert_eq!(data(&client, "news"), [1, 2, 2, 3, 4, 5], "{kind:?}");
        assert!(data(&client, "old").is_empty(), "{kind:?}");
        assert_eq!(sessions(&server), [session_id(&hello)], "{kind:?}");
    }
}

#[test]
fn a_duplicate_of_a_tab_has_a_session_of_its_own() {
    for kind in pages() {
        let server = RunningServer::with(&[]);
        let (mut client, hello) = start_and_leave(kind, &server);
        // Both tabs have a copy of the stored session.
        for command in [json!({"duplicate": true}), json!({"return": {}}), json!({"tab": 1, "return": {}})] {
            client.send_command(&command);
        }
        client.await_object("done", 4);
        until("each page has a session", || sessions(&server).len() == 2);
        assert!(sessions(&server).iter().any(|id| id == session_id(&hello)), "{kind:?}");
        server.admin.publish("news", 3);
        until("each page receives the message", || {
            data(&client, "news").iter().filter(|number| **number == 3).count() == 2
        });
        let states = client.values("state");
        assert!(states.iter().all(|state| state["state"] != "closed"), "{kind:?}: {states:?}");
    }
}

#[test]
fn a_page_of_another_user_opens_a_new_session() {
    for kind in pages() {
        let server = RunningServer::with_tokens(&[]);
        let options_of = |user| json!({"token": token(user, json!({}))});
        let (mut client, hello) =
            kind.start_subscribed(&server, server.public, &["news"], &options_of("alice"));
        client.send_command(&json!({"leave": true}));
        client.send_command(&json!({"return": options_of("bob")}));
        await_open(&client, 2);
        let opened = client.values("hello").into_iter().next_back().expect("a hello");
        assert_ne!(session_id(&opened), session_id(&hello), "{kind:?}");
    }
}
