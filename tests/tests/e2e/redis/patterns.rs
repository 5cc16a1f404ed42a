use std::collections::BTreeMap;

use encke_tests::Client;
use encke_tests::bayeux::{BayeuxPolling, connect_now, events};
use encke_tests::redis::Redis;
use encke_tests::waiting::until;
use redis::Connection;
use serde_json::{Value, json};

use super::{launch, node};

/// Globs that Redis compares with each publish.
fn globs(connection: &mut Connection) -> u64 {
    redis::cmd("PUBSUB").arg("NUMPAT").query(connection).expect("a number")
}

#[track_caller]
fn message(client: &mut Client) -> Value {
    let object = client.object();
    assert!(object["message"].is_object(), "{object}");
    object["message"].clone()
}

/// The next object is a gap of unknown length. Returns its epoch.
#[track_caller]
fn gap(client: &mut Client, channel: &str) -> Value {
    let object = client.object();
    let gap = &object["gap"];
    assert_eq!((&gap["channel"], gap.get("from")), (&json!(channel), None), "{object}");
    gap["epoch"].clone()
}

/// Redis tells all its databases what is published in one of them.
#[test]
fn nothing_is_heard_of_another_database() {
    let redis = Redis::start();
    let here = launch(&redis).set("engine.database=1").start();
    let mut client = here.client();
    client.subscribe("/a/*");
    node(&redis).admin.publish("/a/b", "of another");
    here.admin.publish("/a/b", "of this one");
    assert_eq!(message(&mut client)["data"], "of this one");
}

#[test]
fn what_matches_is_heard_wherever_it_was_published() {
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
        assert_eq!(message(&mut client), expected);
    }
    for at in [1, 3] {
        assert_eq!(message(&mut shallow)["channel"], published[at].0);
    }
    let mut heard = Vec::new();
    until("both came, once", || {
        heard.extend(events(&polls.request(&connect_now(&id))));
        heard.len() >= 2
    });
    nodes[0].admin.publish("/a/z", "last");
    until("the last came", || {
        heard.extend(events(&polls.request(&connect_now(&id))));
        heard.last().is_some_and(|data| data == "last")
    });
    assert_eq!(heard, ["/a/b", "/a/d", "last"]);
    // The history is this server's, and so is the epoch: another knows nothing of it.
    let history = nodes[0].admin.get("/api/channels/%2Fa%2F**/history").json();
    assert_eq!((&history["epoch"], &history["last"]), (&json!(epoch), &json!(4)));
    let since = json!({"id": 1, "subscribe": {"channel": "/a/**", "since": {"epoch": epoch, "offset": 1}}});
    assert_eq!(nodes[0].client().request(&since.to_string())["ok"]["recovered"], true);
    let mut elsewhere = nodes[1].client();
    assert_eq!(elsewhere.request(&since.to_string())["ok"]["recovered"], false);
    gap(&mut elsewhere, "/a/**");
}

/// Channels are opened, let go of and opened again amid what comes by the pattern.
#[test]
fn a_message_comes_once_by_a_pattern_and_its_channel() {
    const CHANNELS: u64 = 8;
    const MESSAGES: u64 = 4000;
    let redis = Redis::start();
    let wide = |redis| {
        launch(redis)
            .set("limits.commands_per_second=0")
            .set("limits.frames_per_second=0")
            .set("channel.history_messages=5000")
            .start()
    };
    let nodes = [wide(&redis), wide(&redis)];
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
    let (mut last, mut heard, mut replies) = (BTreeMap::<String, u64>::new(), 0, 0);
    while heard < MESSAGES {
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
        heard += 1;
        assert_eq!(message["seq"], heard, "{object}");
        if heard % 50 == 0 {
            let number = heard / 50;
            let channel = format!("/a/{}", number % CHANNELS);
            let what = if (number / CHANNELS).is_multiple_of(2) { "subscribe" } else { "unsubscribe" };
            client.send(&json!({"id": number, what: {"channel": channel}}).to_string());
        }
    }
    drop(publishing.join().expect("all were sent"));
    while replies < MESSAGES / 50 {
        assert!(client.object()["reply"]["ok"].is_object(), "nothing else comes");
        replies += 1;
    }
}

