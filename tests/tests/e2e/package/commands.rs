//! A client's commands and their replies.

use std::time::Duration;

use encke_tests::relay::Fate;
use encke_tests::waiting::until;
use encke_tests::{Backend, BackendReply, Relay, RunningServer, Script};
use serde_json::{Value, json};

use super::{KINDS, KINDS_WITH_ONE_PAGE, await_open, data, publish, session_id};

/// Makes the client send a command and returns the reply or the error.
#[track_caller]
fn request(client: &mut Script, command: &Value) -> Value {
    let (answers, failures) = (client.count("answer"), client.count("failed"));
    client.send_command(&json!({ "ask": command }));
    until(format!("a reply to {command}"), || {
        client.count("answer") + client.count("failed") > answers + failures
    });
    if client.count("failed") > failures {
        return client.await_value("failed", failures + 1);
    }
    client.await_value("answer", answers + 1)
}

#[test]
fn commands_are_answered() {
    for kind in KINDS {
        let server = RunningServer::with(&[]);
        let mut client = kind.start(&server, server.public, &json!({}));
        client.await_object("ready", 1);
        let subscribed = request(&mut client, &json!(["subscribe", "news"]));
        assert_eq!((&subscribed["channel"], &subscribed["offset"]), (&json!("news"), &json!(0)));
        assert_eq!(request(&mut client, &json!(["publish", "news", {"any": "json"}]))["offset"], 1);
        let message = client.await_value("message", 1);
        assert_eq!((&message["seq"], &message["data"]), (&json!(1), &json!({"any": "json"})));
        assert_eq!(request(&mut client, &json!(["publish", "news", 2, {"key": "k"}]))["offset"], 2);
        assert_eq!(
            request(&mut client, &json!(["publish", "news", 2, {"key": "k"}]))["offset"],
            2,
            "a known key is a duplicate"
        );
        assert_eq!(request(&mut client, &json!(["presence", "news"]))["total"], 1);
        assert_eq!(request(&mut client, &json!(["unsubscribe", "news"])), json!({}));
        assert_eq!(request(&mut client, &json!(["presence", "news"]))["total"], 0);
        publish(&server, [3]);
        // Subscribe from an earlier position.
        let since = json!({"epoch": subscribed["epoch"], "offset": 1});
        assert_eq!(
            request(&mut client, &json!(["subscribe", "news", { "since": since }]))["recovered"],
            true
        );
        until("the messages published in the meantime arrive", || client.count("message") == 4);
        assert_eq!(
            client.values("message")[2..].iter().map(|message| &message["data"]).collect::<Vec<_>>(),
            [2, 3]
        );
        assert_eq!(client.count("gap"), 0, "{kind:?}");
    }
}

/// The client queues rejected commands. Even several seconds' worth of commands sent together give the server
/// no reason to close the session.
#[test]
fn commands_above_the_rate_limit_are_queued() {
    let in_node = KINDS.into_iter().filter(|kind| kind.place == "node");
    for (kind, (allowed, commands)) in in_node.flat_map(|kind| [(kind, (100, 300)), (kind, (10, 30))]) {
        let server = RunningServer::with(&[&format!("limits.commands_per_second={allowed}")]);
        let mut client = kind.start(&server, server.public, &json!({}));
        client.await_object("ready", 1);
        for number in 0..commands {
            client.send_command(&json!({"ask": ["publish", "news", number]}));
        }
        until("all commands are answered", || client.count("answer") + client.count("failed") == commands);
        assert_eq!(client.count("failed"), 0, "{kind:?}: {:?}", client.values("failed"));
        let channel = server.admin.get("/api/channels/news").json();
        assert_eq!(channel["last"], commands, "{kind:?}: each command once");
    }
}

/// A call is not repeated: after the page is shown again, the call's outcome is unknown.
#[test]
fn a_call_of_a_hidden_page_is_not_repeated() {
    for kind in KINDS.into_iter().filter(|kind| kind.place == "page") {
        let backend = Backend::start();
        backend.reply_with(|_| BackendReply::json(json!({"data": 1})).delayed_by(Duration::from_secs(2)));
        let server = RunningServer::with(&[&format!("backend.call={}", backend.url("/call"))]);
        let mut client = kind.start(&server, server.public, &json!({}));
        await_open(&client, 1);
        client.send_command(&json!({"ask": ["call", "pay", 100]}));
        until("the backend is called", || backend.requests().len() == 1);
        client.send_command(&json!({"fire": "pagehide"}));
        assert_eq!(client.await_value("failed", 1)["code"], "outcome_unknown", "{kind:?}");
        client.send_command(&json!({"fire": "pageshow"}));
        await_open(&client, 2);
        request(&mut client, &json!(["publish", "news", 1]));
        assert_eq!(backend.requests().len(), 1, "{kind:?}");
    }
}

#[test]
fn a_subscription_may_start_with_the_last_messages() {
    for kind in KINDS {
        let server = RunningServer::with(&[]);
        publish(&server, [1, 2, 3]);
        server.admin.publish("other", "only");
        let channels = json!([{"channel": "other", "last": 9}]);
        let mut client = kind.start(&server, server.public, &json!({ "channels": channels }));
        client.await_object("ready", 1);
        assert_eq!(client.await_value("message", 1)["data"], "only", "{kind:?}");
        assert_eq!(request(&mut client, &json!(["subscribe", "news", {"last": 2}]))["offset"], 3);
        publish(&server, [4]);
        let received: Vec<_> =
            (2..=4).map(|nth| client.await_value("message", nth)["data"].clone()).collect();
        assert_eq!(received, [2, 3, 4], "{kind:?}");
        assert_eq!(client.count("gap"), 0, "{kind:?}");
    }
}

