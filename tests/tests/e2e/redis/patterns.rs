use std::collections::BTreeMap;

use encke_tests::Client;
use encke_tests::bayeux::{BayeuxPolling, connect_now, events};
use encke_tests::redis::Redis;
use encke_tests::waiting::until;
use redis::Connection;
use serde_json::{Value, json};

use super::{launch, node};

/// Returns the number of globs that Redis matches against each publish.
fn glob_count(connection: &mut Connection) -> u64 {
    redis::cmd("PUBSUB").arg("NUMPAT").query(connection).expect("a number")
}

#[track_caller]
fn next_message(client: &mut Client) -> Value {
    let object = client.object();
    assert!(object["message"].is_object(), "{object}");
    object["message"].clone()
}

/// Asserts that the next object is a gap of unknown length. Returns the gap's epoch.
#[track_caller]
fn next_gap(client: &mut Client, channel: &str) -> Value {
    let object = client.object();
    let gap = &object["gap"];
    assert_eq!((&gap["channel"], gap.get("from")), (&json!(channel), None), "{object}");
    gap["epoch"].clone()
}

/// Redis's publish/subscribe does not distinguish databases.
#[test]
fn messages_of_another_database_are_ignored() {
    let redis = Redis::start();
    let server = launch(&redis).set("engine.database=1").start();
    let mut client = server.client();
    client.subscribe("/a/*");
    node(&redis).admin.publish("/a/b", "other database");
    server.admin.publish("/a/b", "this database");
    assert_eq!(next_message(&mut client)["data"], "this database");
}

#[test]
fn matching_messages_arrive_from_all_servers() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let mut client = nodes[0].client();
    let epoch = client.subscribe("/a/**");
    let (mut shallow, mut polls) = (nodes[1].client(), BayeuxPolling::connect(nodes[1].public));
    shallow.subscribe("/a/*");
    let id = polls.open(&["/a/*", "/a/b"]);
    let published = ["/b", "/a/b", "/a/b/c", "/a/d", "a/e"]
        .map(|channel| (channel, nodes[1].admin.publish(channel, channel)));
    for (number, at) in [(1, 1), (2, 2), (3, 3)] {
        let (channel, reply) = &published[at];
        let expected = json!({
            "seq": number, "pattern": {"name": "/a/**", "epoch": epoch, "offset": number},
            "epoch": reply["epoch"], "channel": channel, "offset": reply["offset"], "data": channel,
        });
        assert_eq!(next_message(&mut client), expected);
    }
    for at in [1, 3] {
        assert_eq!(next_message(&mut shallow)["channel"], published[at].0);
    }
    let mut received = Vec::new();
    until("both messages arrive", || {
        received.extend(events(&polls.request(&connect_now(&id))));
        received.len() >= 2
    });
    nodes[0].admin.publish("/a/z", "last");
    until("the last message arrives", || {
        received.extend(events(&polls.request(&connect_now(&id))));
        received.last().is_some_and(|data| data == "last")
    });
    assert_eq!(received, ["/a/b", "/a/d", "last"]);
    // The history and epoch of a pattern are local to the server. Another server does not know the epoch.
    let history = nodes[0].admin.get("/api/channels/%2Fa%2F**/history").json();
    assert_eq!((&history["epoch"], &history["last"]), (&json!(epoch), &json!(4)));
    let since = json!({"id": 1, "subscribe": {"channel": "/a/**", "since": {"epoch": epoch, "offset": 1}}});
    assert_eq!(nodes[0].client().request(&since.to_string())["ok"]["recovered"], true);
    let mut on_other = nodes[1].client();
    assert_eq!(on_other.request(&since.to_string())["ok"]["recovered"], false);
    next_gap(&mut on_other, "/a/**");
}

