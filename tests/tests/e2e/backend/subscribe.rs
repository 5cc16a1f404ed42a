use encke_tests::bayeux::{self, connect, connect_now, events};
use encke_tests::waiting::until;
use encke_tests::{Admin, HttpResponse, Client, EventStream, Hello, PollClient, RunningServer};
use serde_json::{Value, json};

use super::{assert_error, come_back, connect as connect_as, done, launch, message, token};
use crate::restart::{Restarts, back};

fn subscribe(admin: Admin, session: &str, body: &Value) -> HttpResponse {
    admin.post(&format!("/api/sessions/{session}/subscribe"), &body.to_string())
}

/// Has the session follow a channel: what its client is told.
#[track_caller]
fn begin(admin: Admin, session: &str, channel: &str) -> Value {
    json!({"subscribed": done(&subscribe(admin, session, &json!({"channel": channel})))})
}

#[track_caller]
fn end(admin: Admin, session: &str, channel: &str) {
    let path = format!("/api/sessions/{session}/unsubscribe");
    let answer = admin.post(&path, &json!({"channel": channel}).to_string());
    assert_eq!(answer.status, 204, "{answer:?}");
}

fn removed(channel: &str) -> Value {
    json!({"unsubscribed": {"channel": channel, "reason": "removed"}})
}

#[test]
fn a_session_follows_and_leaves_as_the_backend_says() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    let session = client.hello.session.clone();
    server.admin.publish("news", 1);
    let begun = begin(server.admin, &session, "news");
    assert_eq!(begun["subscribed"]["offset"], 1);
    server.admin.publish("news", 2);
    assert_eq!(client.object(), begun);
    assert_eq!(client.object(), message(1, "news", 2, 2));
    // It does already, and so it does when its client asks.
    begin(server.admin, &session, "news");
    client.subscribe("news");
    end(server.admin, &session, "news");
    assert_eq!(client.object(), removed("news"));
    server.admin.publish("news", 3);
    // One that nobody follows.
    end(server.admin, &session, "news");
    end(server.admin, &session, "other");
    // It may leave what it was made to follow.
    let begun = begin(server.admin, &session, "other");
    assert_eq!(client.object(), begun);
    client.request(r#"{"id":1,"unsubscribe":{"channel":"other"}}"#);
    server.admin.publish("other", 1);
    client.subscribe("last");
    server.admin.publish("last", 1);
    assert_eq!(client.object(), message(2, "last", 1, 1));
}

/// It holds whatever the client's token allows, in whichever order the two have asked.
#[test]
fn what_the_client_follows_already_is_granted_all_the_same() {
    let server = launch().start();
    let nothing = json!({"id": 9, "refresh": {"token": token("alice", json!({"channels": {}}))}}).to_string();
    let forbidden = json!({"unsubscribed": {"channel": "other", "reason": "forbidden"}});
    for (how, joins) in [("the client", json!([])), ("its token", json!(["news"]))] {
        let mut client = connect_as(&server, &token("alice", json!({"join": joins})));
        let session = client.hello.session.clone();
        if how == "its token" {
            assert_eq!(client.object()["subscribed"]["channel"], "news");
        } else {
            client.subscribe("news");
        }
        client.subscribe("other");
        begin(server.admin, &session, "news");
        client.send(&nothing);
        assert_eq!(client.object(), forbidden, "{how}: and not of the other");
        assert_eq!(client.object()["reply"]["id"], 9);
        let offset = server.admin.publish("news", 1)["offset"].as_u64().expect("an offset");
        assert_eq!(client.object(), message(1, "news", offset, 1), "{how}");
        // And so it is after a cut, of which nothing is told.
        let hello = client.drop_connection();
        let query = format!("seq=1&token={}", token("alice", json!({"channels": {}})));
        let mut again = come_back(&server, &hello, &query);
        server.admin.publish("news", 2);
        let told = again.object();
        let told = if told == forbidden { again.object() } else { told };
        assert_eq!(told, message(2, "news", offset + 1, 2), "{how}");
        end(server.admin, &session, "news");
        assert_eq!(again.object(), removed("news"));
    }
}