#[test]
fn joins_and_leaves_are_messages() {
    for kind in KINDS_WITH_ONE_PAGE {
        let server = RunningServer::with(&["namespace=[{prefix='room.', join_leave=true}]"]);
        let mut client = kind.start(&server, server.public, &json!({}));
        client.await_object("ready", 1);
        request(&mut client, &json!(["subscribe", "room.a"]));
        let own = client.await_value("message", 1);
        let session = |message: &Value, what: &str| message[what]["session"].as_str().map(ToOwned::to_owned);
        let shown = request(&mut client, &json!(["presence", "room.a"]))["present"][0]["session"].clone();
        assert_eq!((&own["joined"]["session"], &own["offset"]), (&shown, &json!(1)), "{kind:?}: {own}");
        let mut other = server.client();
        other.subscribe("room.a");
        let hello = other.hello.clone();
        assert_eq!(session(&client.await_value("message", 2), "joined"), Some(hello.session.clone()));
        server.admin.kick(&hello.session);
        let last = client.await_value("message", 3);
        assert_eq!(
            (session(&last, "left"), last.get("data")),
            (Some(hello.session), None),
            "{kind:?}: {last}"
        );
    }
}

#[test]
fn rejections_have_the_wire_error_codes() {
    for kind in KINDS_WITH_ONE_PAGE {
        let server = RunningServer::with(&["limits.max_message=2KiB", "limits.max_subscriptions=2"]);
        let mut client = kind.start(&server, server.public, &json!({"channels": ["news", "$no", "chat"]}));
        // This subscription is set in the options, so no command waits for its rejection.
        let refused = client.await_value("unsubscribed", 1);
        assert_eq!(refused, json!({"channel": "$no", "reason": "bad_channel"}), "{kind:?}");
        until("two subscriptions are confirmed", || {
            client.values("reply").iter().filter(|reply| reply.get("ok").is_some()).count() == 2
        });
        assert_eq!(request(&mut client, &json!(["subscribe", "more"]))["code"], "limit");
        assert_eq!(request(&mut client, &json!(["publish", "/meta/x", 1]))["code"], "bad_channel");
        let unknown = request(&mut client, &json!(["call", "x", {"a": 1}]));
        assert_eq!(unknown["code"], "unknown_command");
        assert!(unknown["message"].as_str().is_some_and(|message| message.contains("call")), "{unknown}");
        // The command is not retried forever, regardless of how the transport reports the failure.
        let long = request(&mut client, &json!(["publish", "news", "x".repeat(3_000)]));
        let code = if kind.transport == "websocket" { "outcome_unknown" } else { "too_large" };
        assert_eq!(long["code"], code, "{kind:?}");
        assert_eq!(request(&mut client, &json!(["publish", "news", 1]))["offset"], 1, "{kind:?}");
    }
}

/// Queued commands that are short enough individually but not together are sent one at a time.
#[test]
fn queued_commands_are_sent_once_connected() {
    for kind in KINDS_WITH_ONE_PAGE {
        let server = RunningServer::with(&["limits.max_message=2KiB", "channel.history_messages=10000"]);
        let mut client = kind.start(&server, server.public, &json!({"channels": ["news"]}));
        client.await_object("ready", 1);
        let text = "x".repeat(500);
        // Publish faster than the server's rate limit allows. The client queues the rest.
        for number in 0..150 {
            client.send_command(&json!({"ask": ["publish", "news", [number, text]]}));
        }
        client.await_object("answer", 150);
        assert_eq!(client.count("failed"), 0, "{kind:?}: {:?}", client.values("failed"));
        client.await_object("message", 150);
        let mut received: Vec<_> = client
            .values("message")
            .iter()
            .map(|message| message["data"][0].as_u64().expect("a number"))
            .collect();
        received.sort_unstable();
        assert_eq!(received, Vec::from_iter(0..150), "{kind:?}");
    }
}

/// An unanswered publish is repeated only in the same session: another session would not recognise it as a
/// duplicate.
#[test]
fn pending_commands_are_repeated_or_fail_with_unknown_outcome() {
    for kind in KINDS_WITH_ONE_PAGE {
        let server = RunningServer::with(&["session.reconnect_window=2s"]);
        let relay = Relay::new(server.public, || Fate::Intact);
        let (mut client, hello) =
            kind.start_subscribed(&server, relay.address, &["news"], &json!({"hello_ms": 1_000}));
        // The client sends the commands, but they never arrive.
        relay.silence_all();
        client.send_command(&json!({"ask": ["publish", "news", 1]}));
        client.send_command(&json!({"ask": ["call", "x"]}));
        client.send_command(&json!({"ask": ["presence", "news"]}));
        client.await_object("done", 3);
        server.admin.disconnect(session_id(&hello));
        server.await_removal(session_id(&hello));
        relay.cut_all();
        await_open(&client, 2);
        client.await_object("failed", 2);
        let codes: Vec<_> =
            client.values("failed").into_iter().map(|failed| failed["code"].clone()).collect();
        assert_eq!(codes, ["outcome_unknown", "outcome_unknown"], "{kind:?}");
        client.await_object("answer", 1);
        publish(&server, [2]);
        client.await_object("message", 1);
        assert_eq!(data(&client, "news"), [2], "{kind:?}");
    }
}
