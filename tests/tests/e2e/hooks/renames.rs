use encke_tests::bayeux::{self, BayeuxPolling, assert_successful, with_token};
use encke_tests::tokens::token;
use encke_tests::waiting::until;
use encke_tests::{Backend, BackendReply, BackendRequest, EventStream, PollClient, RunningServer};
use serde_json::{Value, json};

use super::{launch_with_hooks, reply};
use crate::restart::{RestartableServer, resume_session};

/// Starts a backend that replaces channels that begin with `/my/` by those of `alice`.
fn renaming_backend() -> Backend {
    let backend = Backend::start();
    backend.reply_with(|request| match request.json()["channel"].as_str() {
        Some(channel) if channel.starts_with("/my/") => {
            BackendReply::json(json!({"allow": true, "channel": channel.replace("/my/", "/alice/")}))
        }
        _ => BackendReply::approval_of(request),
    });
    backend
}

fn subscriptions(server: &RunningServer, session: &str) -> Vec<String> {
    let session = server.admin.session(session);
    let subscriptions = session["subscriptions"].as_array().expect("a list").iter();
    subscriptions.map(|it| it["channel"].as_str().expect("a name").to_owned()).collect()
}

fn subscribe(channel: &str) -> Value {
    json!({"id": 1, "subscribe": {"channel": channel}})
}

fn unsubscribe(channel: &str) -> Value {
    json!({"id": 2, "unsubscribe": {"channel": channel}})
}

#[test]
fn either_name_of_a_replaced_channel_unsubscribes() {
    let backend = renaming_backend();
    let server = launch_with_hooks(&backend, &["subscribe"]).start();
    let mut client = server.client_of("alice");
    let session = client.hello.session.clone();
    let admin = |channel: &str| {
        let path = format!("/api/sessions/{session}/unsubscribe");
        assert_eq!(server.admin.post(&path, json!({"channel": channel})).status, 204);
    };
    for name in ["/my/news", "/alice/news"] {
        assert_eq!(reply(&mut client, &subscribe("/my/news"))["ok"]["channel"], "/alice/news");
        assert_eq!(reply(&mut client, &unsubscribe(name))["ok"], json!({}));
        assert!(subscriptions(&server, &session).is_empty(), "{name}");

        client.request(subscribe("/my/news"));
        admin(name);
        assert!(subscriptions(&server, &session).is_empty(), "{name}, with the admin API");
        assert_eq!(client.object()["unsubscribed"]["channel"], "/alice/news");
    }
    // A POST alongside an event stream.
    let query = format!("token={}", token("alice", json!({})));
    let (_stream, hello) = EventStream::greeted(server.public, &format!("channels=/my/news&{query}"));
    until("the stream is subscribed", || subscriptions(&server, &hello.session) == ["/alice/news"]);
    let mut requests = PollClient::connect(server.public);
    requests.post(&format!("resume={}&{query}", hello.resume), unsubscribe("/my/news"));
    assert!(subscriptions(&server, &hello.session).is_empty());
}

/// Event ids identify a replaced channel by the name in the URL.
#[test]
fn an_event_stream_continues_in_a_replaced_channel() {
    let backend = renaming_backend();
    let server = launch_with_hooks(&backend, &["subscribe"]).set("session.reconnect_window=300ms").start();
    let query = format!("channels=/my/news&token={}", token("alice", json!({})));
    let (mut events, hello) = EventStream::greeted(server.public, &query);
    server.admin.publish("/alice/news", 1);
    let (id, _) = events.object();
    drop(events);
    server.await_removal(&hello.session);
    server.admin.publish("/alice/news", 2);
    let mut again = EventStream::reconnect(server.public, &query, &id.expect("messages have ids"));
    assert!(!again.hello().recovered);
    assert_eq!(again.object().1["message"]["data"], 2);
}

