use std::collections::BTreeMap;

use encke_tests::tokens::token;
use encke_tests::{PollClient, RunningServer};
use serde_json::{Value, json};

/// Reads a page of a channel's history, given a function that sends a command and returns the reply.
#[track_caller]
pub(crate) fn page(mut request: impl FnMut(Value) -> Value, channel: &str, mut fields: Value) -> Value {
    fields["channel"] = channel.into();
    let mut reply = request(json!({"id": 1, "history": fields}));
    assert!(reply["ok"]["messages"].is_array(), "{reply}");
    reply["ok"].take()
}

#[track_caller]
pub(crate) fn offsets(page: &Value) -> Vec<u64> {
    let messages = page["messages"].as_array().expect("messages").iter();
    messages.map(|message| message["offset"].as_u64().expect("a number")).collect()
}

/// Reads a whole history from its end to its beginning. Returns the data of each message, by offset.
#[track_caller]
pub(crate) fn read_backwards(
    mut request: impl FnMut(Value) -> Value,
    channel: &str,
    limit: u64,
) -> BTreeMap<u64, Value> {
    let mut read = BTreeMap::new();
    let mut fields = json!({"limit": limit});
    loop {
        let page = page(&mut request, channel, fields);
        let messages = page["messages"].as_array().expect("messages");
        assert!(messages.is_sorted_by_key(|message| message["offset"].as_u64()), "{page}");
        for message in messages {
            let offset = message["offset"].as_u64().expect("a number");
            assert!(read.insert(offset, message["data"].clone()).is_none(), "{offset} is repeated");
        }
        if page["more"] == false {
            return read;
        }
        let (before, _) = read.first_key_value().expect("a message");
        fields = json!({"limit": limit, "before": before, "epoch": page["epoch"]});
    }
}

/// Sends commands with POST requests, as clients of all transports can.
fn posting(server: &RunningServer) -> impl FnMut(Value) -> Value {
    let mut requests = PollClient::connect(server.public);
    let hello = crate::poll::open(server, "other").1;
    move |command| requests.post(&format!("resume={}", hello.resume), command).ok()[0]["reply"].take()
}

