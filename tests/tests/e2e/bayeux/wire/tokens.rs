use std::time::Duration;

use encke_tests::RunningServer;
use encke_tests::bayeux::{
    BayeuxPolling, BayeuxWebSocket, JSON, assert_refused, assert_successful, client_id, connect_now,
    handshake, messages, post, publish, session, subscribe, with_token,
};
use encke_tests::tokens::{sign, token, unix_time};
use encke_tests::waiting::let_pass;
use serde_json::json;

use super::{assert_not_logged, subscribed_channels};

/// Returns a token that expires after this time.
fn expiring(lasts: Duration) -> String {
    token("alice", json!({"exp": (unix_time() + lasts).as_secs()}))
}

/// The token is in the handshake, a header, or the query. It is never logged.
#[test]
fn token_is_accepted_in_three_places() {
    let server = RunningServer::with_tokens(&[]);
    let token = expiring(Duration::from_secs(3600));
    let mut polls = BayeuxPolling::connect(server.public);
    let id = client_id(&polls.reply(&with_token(handshake(), &token)));
    assert_eq!(server.admin.session(&session(&id))["user"], "alice");
    assert_successful(&polls.reply(&connect_now(&id)));
    for (path, headers) in [
        ("/bayeux".to_owned(), format!("{JSON}Authorization: Bearer {token}\r\n")),
        (format!("/bayeux?token={token}"), JSON.to_owned()),
    ] {
        let answer = polls.requests.exchange(post(&path, &headers, &handshake().to_string()));
        let id = client_id(&messages(&answer)[0]);
        assert_eq!(server.admin.session(&session(&id))["user"], "alice");
    }
    let mut socket = BayeuxWebSocket::connect(server.public);
    client_id(&socket.reply(&with_token(handshake(), &token)));
    assert_not_logged(&server.logs, &id);
    assert!(!server.logs.text().contains(&token), "the token is in a log");
}

#[test]
fn session_requires_a_valid_token() {
    let server = RunningServer::with_tokens(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let forged =
        sign(&json!({"sub": "alice", "channels": {}}), "another secret that is long enough to be one");
    for message in [handshake(), with_token(handshake(), "x"), with_token(handshake(), &forged)] {
        let reply = polls.reply(&message);
        assert_eq!(reply["channel"], "/meta/handshake");
        assert_refused(&reply, "401");
        assert_eq!(reply["advice"]["reconnect"], "none", "{reply}");
        assert_eq!(reply.get("clientId"), None);
    }
    assert_eq!(server.admin.metrics().sessions("attached"), 0.0);
}

/// A JSON client's token for resuming is not the `clientId` of a Bayeux session: a resume needs a valid JWT, which
/// Bayeux messages may omit.
#[test]
fn only_bayeux_sessions_have_a_client_id() {
    let server = RunningServer::with_tokens(&[]);
    let mut alice = server.client_of("alice");
    alice.subscribe("/news");
    let mut polls = BayeuxPolling::connect(server.public);
    let id = alice.hello.resume.clone();
    for message in [publish(&id, "/news", 1), connect_now(&id), subscribe(&id, "/news")] {
        for message in [message.clone(), with_token(message, &token("alice", json!({})))] {
            assert_refused(&polls.reply(&message), "402");
        }
    }
    alice.ping();
}

/// A token in a later message, of any kind and over any transport, replaces the token that the session started
/// with, and the session outlives the first one.
#[test]
fn a_later_token_refreshes() {
    let server = RunningServer::with_tokens(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let mut socket = BayeuxWebSocket::connect(server.public);
    let hello = with_token(handshake(), &expiring(Duration::from_secs(5)));
    let (polling, connected) = (client_id(&polls.reply(&hello)), client_id(&socket.reply(&hello)));
    assert_successful(&socket.reply(&connect_now(&connected)));
    let later = |id: &str| with_token(connect_now(id), &expiring(Duration::from_secs(3600)));
    assert_successful(&polls.reply(&later(&polling)));
    assert_successful(&socket.reply(&later(&connected)));
    let_pass(Duration::from_secs(6));
    assert_successful(&polls.reply(&connect_now(&polling)));
    assert_successful(&socket.reply(&connect_now(&connected)));
    for id in [polling, connected] {
        server.await_lifecycle(&session(&id), "opened connect");
    }
}

/// A session whose token has expired waits for another one. Its client receives the error.
#[test]
fn expired_token_is_reported() {
    let server = RunningServer::with_tokens(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = client_id(&polls.reply(&with_token(handshake(), &expiring(Duration::from_secs(4)))));
    server.await_phase(&session(&id), "suspended");
    assert_refused(&polls.reply(&connect_now(&id)), "401");
    let later = with_token(connect_now(&id), &expiring(Duration::from_secs(3600)));
    assert_successful(&polls.reply(&later));
    assert_eq!(server.admin.phase(&session(&id)).as_deref(), Some("attached"));
}

/// A token allows a pattern if it allows all channels that the pattern can match.
#[test]
fn token_limits_subscriptions() {
    let server = RunningServer::with_tokens(&[]);
    let channels = json!({"/a/*": ["subscribe", "publish"], "/news": ["subscribe"]});
    let token = token("alice", json!({"channels": channels}));
    let mut polls = BayeuxPolling::connect(server.public);
    let id = client_id(&polls.reply(&with_token(handshake(), &token)));
    for allowed in ["/a/*", "/a/b/**", "/a/**", "/news"] {
        assert_successful(&polls.reply(&subscribe(&id, allowed)));
    }
    for refused in [json!("/b"), json!("/*"), json!(["/a/c", "/b"])] {
        assert_refused(&polls.reply(&subscribe(&id, refused)), "403");
    }
    assert_eq!(subscribed_channels(&server, &id), ["/a/*", "/a/**", "/a/b/**", "/news"]);
    assert_successful(&polls.reply(&publish(&id, "/a/b", 1)));
    assert_refused(&polls.reply(&publish(&id, "/news", 1)), "403");
}