#[test]
fn the_past_may_come_as_well() {
    let server = RunningServer::with(&["channel.history_messages=3"]);
    let mut client = server.client();
    let session = client.hello.session.clone();
    let mut epoch = Value::Null;
    for number in 1..=4 {
        epoch = server.admin.publish("news", number)["epoch"].clone();
    }
    let since = |offset| json!({"channel": "news", "since": {"epoch": epoch, "offset": offset}});
    let answer = done(&subscribe(server.admin, &session, &since(2)));
    assert_eq!(answer, json!({"channel": "news", "epoch": epoch, "offset": 4, "recovered": true}));
    // What its client is told is what comes next.
    let begun = json!({"subscribed": {"channel": "news", "epoch": epoch, "offset": 2}});
    assert_eq!(client.object(), begun);
    assert_eq!(client.object(), message(1, "news", 3, 3));
    assert_eq!(client.object(), message(2, "news", 4, 4));
    let mut other = server.client();
    let answer = done(&subscribe(server.admin, &other.hello.session.clone(), &since(0)));
    assert_eq!(answer["recovered"], false);
    assert_eq!(other.object()["subscribed"]["offset"], 0);
    assert_eq!(other.object()["gap"]["to"], 1);
    assert_eq!(other.object(), message(2, "news", 2, 2));
}

/// Whatever the client has not had for certain, it is told on its next connection, before all else.
#[test]
fn it_is_told_again_to_a_client_that_was_cut() {
    let server = RunningServer::with(&[]);
    let client = server.client();
    let session = client.hello.session.clone();
    let hello = client.drop_connection();
    server.await_phase(&session, "suspended");
    let begun = begin(server.admin, &session, "news");
    server.admin.publish("news", 1);
    // It is cut before it has read anything.
    let hello = come_back(&server, &hello, "seq=0").drop_connection();
    let mut client = come_back(&server, &hello, "seq=0");
    assert_eq!(client.object(), begun);
    assert_eq!(client.object(), message(1, "news", 1, 1));
    // What is new after it proves that it was heard.
    server.admin.publish("news", 2);
    assert_eq!(client.object(), message(2, "news", 2, 2));
    let mut client = come_back(&server, &client.hello, "seq=2");
    server.admin.publish("news", 3);
    assert_eq!(client.object(), message(3, "news", 3, 3));
    let hello = client.drop_connection();
    server.await_phase(&session, "suspended");
    end(server.admin, &session, "news");
    let hello = come_back(&server, &hello, "seq=3").drop_connection();
    let mut client = come_back(&server, &hello, "seq=3");
    assert_eq!(client.object(), removed("news"));
    // It follows it again: that is all there is to say.
    let hello = client.drop_connection();
    server.await_phase(&session, "suspended");
    let begun = begin(server.admin, &session, "news");
    assert_eq!(come_back(&server, &hello, "seq=3").object(), begun);
}

#[test]
fn it_is_told_on_every_transport_awake_and_at_rest() {
    for rest in ["parking.after=off", "parking.after=0"] {
        let server = RunningServer::with(&[rest]);
        let mut client = server.client();
        let mut stream = EventStream::open(server.public, "channels=a");
        let mut requests = PollClient::connect(server.public);
        let polling = Hello::parse(requests.get("channels=a").json()[0].clone());
        let streaming = stream.hello();
        requests.send_get(&format!("resume={}&seq=0", polling.resume));
        if rest == "parking.after=0" {
            until("all rest", || server.admin.metrics().total("encke_connections_parked") == 3.0);
        }
        let websocket = client.hello.session.clone();
        assert_eq!(begin(server.admin, &websocket, "news"), client.object());
        let begun = begin(server.admin, &streaming.session, "news");
        assert_eq!(stream.object(), (None, begun));
        let begun = begin(server.admin, &polling.session, "news");
        assert_eq!(requests.response().json(), json!([begun]));
        // A poll with the same seq is held, and not told again.
        requests.send_get(&format!("resume={}&seq=0", polling.resume));
        server.admin.publish("news", 1);
        assert_eq!(client.object(), message(1, "news", 1, 1));
        assert_eq!(stream.object().1, message(1, "news", 1, 1));
        assert_eq!(requests.response().json(), json!([message(1, "news", 1, 1)]));
        requests.send_get(&format!("resume={}&seq=1", polling.resume));
        for session in [&websocket, &streaming.session, &polling.session] {
            end(server.admin, session, "news");
        }
        assert_eq!(client.object(), removed("news"));
        assert_eq!(stream.object().1, removed("news"));
        assert_eq!(requests.response().json(), json!([removed("news")]));
    }
}

