use encke_tests::bayeux::{self, connect, connect_now, events};
use encke_tests::waiting::until;
use encke_tests::{Admin, Client, EventStream, Hello, HttpResponse, PollClient, RunningServer};
use serde_json::{Value, json};

use super::{assert_error, assert_ok, connect as connect_as, launch, message, resume, token};
use crate::restart::{RestartableServer, resume_session};

fn subscribe(admin: Admin, session: &str, body: &Value) -> HttpResponse {
    admin.post(&format!("/api/sessions/{session}/subscribe"), &body.to_string())
}

/// Subscribes the session to a channel. Returns the notice that its client receives.
#[track_caller]
fn subscribe_session(admin: Admin, session: &str, channel: &str) -> Value {
    json!({"subscribed": assert_ok(&subscribe(admin, session, &json!({"channel": channel})))})
}

#[track_caller]
fn unsubscribe_session(admin: Admin, session: &str, channel: &str) {
    let path = format!("/api/sessions/{session}/unsubscribe");
    let answer = admin.post(&path, &json!({"channel": channel}).to_string());
    assert_eq!(answer.status, 204, "{answer:?}");
}

fn removed(channel: &str) -> Value {
    json!({"unsubscribed": {"channel": channel, "reason": "removed"}})
}

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
        subscribe_session(server.admin, &session, "news");
        client.send(&nothing);
        assert_eq!(client.object(), forbidden, "{how}: only of this channel");
        assert_eq!(client.object()["reply"]["id"], 9);
        let offset = server.admin.publish("news", 1)["offset"].as_u64().expect("an offset");
        assert_eq!(client.object(), message(1, "news", offset, 1), "{how}");
        // The grant still holds after a disconnect, without another notice.
        let hello = client.drop_connection();
        let query = format!("seq=1&token={}", token("alice", json!({"channels": {}})));
        let mut again = resume(&server, &hello, &query);
        server.admin.publish("news", 2);
        let received = again.object();
        let received = if received == forbidden { again.object() } else { received };
        assert_eq!(received, message(2, "news", offset + 1, 2), "{how}");
        unsubscribe_session(server.admin, &session, "news");
        assert_eq!(again.object(), removed("news"));
    }
}

#[test]
fn subscription_may_include_history() {
    let server = RunningServer::with(&["channel.history_messages=3"]);
    let mut client = server.client();
    let session = client.hello.session.clone();
    let mut epoch = Value::Null;
    for number in 1..=4 {
        epoch = server.admin.publish("news", number)["epoch"].clone();
    }
    let since = |offset| json!({"channel": "news", "since": {"epoch": epoch, "offset": offset}});
    let answer = assert_ok(&subscribe(server.admin, &session, &since(2)));
    assert_eq!(answer, json!({"channel": "news", "epoch": epoch, "offset": 4, "recovered": true}));
    // The client's notice has the offset before its first message.
    let notice = json!({"subscribed": {"channel": "news", "epoch": epoch, "offset": 2}});
    assert_eq!(client.object(), notice);
    assert_eq!(client.object(), message(1, "news", 3, 3));
    assert_eq!(client.object(), message(2, "news", 4, 4));
    let mut other = server.client();
    let answer = assert_ok(&subscribe(server.admin, &other.hello.session.clone(), &since(0)));
    assert_eq!(answer["recovered"], false);
    assert_eq!(other.object()["subscribed"]["offset"], 0);
    assert_eq!(other.object()["gap"]["to"], 1);
    assert_eq!(other.object(), message(2, "news", 2, 2));
}

/// Notices that the client may not have received are sent again on its next connection, before anything else.
#[test]
fn notices_are_repeated_after_a_disconnect() {
    let server = RunningServer::with(&[]);
    let client = server.client();
    let session = client.hello.session.clone();
    let hello = client.drop_connection();
    server.await_phase(&session, "suspended");
    let notice = subscribe_session(server.admin, &session, "news");
    server.admin.publish("news", 1);
    // Disconnect before the client has read anything.
    let hello = resume(&server, &hello, "seq=0").drop_connection();
    let mut client = resume(&server, &hello, "seq=0");
    assert_eq!(client.object(), notice);
    assert_eq!(client.object(), message(1, "news", 1, 1));
    // Acknowledging a later message proves that the client received the notice.
    server.admin.publish("news", 2);
    assert_eq!(client.object(), message(2, "news", 2, 2));
    let mut client = resume(&server, &client.hello, "seq=2");
    server.admin.publish("news", 3);
    assert_eq!(client.object(), message(3, "news", 3, 3));
    let hello = client.drop_connection();
    server.await_phase(&session, "suspended");
    unsubscribe_session(server.admin, &session, "news");
    let hello = resume(&server, &hello, "seq=3").drop_connection();
    let mut client = resume(&server, &hello, "seq=3");
    assert_eq!(client.object(), removed("news"));
    // The session is subscribed again, so this is the only notice.
    let hello = client.drop_connection();
    server.await_phase(&session, "suspended");
    let notice = subscribe_session(server.admin, &session, "news");
    assert_eq!(resume(&server, &hello, "seq=3").object(), notice);
}