/// The name of a channel itself takes precedence, and a name is forgotten with its subscription.
#[test]
fn requested_name_lasts_as_long_as_the_subscription() {
    let backend = renaming_backend();
    let server = launch_with_hooks(&backend, &["subscribe"]).start();
    let mut client = server.client_of("alice");
    let session = client.hello.session.clone();
    let presence = json!({"id": 3, "presence": {"channel": "/my/news"}});
    let history = json!({"id": 4, "history": {"channel": "/my/news"}});
    server.admin.publish("/alice/news", "past");
    // Only the first subscribe calls the backend.
    for _ in 0..3 {
        assert_eq!(reply(&mut client, &subscribe("/my/news"))["ok"]["channel"], "/alice/news");
        assert_eq!(reply(&mut client, &presence)["ok"]["total"], 1);
        assert_eq!(reply(&mut client, &history)["ok"]["messages"][0]["data"], "past");
    }
    assert_eq!(backend.requests().len(), 1);
    client.request(unsubscribe("/my/news"));
    client.request(subscribe("/alice/news"));
    client.request(unsubscribe("/my/news"));
    assert_eq!(subscriptions(&server, &session), ["/alice/news"], "the old name has no meaning");
    assert_eq!(backend.requests().len(), 2);
    client.request(subscribe("/my/news"));
    assert_eq!(backend.requests().len(), 3, "the backend is called again");

    // The session is also subscribed to a channel with the requested name.
    let path = format!("/api/sessions/{session}/subscribe");
    server.admin.post(&path, json!({"channel": "/my/news"})).ok();
    client.object();
    client.request(unsubscribe("/my/news"));
    assert_eq!(subscriptions(&server, &session), ["/alice/news"]);
    // A token that does not allow the channel ends the subscription.
    client.request(subscribe("/my/news"));
    let claims = json!({"channels": {"/my/*": ["subscribe", "presence"]}});
    client.send(json!({"id": 4, "refresh": {"token": token("alice", claims)}}));
    assert_eq!(client.object()["unsubscribed"]["channel"], "/alice/news");
    client.object();
    let calls = backend.requests().len();
    client.assert_refused(subscribe("/my/news"), "forbidden");
    assert_eq!(backend.requests().len(), calls + 1);
}

#[test]
fn requested_name_survives_a_restart() {
    let backend = renaming_backend();
    let hook = format!("backend.subscribe={}", backend.url("/subscribe"));
    let mut server = RestartableServer::with(&[&hook]);
    let mut client = server.server.client();
    client.request(subscribe("/my/news"));
    let hello = client.hello.clone();
    server.restart();
    let mut client = resume_session(&server, &hello, 0);
    assert_eq!(subscriptions(&server.server, &hello.session), ["/alice/news"]);
    assert_eq!(reply(&mut client, &subscribe("/my/news"))["ok"]["channel"], "/alice/news");
    assert_eq!(backend.requests().len(), 1);
    client.request(unsubscribe("/my/news"));
    assert!(subscriptions(&server.server, &hello.session).is_empty());
}

/// The backend is called for each channel of `join`, unless it has named the channels itself.
#[test]
fn backend_decides_about_the_channels_of_tokens() {
    let backend = renaming_backend();
    let server = launch_with_hooks(&backend, &["subscribe"]).start();
    let joining = |channels: &[&str]| token("alice", json!({"join": channels}));
    let mut client = server.client_with(&joining(&["/open", "/my/news"]));
    let session = client.hello.session.clone();
    let joined = [client.object(), client.object()];
    assert_eq!(joined.each_ref().map(|notice| &notice["subscribed"]["channel"]), ["/open", "/alice/news"]);
    let expected = |channel| json!({"session": session, "user": "alice", "channel": channel});
    let asked: Vec<_> = backend.requests().iter().map(BackendRequest::json).collect();
    assert_eq!(asked, [expected("/open"), expected("/my/news")]);
    // A refresh joins the channels that the previous token did not name.
    client.send(json!({"id": 1, "refresh": {"token": joining(&["/open", "/more"])}}));
    let mut received = [client.object(), client.object()];
    received.sort_by_key(|object| object["reply"].is_null());
    assert_eq!(received[1]["subscribed"]["channel"], "/more");
    assert_eq!(backend.requests().len(), 3);
    client.request(unsubscribe("/my/news"));
    assert_eq!(subscriptions(&server, &session).len(), 2);

    // A Bayeux client can use the name in its token, too.
    let mut polls = BayeuxPolling::connect(server.public);
    let handshake = with_token(bayeux::handshake(), &joining(&["/my/news"]));
    let id = bayeux::client_id(&polls.reply(&handshake));
    let session = bayeux::session(&id);
    until("the channel is joined", || subscriptions(&server, &session) == ["/alice/news"]);
    assert_successful(&polls.reply(&bayeux::unsubscribe(&id, "/my/news")));
    assert!(subscriptions(&server, &session).is_empty());

    let backend = Backend::start();
    backend.reply_with(|request| match &*request.path {
        "/connect" => {
            BackendReply::json(json!({"sub": "bob", "channels": {"*": ["subscribe"]}, "join": ["a"]}))
        }
        _ => BackendReply::status(403),
    });
    let server = super::launch_without_keys(&backend, &["connect", "subscribe"]).start();
    assert_eq!(server.client().object()["subscribed"]["channel"], "a");
    assert_eq!(backend.requests().len(), 1);
}