/// Channels are repeatedly subscribed to and unsubscribed from while messages arrive through the pattern.
#[test]
fn a_message_arrives_once_by_pattern_and_channel() {
    const CHANNELS: u64 = 8;
    const MESSAGES: u64 = 4000;
    let redis = Redis::start();
    let launch_without_limits = |redis| {
        launch(redis)
            .set("limits.commands_per_second=0")
            .set("limits.frames_per_second=0")
            .set("channel.history_messages=5000")
            .start()
    };
    let nodes = [launch_without_limits(&redis), launch_without_limits(&redis)];
    let mut client = nodes[0].client();
    client.subscribe("/a/**");
    let mut publisher = nodes[1].client();
    let publishing = std::thread::spawn(move || {
        for number in 0..MESSAGES {
            let channel = format!("/a/{}", number % CHANNELS);
            publisher.send(&json!({"publish": {"channel": channel, "data": number}}).to_string());
        }
        publisher
    });
    let (mut last, mut received, mut replies) = (BTreeMap::<String, u64>::new(), 0, 0);
    while received < MESSAGES {
        let object = client.object();
        if object["reply"].is_object() {
            assert!(object["reply"]["ok"].is_object(), "{object}");
            replies += 1;
            continue;
        }
        let message = &object["message"];
        let channel = message["channel"].as_str().unwrap_or_else(|| panic!("{object}")).to_owned();
        let last = last.entry(channel).or_default();
        assert_eq!(message["offset"], *last + 1, "{object}");
        *last += 1;
        received += 1;
        assert_eq!(message["seq"], received, "{object}");
        if received % 50 == 0 {
            let number = received / 50;
            let channel = format!("/a/{}", number % CHANNELS);
            let command = if (number / CHANNELS).is_multiple_of(2) { "subscribe" } else { "unsubscribe" };
            client.send(&json!({"id": number, command: {"channel": channel}}).to_string());
        }
    }
    drop(publishing.join().expect("the publisher does not panic"));
    while replies < MESSAGES / 50 {
        assert!(client.object()["reply"]["ok"].is_object(), "only replies remain");
        replies += 1;
    }
}

#[test]
fn possible_loss_is_reported_as_one_gap() {
    let mut redis = Redis::start();
    let node = node(&redis);
    let [mut client, mut channel_client] = [node.client(), node.client()];
    let epoch = client.subscribe("/a/*");
    channel_client.subscribe("/a/b");
    node.admin.publish("/a/b", 1);
    assert_eq!(next_message(&mut client)["data"], 1);
    // Close only the connection that receives the feeds.
    let mut connection = redis.connect();
    redis::cmd("CLIENT")
        .arg(&["KILL", "TYPE", "pubsub"])
        .exec(&mut connection)
        .expect("the connections are killed");
    let next = next_gap(&mut client, "/a/*");
    assert_ne!(next, json!(epoch));
    node.admin.publish("/a/b", 2);
    let received = next_message(&mut client);
    assert_eq!((&received["data"], &received["offset"]), (&json!(2), &json!(2)));
    assert_eq!(received["pattern"], json!({"name": "/a/*", "epoch": next, "offset": 1}));
    (1..=2).for_each(|offset| assert_eq!(next_message(&mut channel_client)["offset"], offset));
    // Kill Redis, which loses its data.
    redis.kill();
    until("the server notices the failure", || node.admin.get("/readyz").status == 503);
    // Clients can still subscribe to patterns that have subscribers on this server. Other patterns cannot be
    // opened.
    let mut late = node.client();
    assert_eq!(late.subscribe("/a/*"), next);
    let reply = late.request(r#"{"id":1,"subscribe":{"channel":"/b/*"}}"#);
    assert_eq!(reply["error"]["code"], "unavailable", "{reply}");
    redis.restart();
    for client in [&mut client, &mut late] {
        next_gap(client, "/a/*");
    }
    node.admin.publish("/a/c", 3);
    for client in [&mut client, &mut late] {
        assert_eq!(next_message(client)["data"], 3);
    }
}

/// A client that is also subscribed to the channel misses nothing. A client with only the pattern gets a gap.
#[test]
fn broken_connections_lose_nothing_without_a_gap() {
    const MESSAGES: u64 = 300;
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let [mut pattern_client, mut client_of_both] = [nodes[0].client(), nodes[0].client()];
    pattern_client.subscribe("/a/**");
    client_of_both.subscribe("/a/**");
    client_of_both.subscribe("/a/b");
    let mut connection = redis.connect();
    for number in 1..=MESSAGES {
        if number % 50 == 0 {
            redis::cmd("CLIENT")
                .arg(&["KILL", "TYPE", "pubsub"])
                .exec(&mut connection)
                .expect("the connections are killed");
        }
        let body = json!({"channel": "/a/b", "data": number}).to_string();
        // A server always closes both of its Redis connections together.
        until("the message is published", || nodes[1].admin.post("/api/publish", &body).status == 200);
    }
    for (client, has_both) in [(&mut pattern_client, false), (&mut client_of_both, true)] {
        let (mut offset, mut gaps, mut is_missing) = (0, 0, false);
        let mut number = 0;
        while number < MESSAGES {
            let object = client.object();
            if object["gap"].is_object() {
                assert_eq!(object["gap"]["channel"], "/a/**", "{object}");
                (gaps, is_missing) = (gaps + 1, true);
                continue;
            }
            let next = object["message"]["offset"].as_u64().unwrap_or_else(|| panic!("{object}"));
            let may_skip = is_missing && !has_both;
            assert!(next == offset + 1 || (may_skip && next > offset), "{object} after {offset}");
            (offset, is_missing) = (next, false);
            number = object["message"]["data"].as_u64().expect("a number");
        }
        assert!((1..=MESSAGES / 50).contains(&gaps), "{gaps}");
    }
}

#[test]
fn a_frozen_redis_causes_no_gap() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let mut client = nodes[0].client();
    let epoch = client.subscribe("/a/*");
    redis.process().while_stopped(|| {
        let body = r#"{"channel":"/a/b","data":1}"#;
        let answer = nodes[1].admin.post("/api/publish", body);
        assert!(answer.status == 200 || answer.error_code() == "outcome_unknown", "{answer:?}");
    });
    let received = next_message(&mut client);
    assert_eq!(received["pattern"], json!({"name": "/a/*", "epoch": epoch, "offset": 1}));
}