#[test]
fn what_may_have_been_missed_is_one_gap() {
    let mut redis = Redis::start();
    let node = node(&redis);
    let [mut client, mut of_channel] = [node.client(), node.client()];
    let epoch = client.subscribe("/a/*");
    of_channel.subscribe("/a/b");
    node.admin.publish("/a/b", 1);
    assert_eq!(message(&mut client)["data"], 1);
    // The connection for what is followed goes away, and no more than that.
    let mut connection = redis.connect();
    redis::cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]).exec(&mut connection).expect("killed");
    let next = gap(&mut client, "/a/*");
    assert_ne!(next, json!(epoch));
    node.admin.publish("/a/b", 2);
    let heard = message(&mut client);
    assert_eq!((&heard["data"], &heard["offset"]), (&json!(2), &json!(2)));
    assert_eq!(heard["pattern"], json!({"name": "/a/*", "epoch": next, "offset": 1}));
    (1..=2).for_each(|offset| assert_eq!(message(&mut of_channel)["offset"], offset));
    // Redis goes away, with all it had.
    redis.kill();
    until("it is noticed", || node.admin.get("/readyz").status == 503);
    // What is followed already can still be followed; what is not, cannot.
    let mut late = node.client();
    assert_eq!(late.subscribe("/a/*"), next);
    let reply = late.request(r#"{"id":1,"subscribe":{"channel":"/b/*"}}"#);
    assert_eq!(reply["error"]["code"], "unavailable", "{reply}");
    redis.restart();
    for client in [&mut client, &mut late] {
        gap(client, "/a/*");
    }
    node.admin.publish("/a/c", 3);
    for client in [&mut client, &mut late] {
        assert_eq!(message(client)["data"], 3);
    }
}

/// Who follows the channel as well misses nothing; who follows only the pattern is told.
#[test]
fn connections_that_break_lose_nothing_without_a_gap() {
    const MESSAGES: u64 = 300;
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let [mut of_pattern, mut of_both] = [nodes[0].client(), nodes[0].client()];
    of_pattern.subscribe("/a/**");
    of_both.subscribe("/a/**");
    of_both.subscribe("/a/b");
    let mut connection = redis.connect();
    for number in 1..=MESSAGES {
        if number % 50 == 0 {
            redis::cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]).exec(&mut connection).expect("killed");
        }
        let body = json!({"channel": "/a/b", "data": number}).to_string();
        // Both its connections end together.
        until("it is published", || nodes[1].admin.post("/api/publish", &body).status == 200);
    }
    for (client, follows_both) in [(&mut of_pattern, false), (&mut of_both, true)] {
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
            let may_skip = is_missing && !follows_both;
            assert!(next == offset + 1 || (may_skip && next > offset), "{object} after {offset}");
            (offset, is_missing) = (next, false);
            number = object["message"]["data"].as_u64().expect("a number");
        }
        assert!((1..=MESSAGES / 50).contains(&gaps), "{gaps}");
    }
}

#[test]
fn what_is_published_while_redis_stands_still_is_no_gap() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let mut client = nodes[0].client();
    let epoch = client.subscribe("/a/*");
    redis.process().while_stopped(|| {
        let body = r#"{"channel":"/a/b","data":1}"#;
        let answer = nodes[1].admin.post("/api/publish", body);
        assert!(answer.status == 200 || answer.error_code() == "outcome_unknown", "{answer:?}");
    });
    let heard = message(&mut client);
    assert_eq!(heard["pattern"], json!({"name": "/a/*", "epoch": epoch, "offset": 1}));
}

#[test]
fn names_are_no_globs() {
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
        assert_eq!(message(&mut client)["channel"], channel);
    }
}

#[test]
fn redis_compares_no_more_than_so_many_globs() {
    let redis = Redis::start();
    let nodes = [launch(&redis).set("limits.commands_per_second=0").start(), node(&redis)];
    let mut client = nodes[0].client();
    for number in 0..70 {
        client.subscribe(&format!("/{number}/*"));
    }
    let mut connection = redis.connect();
    assert_eq!(globs(&mut connection), 65);
    nodes[1].admin.publish("/other/a", 0);
    for number in [0, 63, 64, 69] {
        nodes[1].admin.publish(&format!("/{number}/a"), number);
        assert_eq!(message(&mut client)["data"], number);
    }
    redis::cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]).exec(&mut connection).expect("killed");
    let mut names: Vec<_> = (0..70).map(|_| client.object()["gap"]["channel"].to_string()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 70);
    assert_eq!(globs(&mut connection), 65);
    // The other server was cut, too.
    let body = r#"{"channel":"/69/a","data":1}"#;
    until("it is published", || nodes[1].admin.post("/api/publish", body).status == 200);
    assert_eq!(message(&mut client)["data"], 1);
}

#[test]
fn where_redis_does_not_allow_it_a_pattern_is_unavailable() {
    let redis = Redis::start();
    let mut connection = redis.connect();
    let only_feeds = ["SETUSER", "default", "resetchannels", "&encke:*"];
    redis::cmd("ACL").arg(&only_feeds).exec(&mut connection).expect("set");
    let node = node(&redis);
    let mut client = node.client();
    let reply = client.request(r#"{"id":1,"subscribe":{"channel":"/a/*"}}"#);
    assert_eq!(reply["error"]["code"], "unavailable", "{reply}");
    client.subscribe("/a/b");
    // All that any pattern can stand for.
    redis::cmd("ACL").arg(&["SETUSER", "default", "&encke:{*}c:/**"]).exec(&mut connection).expect("set");
    client.subscribe("/a/*");
    for (channel, data) in [("/a/b", 1), ("/a/b/c", 2), ("/b", 3), ("/a/d", 4)] {
        node.admin.publish(channel, data);
    }
    for data in [1, 4] {
        assert_eq!(message(&mut client)["data"], data);
    }
}
