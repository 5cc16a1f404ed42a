//! A client's commands and their replies.

use std::time::Duration;

use encke_tests::relay::Fate;
use encke_tests::waiting::until;
use encke_tests::{Backend, BackendReply, Relay, RunningServer, Script};
use serde_json::{Value, json};

use super::{KINDS, KINDS_WITH_ONE_PAGE, assert_news, await_open, data, session_id};
use crate::history::offsets;

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
    for kind in KINDS_WITH_ONE_PAGE {
        let server = RunningServer::with(&[]);
        let mut client = kind.start(&server, server.public, &json!({}));
        client.await_object("ready", 1);
        let subscribed = request(&mut client, &json!(["subscribe", "news"]));
        assert_eq!((&subscribed["channel"], &subscribed["offset"]), (&json!("news"), &json!(0)));
        assert_eq!(request(&mut client, &json!(["publish", "news", {"any": "json"}]))["offset"], 1);
        let message = client.await_value("message", 1);
        assert_eq!((&message["seq"], &message["data"]), (&json!(1), &json!({"any": "json"})));
        let keyed = json!(["publish", "news", 2, {"key": "k"}]);
        let offsets = [(); 2].map(|()| request(&mut client, &keyed)["offset"].take());
        assert_eq!(offsets, [2, 2], "a known key is a duplicate");
        assert_eq!(request(&mut client, &json!(["presence", "news"]))["total"], 1);
        assert_eq!(request(&mut client, &json!(["unsubscribe", "news"])), json!({}));
        assert_eq!(request(&mut client, &json!(["presence", "news"]))["total"], 0);
        server.admin.publish("news", 3);
        // Subscribe from an earlier position.
        let since = json!({"epoch": subscribed["epoch"], "offset": 1});
        let subscribe = json!(["subscribe", "news", { "since": since }]);
        assert_eq!(request(&mut client, &subscribe)["recovered"], true);
        until("the messages published in the meantime arrive", || client.count("message") == 4);
        assert_eq!([3, 4].map(|nth| client.await_value("message", nth)["data"].take()), [2, 3]);
        // Start with the last messages.
        server.admin.publish_each("other", 1..=3);
        assert_eq!(request(&mut client, &json!(["subscribe", "other", {"last": 2}]))["offset"], 3);
        server.admin.publish("other", 4);
        let received = [5, 6, 7].map(|nth| client.await_value("message", nth)["data"].clone());
        assert_eq!(received, [2, 3, 4], "{kind:?}");
        assert_eq!(client.count("gap"), 0, "{kind:?}");
    }
}

#[test]
fn a_history_is_read_in_pages() {
    for kind in KINDS_WITH_ONE_PAGE {
        let server = RunningServer::with(&[]);
        let mut client = kind.start(&server, server.public, &json!({}));
        client.await_object("ready", 1);
        server.admin.publish_each("news", 1..=4);
        let newest = request(&mut client, &json!(["history", "news", {"limit": 3}]));
        assert_eq!((offsets(&newest), &newest["more"]), (vec![2, 3, 4], &json!(true)), "{kind:?}: {newest}");
        let before = json!({"before": 2, "epoch": newest["epoch"]});
        let oldest = request(&mut client, &json!(["history", "news", before]));
        assert_eq!((offsets(&oldest), &oldest["more"]), (vec![1], &json!(false)), "{kind:?}: {oldest}");
        let other_epoch = request(&mut client, &json!(["history", "news", {"since": 2, "epoch": "x"}]));
        assert_eq!((offsets(&other_epoch), &other_epoch["epoch"]), (vec![], &newest["epoch"]), "{kind:?}");
        let all = request(&mut client, &json!(["history", "news"]));
        assert_eq!(offsets(&all), [1, 2, 3, 4], "{kind:?}");
    }
}

/// The client queues rejected commands. Even several seconds' worth of commands sent together give the server
/// no reason to close the session. Commands that are short enough individually but not together are sent one
/// at a time.
#[test]
fn commands_above_the_rate_limit_are_queued() {
    const COMMANDS: usize = 60;
    for kind in KINDS_WITH_ONE_PAGE {
        let server = RunningServer::with(&["limits.commands_per_second=20", "limits.max_message=2KiB"]);
        let mut client = kind.start(&server, server.public, &json!({}));
        client.await_object("ready", 1);
        let text = "x".repeat(500);
        for number in 0..COMMANDS {
            client.send_command(&json!({"ask": ["publish", "news", [number, text]]}));
        }
        until("all commands are answered", || client.count("answer") + client.count("failed") == COMMANDS);
        assert_eq!(client.count("failed"), 0, "{kind:?}: {:?}", client.values("failed"));
        let history = server.admin.get("/api/channels/news/history?limit=1000").json();
        let history = history["messages"].as_array().expect("an array");
        let mut numbers: Vec<_> = history.iter().map(|message| message["data"][0].as_u64()).collect();
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq((0..COMMANDS as u64).map(Some)), "{kind:?}: {numbers:?}");
    }
}

/// A page in the browser's back-forward cache, simulated with `pagehide` and `pageshow`, continues in a new
/// session if its own is not stored. Its call is not repeated: the outcome is unknown.
#[test]
fn a_page_shown_again_reconnects() {
    for kind in KINDS.into_iter().filter(|kind| kind.place == "page") {
        let backend = Backend::start();
        backend.reply_with(|_| BackendReply::json(json!({"data": 1})).delayed_by(Duration::from_secs(2)));
        let server = RunningServer::with(&[&format!("backend.call={}", backend.url("/call"))]);
        let (mut client, hello) =
            kind.start_subscribed(&server, server.public, &["news"], &json!({"persist": "none"}));
        server.admin.publish_each("news", 1..=2);
        client.await_object("message", 2);
        client.send_command(&json!({"ask": ["call", "pay", 100]}));
        until("the backend is called", || backend.requests().len() == 1);
        client.send_command(&json!({"fire": "pagehide"}));
        assert_eq!(client.await_value("failed", 1)["code"], "outcome_unknown", "{kind:?}");
        server.await_removal(session_id(&hello));
        server.admin.publish_each("news", 3..=4);
        client.send_command(&json!({"fire": "pageshow"}));
        await_open(&client, 2);
        server.admin.publish("news", 5);
        assert_news(&client, 5);
        assert_eq!(client.count("gap"), 0, "{kind:?}");
        assert_eq!(backend.requests().len(), 1, "{kind:?}");
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

/// An unanswered publish is repeated only in the same session: another session would not recognise it as a
/// duplicate.
#[test]
fn pending_commands_are_repeated_or_fail_with_unknown_outcome() {
    for kind in KINDS_WITH_ONE_PAGE {
        let server = RunningServer::with(&["session.reconnect_window=2s"]);
        let relay = Relay::new(server.public, || Fate::Intact);
        let (mut client, hello) =
            kind.start_subscribed(&server, relay.address, &["news"], &json!({"hello_ms": 3_000}));
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
        server.admin.publish("news", 2);
        client.await_object("message", 1);
        assert_eq!(data(&client, "news"), [2], "{kind:?}");
    }
}