#[test]
fn notices_arrive_on_every_transport_active_and_parked() {
    for parking in ["parking.after=off", "parking.after=0"] {
        let server = RunningServer::with(&[parking]);
        let mut client = server.client();
        let mut stream = EventStream::open(server.public, "channels=a");
        let mut requests = PollClient::connect(server.public);
        let polling = Hello::parse(requests.get("channels=a").json()[0].clone());
        let streaming = stream.hello();
        requests.send_get(&format!("resume={}&seq=0", polling.resume));
        if parking == "parking.after=0" {
            until("all connections are parked", || {
                server.admin.metrics().total("encke_connections_parked") == 3.0
            });
        }
        let websocket = client.hello.session.clone();
        assert_eq!(subscribe_session(server.admin, &websocket, "news"), client.object());
        let notice = subscribe_session(server.admin, &streaming.session, "news");
        assert_eq!(stream.object(), (None, notice));
        let notice = subscribe_session(server.admin, &polling.session, "news");
        assert_eq!(requests.response().json(), json!([notice]));
        // A poll with the same seq is held, and the notice is not repeated.
        requests.send_get(&format!("resume={}&seq=0", polling.resume));
        server.admin.publish("news", 1);
        assert_eq!(client.object(), message(1, "news", 1, 1));
        assert_eq!(stream.object().1, message(1, "news", 1, 1));
        assert_eq!(requests.response().json(), json!([message(1, "news", 1, 1)]));
        requests.send_get(&format!("resume={}&seq=1", polling.resume));
        for session in [&websocket, &streaming.session, &polling.session] {
            unsubscribe_session(server.admin, session, "news");
        }
        assert_eq!(client.object(), removed("news"));
        assert_eq!(stream.object().1, removed("news"));
        assert_eq!(requests.response().json(), json!([removed("news")]));
    }
}

/// The notice is in the next reply to `/meta/connect`, and a held connect is answered to deliver it.
#[test]
fn bayeux_clients_receive_notices_next_to_gaps() {
    let server = RunningServer::with(&[]);
    let encke = |answer: &[Value]| answer.last().expect("a reply")["ext"]["encke"].clone();
    let mut polls = bayeux::BayeuxPolling::connect(server.public);
    let id = polls.handshake();
    polls.request(&json!([connect_now(&id)]));
    polls.send(&json!([connect(&id)]));
    let notice = subscribe_session(server.admin, &bayeux::session(&id), "/a");
    let answer = polls.response();
    assert_eq!(encke(&answer), json!({"subscribed": [notice["subscribed"]]}), "{answer:?}");
    // The notice is not repeated forever.
    polls.send(&json!([connect(&id)]));
    server.admin.publish("/a", 1);
    let answer = polls.response();
    assert_eq!((events(&answer), encke(&answer)), (vec![json!(1)], Value::Null), "{answer:?}");
    polls.send(&json!([connect(&id)]));
    unsubscribe_session(server.admin, &bayeux::session(&id), "/a");
    let answer = polls.response();
    assert_eq!(encke(&answer), json!({"unsubscribed": [removed("/a")["unsubscribed"]]}), "{answer:?}");

    let mut socket = bayeux::BayeuxWebSocket::connect(server.public);
    let id = socket.handshake();
    socket.request(&connect_now(&id));
    socket.send(&json!([connect(&id)]));
    let notice = subscribe_session(server.admin, &bayeux::session(&id), "/a");
    let answer = socket.messages_up_to_reply(&json!("c"));
    assert_eq!(encke(&answer), json!({"subscribed": [notice["subscribed"]]}), "{answer:?}");
    server.admin.publish("/a", 2);
    socket.send(&json!([connect_now(&id)]));
    let answer = socket.messages_up_to_reply(&json!("c"));
    assert_eq!((events(&answer), encke(&answer)), (vec![json!(2)], Value::Null), "{answer:?}");
}

#[test]
fn invalid_subscriptions_are_refused() {
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
    assert_eq!(subscribe_session(server.admin, &session, "/a/*"), client.object());
    assert_error(&subscribe(server.admin, &session, &json!({"channel": "b"})), 503, "limit");
    server.admin.publish("/a/b", 1);
    assert_eq!(client.object()["message"]["pattern"]["name"], "/a/*");
    assert_eq!(server.admin.kick(&session).status, 204);
    assert_error(&subscribe(server.admin, &session, &json!({"channel": "b"})), 404, "not_found");
}

#[test]
fn unsent_notices_survive_a_restart() {
    let mut restarts = RestartableServer::with(&[]);
    let hello = restarts.server.client().drop_connection();
    restarts.server.await_phase(&hello.session, "suspended");
    let notice = subscribe_session(restarts.server.admin, &hello.session, "news");
    restarts.server.admin.publish("news", 1);
    restarts.restart();
    let mut client = resume_session(&restarts, &hello, 0);
    assert_eq!(client.object(), notice);
    assert_eq!(client.object(), message(1, "news", 1, 1));
    unsubscribe_session(restarts.server.admin, &hello.session, "news");
    // The client has not read the notice before it disconnects.
    client.drop_connection();
    restarts.restart();
    assert_eq!(resume_session(&restarts, &hello, 1).object(), removed("news"));
    // A notice that the client has received is not sent again.
    let notice = subscribe_session(restarts.server.admin, &hello.session, "news");
    let mut client = Client::connect(restarts.server.public, &format!("resume={}&seq=1", hello.resume));
    while client.object() != notice {}
    restarts.server.admin.publish("news", 2);
    assert_eq!(client.object(), message(2, "news", 2, 2));
    restarts.restart();
    let mut client = resume_session(&restarts, &hello, 2);
    restarts.server.admin.publish("news", 3);
    assert_eq!(client.object(), message(3, "news", 3, 3));
}
