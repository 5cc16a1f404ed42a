//! Expired and rejected tokens, and other closes after which a client does not reconnect.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::{let_pass, until};
use encke_tests::{Launch, RunningServer};
use serde_json::{Value, json};

use super::{KINDS, KINDS_WITH_ONE_PAGE, assert_news, await_closed, await_open, publish, session_id, states};

fn server() -> RunningServer {
    Launch::default().environment("ENCKE_AUTH__SECRET", SECRET).start()
}

fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970").as_secs()
}

fn token(sub: &str, exp: u64) -> String {
    let all = json!({"*": ["subscribe", "publish", "presence"]});
    sign(&json!({"sub": sub, "exp": exp, "channels": all}), SECRET)
}

/// The client obtains another token and continues where it left off.
#[test]
fn an_expired_token_is_replaced() {
    for kind in KINDS_WITH_ONE_PAGE {
        let server = server();
        // On a busy machine, the first token may expire before it is used.
        let (mut client, hello) = [4, 8, 16, 32]
            .into_iter()
            .map(|seconds| {
                let tokens = [token("alice", unix_time() + seconds), token("alice", unix_time() + 3_600)];
                kind.start_subscribed(&server, server.public, &["news"], &json!({ "tokens": tokens }))
            })
            .find(|(client, _)| states(client) == ["connecting", "open"])
            .expect("one of the tokens is used in time");
        publish(&server, 1..=2);
        client.await_object("message", 2);
        until("the token expires", || states(&client).contains(&"waiting".to_owned()));
        client.send_command(&json!({"ask": ["publish", "news", 3]}));
        await_open(&client, 2);
        client.await_object("answer", 1);
        publish(&server, [4]);
        assert_news(&client, 4);
        let reasons: Vec<_> =
            client.values("state").into_iter().map(|state| state["reason"].clone()).collect();
        assert!(reasons.contains(&json!("token_expired")), "{kind:?}: {reasons:?}");
        let hellos = client.values("hello");
        // A polling client may check for its session with the resume token alone; this is rejected because
        // the client's token has expired.
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
        let server = server();
        let tokens = json!([null, token("alice", unix_time() + 3_600)]);
        let options = json!({"tokens": tokens, "hello_ms": 1_000, "transports": [kind.transport, "poll"]});
        let client = kind.start(&server, server.public, &options);
        await_open(&client, 1);
        assert_eq!(client.count("fallback"), 0, "{kind:?}");
        let waited = client.values("state").into_iter().find(|state| state["state"] == "waiting");
        assert_eq!(waited.expect("the client has waited")["reason"], "timeout", "{kind:?}");
    }
}

/// With a fixed token, trying again would be futile.
#[test]
fn a_client_does_not_retry_a_rejected_token() {
    for kind in KINDS.into_iter().filter(|kind| kind.place == "node") {
        let server = server();
        for (token, reason) in [
            (json!(token("alice", 1)), "token_expired"),
            (json!("not a token"), "unauthorized"),
            (Value::Null, "unauthorized"),
        ] {
            let client = kind.start(&server, server.public, &json!({"channels": ["news"], "token": token}));
            assert_eq!(await_closed(&client), reason, "{kind:?}");
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
        // A client that wanted to reconnect would have done so after half a second.
        let_pass(Duration::from_secs(1));
        assert_eq!(states(&client).last().map(String::as_str), Some("closed"), "{kind:?}");
    }
}

#[test]
fn a_client_that_closes_or_leaves_ends_its_session() {
    for kind in KINDS {
        let server = RunningServer::with(&[]);
        let (mut client, hello) = kind.start_subscribed(&server, server.public, &["news"], &json!({}));
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

/// A page in the browser's back-forward cache, simulated with `pagehide` and `pageshow`.
#[test]
fn a_page_shown_again_reconnects() {
    for kind in KINDS.into_iter().filter(|kind| kind.place == "page") {
        let server = RunningServer::with(&[]);
        let (mut client, hello) = kind.start_subscribed(&server, server.public, &["news"], &json!({}));
        publish(&server, 1..=2);
        client.await_object("message", 2);
        client.send_command(&json!({"fire": "pagehide"}));
        server.await_removal(session_id(&hello));
        publish(&server, 3..=4);
        client.send_command(&json!({"fire": "pageshow"}));
        await_open(&client, 2);
        publish(&server, [5]);
        assert_news(&client, 5);
        assert_eq!(client.count("gap"), 0, "{kind:?}");
    }
}