#[test]
fn a_whole_history_is_read_backwards() {
    let server = RunningServer::with(&["limits.commands_per_second=0", "limits.frames_per_second=0"]);
    server.admin.publish_each("news", 1..=200);
    let all: BTreeMap<u64, Value> = (1..=200).map(|number| (number, json!(number))).collect();
    let mut client = server.client();
    for limit in [7, 50, 200, 256] {
        assert_eq!(read_backwards(|command| client.request(command), "news", limit), all, "{limit}");
        assert_eq!(read_backwards(posting(&server), "news", limit), all, "{limit}");
    }
    let after = page(|command| client.request(command), "news", json!({"since": 10, "limit": 3}));
    assert_eq!((offsets(&after), &after["more"]), (vec![11, 12, 13], &json!(true)));
    let after = page(|command| client.request(command), "news", json!({"since": 190}));
    assert_eq!((offsets(&after), &after["more"]), ((191..=200).collect(), &json!(false)));
    let absent = page(|command| client.request(command), "absent", json!({}));
    assert_eq!(absent, json!({"messages": [], "more": false}));
    assert_eq!(server.admin.get("/api/channels/absent").status, 404, "reading does not create a channel");
    client.assert_refused(r#"{"id":1,"history":{"channel":"news","limit":257}}"#, "malformed");
    client.assert_refused(r#"{"id":1,"history":{"channel":"$user"}}"#, "bad_channel");
}

/// Large messages make a page shorter, but no message is skipped.
#[test]
fn a_page_is_limited_in_bytes() {
    const BYTES: usize = 30_000;
    let server = RunningServer::with(&["limits.commands_per_second=0"]);
    let publish = |bytes: usize| server.admin.publish("news", "x".repeat(bytes));
    (0..10).for_each(|_| drop(publish(BYTES)));
    publish(60_000);
    let mut client = server.client();
    let newest = page(|command| client.request(command), "news", json!({}));
    assert_eq!((offsets(&newest), &newest["more"]), (vec![11], &json!(true)));
    let before = page(|command| client.request(command), "news", json!({"before": 11}));
    assert_eq!((offsets(&before), &before["more"]), (vec![9, 10], &json!(true)));
    let since = page(|command| client.request(command), "news", json!({"since": 8}));
    assert_eq!((offsets(&since), &since["more"]), (vec![9, 10], &json!(true)));
    assert_eq!(read_backwards(|command| client.request(command), "news", 256).len(), 11);
}

/// A client reads the same fields that a subscriber receives.
#[test]
fn messages_have_the_fields_of_delivered_ones() {
    let rules = "namespace=[{prefix='/at/', at_ms=true}, {prefix='/room/', join_leave=true}]";
    let server = RunningServer::with_tokens(&[rules]);
    let mut subscriber = server.client_of("bob");
    let pattern_epoch = subscriber.subscribe("/at/*");
    subscriber.subscribe("/room/a");
    assert!(subscriber.object()["message"]["joined"].is_object());
    let mut alice = server.client_of("alice");
    for channel in ["/at/a", "/room/a", "/at/b"] {
        alice.publish(channel, [1]);
    }
    // These fields belong to the delivery.
    let without = |message: &Value, names: &[&str]| {
        let mut fields = message.as_object().expect("an object").clone();
        fields.retain(|name, _| !names.contains(&&**name));
        Value::Object(fields)
    };
    let delivered: Vec<Value> = (0..3).map(|_| subscriber.object()["message"].take()).collect();
    let mut read = |channel: &str| {
        let mut page = page(|command| alice.request(command), channel, json!({}));
        (page["messages"].take(), page["epoch"].take())
    };
    let channel_fields = ["seq", "channel", "epoch", "pattern"];
    let (messages, epoch) = read("/at/a");
    assert!(delivered[0]["at_ms"].is_u64() && delivered[0]["user"] == "alice", "{delivered:?}");
    assert_eq!(messages, json!([without(&delivered[0], &channel_fields)]));
    assert_eq!(epoch, delivered[0]["epoch"]);
    let (messages, _) = read("/room/a");
    assert_eq!(messages, json!([without(&delivered[1], &channel_fields)]), "joins are left out");
    let (messages, epoch) = read("/at/*");
    let expected = [&delivered[0], &delivered[2]].map(|message| {
        let mut expected = without(message, &channel_fields);
        expected["offset"] = message["pattern"]["offset"].clone();
        expected["channel"] = message["channel"].clone();
        expected["channel_epoch"] = message["epoch"].clone();
        expected["channel_offset"] = message["offset"].clone();
        expected
    });
    assert_eq!((messages, epoch), (json!(expected), json!(pattern_epoch)));
}

/// Visitors who come and go do not hide the messages.
#[test]
fn joins_and_leaves_do_not_count() {
    let rules = "namespace=[{prefix='room', join_leave=true}]";
    let server = RunningServer::with(&[rules, "limits.joins_per_minute=0"]);
    assert_notices_are_left_out(&server);
}

/// Asserts that pages have only the messages of a channel with joins and leaves.
#[track_caller]
pub(crate) fn assert_notices_are_left_out(server: &RunningServer) {
    let mut watcher = server.client();
    watcher.subscribe("room");
    assert!(watcher.object()["message"]["joined"].is_object());
    for number in 1..=3 {
        server.admin.publish("room", number);
        assert_eq!(watcher.object()["message"]["data"], number);
        for _ in 0..20 {
            let mut visitor = server.client();
            visitor.subscribe("room");
            assert!(watcher.object()["message"]["joined"].is_object());
            visitor.close();
            assert!(watcher.object()["message"]["left"].is_object());
        }
    }
    let mut client = server.client();
    // Each visit takes two offsets.
    let pages = [
        (json!({"limit": 2}), vec![43, 84], true),
        (json!({"limit": 2, "before": 43}), vec![2], true),
        (json!({"before": 2}), vec![], false),
        (json!({"limit": 2, "since": 0}), vec![2, 43], true),
        (json!({"since": 43}), vec![84], true),
        (json!({"since": 84}), vec![], false),
    ];
    for (fields, expected, has_more) in pages {
        let page = page(|command| client.request(command), "room", fields.clone());
        assert_eq!((offsets(&page), &page["more"]), (expected, &json!(has_more)), "{fields}");
    }
}

/// A permission to subscribe does not include the history of the channel.
#[test]
fn a_token_must_permit_the_history() {
    let server = RunningServer::with_tokens(&[]);
    server.admin.publish("news", 1);
    let history = r#"{"id":1,"history":{"channel":"news"}}"#;
    for (permissions, is_allowed) in
        [(json!(["subscribe", "publish", "presence"]), false), (json!(["history"]), true)]
    {
        let mut client = server.client_with(&token("alice", json!({"channels": {"news": permissions}})));
        if is_allowed {
            assert_eq!(client.request(history)["ok"]["messages"][0]["data"], 1);
            client.assert_refused(r#"{"id":1,"subscribe":{"channel":"news"}}"#, "forbidden");
        } else {
            client.assert_refused(history, "forbidden");
        }
    }
}

/// A page costs as much as a subscription with as many messages.
#[test]
fn a_history_counts_as_several_commands() {
    let server = RunningServer::with(&["limits.commands_per_second=10"]);
    let mut client = server.client();
    for limit in [50, 256] {
        page(|command| client.request(command), "news", json!({"limit": limit}));
    }
    client.assert_refused(r#"{"id":1,"history":{"channel":"news","limit":256}}"#, "rate_limited");
}
