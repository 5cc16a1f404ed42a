//! Expired and rejected tokens, and other closes after which a client does not reconnect.

use encke_tests::RunningServer;
use encke_tests::tokens::{token, unix_time};
use encke_tests::waiting::until;
use serde_json::{Value, json};

use super::{KINDS, KINDS_WITH_ONE_PAGE, assert_news, await_closed, await_open, session_id, states};

fn expiring_in(seconds: u64) -> String {
    token("alice", json!({"exp": unix_time().as_secs() + seconds}))
}

/// The client obtains another token and continues where it left off.
#[test]
fn an_expired_token_is_replaced() {
    for kind in KINDS_WITH_ONE_PAGE {
        let server = RunningServer::with_tokens(&[]);
        // On a busy machine, the first token may expire before it is used.
        let (mut client, hello) = [4, 8, 16, 32]
            .into_iter()
            .map(|seconds| {
                let tokens = [expiring_in(seconds), expiring_in(3_600)];
                kind.start_subscribed(&server, server.public, &["news"], &json!({ "tokens": tokens }))
            })
            .find(|(client, _)| states(client) == ["connecting", "open"])
            .expect("one of the tokens is used in time");
        server.admin.publish_each("news", 1..=2);
        client.await_object("message", 2);
        until("the token expires", || states(&client).contains(&"waiting".to_owned()));
        client.send_command(&json!({"ask": ["publish", "news", 3]}));
        await_open(&client, 2);
        client.await_object("answer", 1);
        server.admin.publish("news", 4);
        assert_news(&client, 4);
        let reasons: Vec<_> =
            client.values("state").into_iter().map(|state| state["reason"].clone()).collect();
        assert!(reasons.contains(&json!("token_expired")), "{kind:?}: {reasons:?}");
        let hellos = client.values("hello");
        // A polling client may check for its session by a POST; this is rejected because the session's
        // token has expired.
        let is_same = hellos.iter().all(|other| session_id(other) == session_id(&hello));
        assert!(is_same || kind.transport == "poll", "{kind:?}: {hellos:?}");
        assert_eq!(client.count("gap") + client.count("fallback"), 0);
    }
}

/// The token provider may hang on a half-open connection. The client calls it again and does not blame the
/// transport.
#[test]
fn a_missing_token_is_requested_again() {
    for kind in KINDS_WITH_ONE_PAGE {
        let server = RunningServer::with_tokens(&[]);
        let tokens = json!([null, expiring_in(3_600)]);
        let options = json!({"tokens": tokens, "hello_ms": 3_000, "transports": [kind.transport, "poll"]});
        let client = kind.start(&server, server.public, &options);
        await_open(&client, 1);
        assert_eq!(client.count("fallback"), 0, "{kind:?}");
        let waited = client.values("state").into_iter().find(|state| state["state"] == "waiting");
        assert_eq!(waited.expect("the client has waited")["reason"], "timeout", "{kind:?}");
    }
}

/// The client asks again instead of sending the malformed token, which the server would refuse for good.
#[test]
fn a_malformed_token_is_requested_again() {
    for kind in KINDS_WITH_ONE_PAGE {
        let server = RunningServer::with_tokens(&[]);
        let good = format!("{}\n", expiring_in(3_600));
        let tokens = json!(["<!DOCTYPE html><h1>Bad Gateway</h1>", "", good]);
        let client = kind.start(&server, server.public, &json!({ "tokens": tokens }));
        await_open(&client, 1);
        assert_eq!(states(&client).iter().filter(|state| *state == "waiting").count(), 2, "{kind:?}");
        let waited = client.values("state").into_iter().find(|state| state["state"] == "waiting");
        assert_eq!(waited.expect("the client has waited")["reason"], "token", "{kind:?}");
    }
}

/// With a fixed token, trying again would be futile.
#[test]
fn a_client_does_not_retry_a_rejected_token() {
    for kind in KINDS.into_iter().filter(|kind| kind.place == "node") {
        let server = RunningServer::with_tokens(&[]);
        for (token, reason) in [
            (json!(token("alice", json!({"exp": 1}))), "token_expired"),
            (json!("not-a-jwt"), "unauthorized"),
            (json!("not a token"), "token"),
            (Value::Null, "unauthorized"),
        ] {
            let client = kind.start(&server, server.public, &json!({"channels": ["news"], "token": token}));
            assert_eq!(await_closed(&client), reason, "{kind:?}");
            if reason != "token" {
                let warning = format!("closed for good: {reason}");
                until("the reason is printed", || client.stderr_text().contains(&warning));
            }
        }
    }
}

#[test]
fn a_kicked_client_does_not_reconnect() {
    for kind in KINDS_WITH_ONE_PAGE {
        let server = RunningServer::with(&[]);
        let (mut client, hello) = kind.start_subscribed(&server, server.public, &["news"], &json!({}));
        assert_eq!(server.admin.kick(session_id(&hello)).status, 204);
        assert_eq!(await_closed(&client), "kicked", "{kind:?}");
        client.send_command(&json!({"ask": ["publish", "news", 1]}));
        assert_eq!(client.await_value("failed", 1)["code"], "closed");
        assert_eq!(states(&client).last().map(String::as_str), Some("closed"), "{kind:?}");
    }
}

#[test]
fn a_client_that_closes_or_leaves_ends_a_session_that_is_not_persisted() {
    for kind in KINDS {
        let server = RunningServer::with(&[]);
        let persist = json!({"persist": "none"});
        let (mut client, hello) = kind.start_subscribed(&server, server.public, &["news"], &persist);
        if kind.place == "page" {
            client.send_command(&json!({"leave": true}));
        } else {
            client.send_command(&json!({"ask": ["close"]}));
            client.await_object("answer", 1);
            assert_eq!(await_closed(&client), "normal", "{kind:?}");
        }
        server.await_removal(session_id(&hello));
        assert_eq!(server.admin.metrics().events("closed", "client"), 1.0, "{kind:?}");
    }
}