/// With the next reply to `/meta/connect`, and what is held is answered for it.
#[test]
fn bayeux_clients_are_told_beside_what_they_have_missed() {
    let server = RunningServer::with(&[]);
    let encke = |answer: &[Value]| answer.last().expect("a reply")["ext"]["encke"].clone();
    let mut polls = bayeux::BayeuxPolling::connect(server.public);
    let id = polls.handshake();
    polls.request(&json!([connect_now(&id)]));
    polls.send(&json!([connect(&id)]));
    let begun = begin(server.admin, &bayeux::session(&id), "/a");
    let answer = polls.response();
    assert_eq!(encke(&answer), json!({"subscribed": [begun["subscribed"]]}), "{answer:?}");
    // It is not told for ever.
    polls.send(&json!([connect(&id)]));
    server.admin.publish("/a", 1);
    let answer = polls.response();
    assert_eq!((events(&answer), encke(&answer)), (vec![json!(1)], Value::Null), "{answer:?}");
    polls.send(&json!([connect(&id)]));
    end(server.admin, &bayeux::session(&id), "/a");
    let answer = polls.response();
    assert_eq!(encke(&answer), json!({"unsubscribed": [removed("/a")["unsubscribed"]]}), "{answer:?}");

    let mut socket = bayeux::BayeuxWebSocket::connect(server.public);
    let id = socket.handshake();
    socket.request(&connect_now(&id));
    socket.send(&json!([connect(&id)]));
    let begun = begin(server.admin, &bayeux::session(&id), "/a");
    let answer = socket.messages_up_to_reply(&json!("c"));
    assert_eq!(encke(&answer), json!({"subscribed": [begun["subscribed"]]}), "{answer:?}");
    server.admin.publish("/a", 2);
    socket.send(&json!([connect_now(&id)]));
    let answer = socket.messages_up_to_reply(&json!("c"));
    assert_eq!((events(&answer), encke(&answer)), (vec![json!(2)], Value::Null), "{answer:?}");
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let server = RunningServer::with(&["limits.max_subscriptions=1"]);
    let mut client = server.client();
    let session = client.hello.session.clone();
    for body in [json!({}), json!({"channel": 1}), json!({"channel": "a", "more": 1})] {
        assert_error(&subscribe(server.admin, &session, &body), 400, "bad_request");
    }
    for channel in ["", "a,b", "$session", "$user"] {
        let body = json!({"channel": channel});
        assert_error(&subscribe(server.admin, &session, &body), 400, "bad_channel");
        let path = format!("/api/sessions/{session}/unsubscribe");
        assert_error(&server.admin.post(&path, &body.to_string()), 400, "bad_channel");
    }
    assert_eq!(begin(server.admin, &session, "/a/*"), client.object());
    assert_error(&subscribe(server.admin, &session, &json!({"channel": "b"})), 503, "limit");
    server.admin.publish("/a/b", 1);
    assert_eq!(client.object()["message"]["pattern"]["name"], "/a/*");
    assert_eq!(server.admin.kick(&session).status, 204);
    assert_error(&subscribe(server.admin, &session, &json!({"channel": "b"})), 404, "not_found");
}

#[test]
fn what_was_not_told_is_told_by_the_next_process() {
    let mut restarts = Restarts::with(&[]);
    let hello = restarts.server.client().drop_connection();
    restarts.server.await_phase(&hello.session, "suspended");
    let begun = begin(restarts.server.admin, &hello.session, "news");
    restarts.server.admin.publish("news", 1);
    restarts.restart();
    let mut client = back(&restarts, &hello, 0);
    assert_eq!(client.object(), begun);
    assert_eq!(client.object(), message(1, "news", 1, 1));
    end(restarts.server.admin, &hello.session, "news");
    // Nobody has read it.
    client.drop_connection();
    restarts.restart();
    assert_eq!(back(&restarts, &hello, 1).object(), removed("news"));
    // What is known is not told again.
    let begun = begin(restarts.server.admin, &hello.session, "news");
    let mut client = Client::connect(restarts.server.public, &format!("resume={}&seq=1", hello.resume));
    while client.object() != begun {}
    restarts.server.admin.publish("news", 2);
    assert_eq!(client.object(), message(2, "news", 2, 2));
    restarts.restart();
    let mut client = back(&restarts, &hello, 2);
    restarts.server.admin.publish("news", 3);
    assert_eq!(client.object(), message(3, "news", 3, 3));
}