#[test]
fn glob_characters_in_names_are_literal() {
    let redis = Redis::start();
    let node = node(&redis);
    let mut client = node.client();
    for pattern in ["/a[bc]/*", "/x?/**", "/\\\\d/*"] {
        client.subscribe(pattern);
    }
    for other in ["/ab/1", "/xy/1", "/d/1", "/a[bc]/1/2", "}c:/a[bc]/1", "/z}c:/x?/1"] {
        node.admin.publish(other, 0);
    }
    for channel in ["/a[bc]/1", "/x?/1/2", "/\\d/}c:"] {
        node.admin.publish(channel, 1);
        assert_eq!(next_message(&mut client)["channel"], channel);
    }
}

#[test]
fn the_number_of_globs_is_limited() {
    let redis = Redis::start();
    let nodes = [launch(&redis).set("limits.commands_per_second=0").start(), node(&redis)];
    let mut client = nodes[0].client();
    for number in 0..70 {
        client.subscribe(&format!("/{number}/*"));
    }
    let mut connection = redis.connect();
    assert_eq!(glob_count(&mut connection), 65);
    nodes[1].admin.publish("/other/a", 0);
    for number in [0, 63, 64, 69] {
        nodes[1].admin.publish(&format!("/{number}/a"), number);
        assert_eq!(next_message(&mut client)["data"], number);
    }
    redis::cmd("CLIENT")
        .arg(&["KILL", "TYPE", "pubsub"])
        .exec(&mut connection)
        .expect("the connections are killed");
    let mut names: Vec<_> = (0..70).map(|_| client.object()["gap"]["channel"].to_string()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 70);
    assert_eq!(glob_count(&mut connection), 65);
    // The other server's connection was killed as well.
    let body = r#"{"channel":"/69/a","data":1}"#;
    until("the message is published", || nodes[1].admin.post("/api/publish", body).status == 200);
    assert_eq!(next_message(&mut client)["data"], 1);
}

#[test]
fn patterns_without_permission_are_unavailable() {
    let redis = Redis::start();
    let mut connection = redis.connect();
    let only_feeds = ["SETUSER", "default", "resetchannels", "&encke:*"];
    redis::cmd("ACL").arg(&only_feeds).exec(&mut connection).expect("the rule is accepted");
    let node = node(&redis);
    let mut client = node.client();
    let reply = client.request(r#"{"id":1,"subscribe":{"channel":"/a/*"}}"#);
    assert_eq!(reply["error"]["code"], "unavailable", "{reply}");
    client.subscribe("/a/b");
    // Allow the widest glob, which covers all patterns.
    redis::cmd("ACL")
        .arg(&["SETUSER", "default", "&encke:{*}c:/**"])
        .exec(&mut connection)
        .expect("the rule is accepted");
    client.subscribe("/a/*");
    for (channel, data) in [("/a/b", 1), ("/a/b/c", 2), ("/b", 3), ("/a/d", 4)] {
        node.admin.publish(channel, data);
    }
    for data in [1, 4] {
        assert_eq!(next_message(&mut client)["data"], data);
    }
}
