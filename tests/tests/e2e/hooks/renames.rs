use encke_tests::tokens::token;
use encke_tests::waiting::until;
use encke_tests::{Backend, BackendReply, EventStream, PollClient, RunningServer};
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

/// The name of a channel itself takes precedence, and a name is forgotten with its subscription.
#[test]
fn requested_name_lasts_as_long_as_the_subscription() {
    let backend = renaming_backend();
    let server = launch_with_hooks(&backend, &["subscribe"]).start();
    let mut client = server.client_of("alice");
    let session = client.hello.session.clone();
    let presence = json!({"id": 3, "presence": {"channel": "/my/news"}});
    // Only the first subscribe calls the backend.
    for _ in 0..3 {
        assert_eq!(reply(&mut client, &subscribe("/my/news"))["ok"]["channel"], "/alice/news");
        assert_eq!(reply(&mut client, &presence)["ok"]["total"], 1);
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
