//! Server restarts.

use encke_tests::process::Signal;
use encke_tests::relay::Fate;
use encke_tests::server::IN_MEMORY;
use encke_tests::waiting::until;
use encke_tests::{Relay, RunningServer};
use serde_json::{Value, json};

use super::{KINDS_WITH_ONE_PAGE, assert_news, await_open, data, session_id};
use crate::restart::RestartableServer;

/// The session and all messages are kept, including messages that no client had received before the restart.
#[test]
fn a_client_survives_a_restart_with_a_snapshot() {
    for kind in KINDS_WITH_ONE_PAGE {
        let mut restarts = RestartableServer::with(&[]);
        let (mut client, hello) =
            kind.start_subscribed(&restarts.server, restarts.server.public, &["news"], &json!({}));
        restarts.server.admin.publish_each("news", 1..=3);
        client.await_object("message", 3);
        assert_eq!(restarts.server.admin.disconnect(session_id(&hello)).status, 204);
        restarts.server.admin.publish_each("news", 4..=5);
        restarts.stop();
        client.send_command(&json!({"ask": ["publish", "news", 6]}));
        restarts.start();
        client.await_object("answer", 1);
        restarts.server.admin.publish("news", 7);
        assert_news(&client, 7);
        assert_eq!(client.count("gap"), 0, "{kind:?}");
        let hellos = client.values("hello");
        assert!(hellos.iter().all(|other| session_id(other) == session_id(&hello)), "{kind:?}: {hellos:?}");
        assert_eq!(client.count("fallback"), 0);
    }
}

/// The server either shuts down gracefully and announces when to reconnect, or is killed.
#[test]
fn loss_after_a_restart_without_a_snapshot_is_reported() {
    for kind in KINDS_WITH_ONE_PAGE {
        let signal = if kind.transport == "poll" { Signal::TERM } else { Signal::KILL };
        let mut server = RunningServer::with(&[IN_MEMORY]);
        let relay = Relay::new(server.public, || Fate::Intact);
        let (client, hello) = kind.start_subscribed(&server, relay.address, &["news"], &json!({}));
        server.admin.publish_each("news", 1..=3);
        client.await_object("message", 3);
        if signal == Signal::TERM {
            // A client that has no request held receives no `goaway`.
            let held = r#"encke_connections{transport="poll",dialect="json"}"#;
            until("a poll is held", || server.admin.metrics().value(held) > 0.0);
        }
        server.signal(signal);
        server.await_exit();

        let server = RunningServer::with(&[IN_MEMORY]);
        server.admin.publish_each("news", 4..=5);
        relay.redirect_to(server.public);
        await_open(&client, 2);
        let gap = client.await_value("gap", 1);
        assert_eq!((&gap["channel"], &gap["from"]), (&json!("news"), &Value::Null), "{kind:?}");
        server.admin.publish("news", 6);
        until("the last message arrives", || data(&client, "news") == [1, 2, 3, 4, 5, 6]);
        assert_eq!(client.count("gap"), 1, "{kind:?}");
        assert!(client.values("hello").last().is_some_and(|last| session_id(last) != session_id(&hello)));
        if signal == Signal::TERM {
            let goaway = client.await_object("goaway", 1);
            let retry_ms = goaway["goaway"]["retry_ms"].as_f64().expect("a time");
            let is_later = |object: &Value| object["at_ms"].as_f64() > goaway["at_ms"].as_f64();
            let hello = (1..)
                .map(|nth| client.await_object("hello", nth))
                .find(is_later)
                .expect("the client reconnects");
            let waited_ms =
                hello["at_ms"].as_f64().expect("a time") - goaway["at_ms"].as_f64().expect("a time");
            assert!(waited_ms >= retry_ms, "{kind:?}: {waited_ms} ms instead of {retry_ms}");
        }
    }
}
