use std::collections::BTreeSet;
use std::time::Duration;

use encke_tests::process::Signal;
use encke_tests::redis::Redis;
use encke_tests::tokens::SECRET;
use encke_tests::waiting::{eventually, eventually_within, until};
use encke_tests::{Client, RunningServer};
use serde_json::{Value, json};

use super::{await_connected, exec, launch, node, query, try_subscribe};

/// How long a killed server may remain listed: the duration of a lease, plus the interval between checks.
const LEASE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long Redis subscriptions may remain: 30 s, plus the interval between checks.
const LINGER_TIMEOUT: Duration = Duration::from_secs(60);

#[track_caller]
fn server_name(node: &RunningServer) -> String {
    let line = node.logs.await_line("connected to Redis");
    let line: Value = serde_json::from_str(&line).expect("JSON");
    line["server"].as_str().expect("a name").to_owned()
}

/// Returns the number of sessions, and the servers that have not replied.
#[track_caller]
fn total_and_missing(node: &RunningServer) -> (Value, Value) {
    let mut presence = node.admin.get("/api/channels/news/presence").json();
    (presence["total"].take(), presence["incomplete"].take())
}

/// Waits for this total with these missing servers. The query is repeated, because a busy server may reply
/// too late and be listed as missing.
#[track_caller]
fn await_total(node: &RunningServer, total: u64, missing: &Value) {
    until("all running servers answer", || total_and_missing(node) == (json!(total), missing.clone()));
}

/// Returns the reply to a client once it lists exactly these missing servers.
#[track_caller]
fn reply(client: &mut Client, missing: &Value) -> Value {
    eventually("all running servers answer", || {
        let mut reply = client.request(r#"{"id":1,"presence":{"channel":"news"}}"#);
        (reply["ok"]["incomplete"] == *missing).then(|| reply["ok"].take())
    })
}

fn subscriber(mut client: Client) -> Client {
    client.subscribe("news");
    client
}

/// Sorts a list by its text.
fn sorted(list: &Value) -> Vec<Value> {
    let mut list = list.as_array().expect("a list").clone();
    list.sort_by_key(ToString::to_string);
    list
}

#[test]
fn presence_covers_all_servers() {
    let redis = Redis::start();
    let nodes = [(); 3].map(|()| launch(&redis).set(&format!("auth.secret={SECRET}")).start());
    let connect = |node: usize, user: &str| subscriber(nodes[node].client_of(user));
    let (mut alice, others) = (connect(0, "alice"), [connect(1, "alice"), connect(1, "bob")]);
    let suspended = nodes[0].suspend(connect(0, "alice"));
    // Stray messages are ignored.
    let answers = format!("encke:answers:{}", server_name(&nodes[0]));
    let stray_query = r#"{"id":1,"server":"n_x","channel":"no such","from":9,"limit":1000}"#;
    for stray in ["", "x", "{}", "[1,2]", stray_query, &"[".repeat(10_000)] {
        for feed in ["encke:questions", &answers] {
            exec(&mut redis.connect(), &["PUBLISH", feed, stray]);
        }
    }

    let entry = |session: &str, user: &str, phase: &str| {
        json!({"session": session, "user": user, "phase": phase}).to_string()
    };
    let [other, bob] = others.each_ref().map(|client| &*client.hello.session);
    let expected = BTreeSet::from([
        entry(&alice.hello.session, "alice", "attached"),
        entry(&suspended.session, "alice", "suspended"),
        entry(other, "alice", "attached"),
        entry(bob, "bob", "attached"),
    ]);
    for node in &nodes {
        let (mut seen, mut cursor) = (BTreeSet::new(), json!(0));
        while !cursor.is_null() {
            let path = format!("/api/channels/news/presence?limit=2&cursor={cursor}");
            let page = eventually("all servers answer", || {
                let page = node.admin.get(&path).json();
                page.get("incomplete").is_none().then_some(page)
            });
            assert_eq!(page["total"], 4, "{page}");
            let present = page["present"].as_array().expect("a list");
            assert!(present.iter().all(|member| seen.insert(member.to_string())), "{page}");
            cursor = page["next_cursor"].clone();
        }
        assert_eq!(seen, expected);
    }
    let reply = reply(&mut alice, &Value::Null);
    let present = |user: &str, phase: &str| json!({"user": user, "phase": phase});
    let [attached, suspended] = ["attached", "suspended"].map(|phase| present("alice", phase));
    let expected = [attached.clone(), attached, present("bob", "attached"), suspended];
    assert_eq!(sorted(&reply["present"]), sorted(&json!(expected)));
    let users = json!([
        {"user": "alice", "sessions": 3, "connections": 2},
        {"user": "bob", "sessions": 1, "connections": 1},
    ]);
    assert_eq!(sorted(&reply["users"]), sorted(&users));
    assert_eq!((&reply["channel"], &reply["total"]), (&json!("news"), &json!(4)));
}

#[test]
fn stopped_servers_are_missing_until_they_answer_or_their_leases_expire() {
    let mut redis = Redis::start();
    let (nodes, mut leaving) = ([node(&redis), node(&redis)], node(&redis));
    let mut clients = [&nodes[0], &nodes[1], &leaving].map(|node| subscriber(node.client()));
    let mut connection = redis.connect();
    // The subscriptions in Redis end some time after the last subscriber has left.
    let mut unused = nodes[0].client();
    for channel in ["sports", "/a/*"] {
        unused.subscribe(channel);
    }
    let mut unused_feeds = || -> (usize, u64) {
        let feeds: Vec<String> = query(&mut connection, &["PUBSUB", "CHANNELS", "*}c:sports"]);
        (feeds.len(), query(&mut connection, &["PUBSUB", "NUMPAT"]))
    };
    assert_eq!(unused_feeds(), (1, 1));
    for channel in ["sports", "/a/*"] {
        unused.request(json!({"id": 1, "unsubscribe": {"channel": channel}}));
    }

    await_total(&nodes[0], 3, &Value::Null);
    let other = server_name(&nodes[1]);
    let missing = json!([other]);
    nodes[1].while_stopped(|| {
        await_total(&nodes[0], 2, &missing);
        assert_eq!(reply(&mut clients[0], &missing)["total"], 2);
    });
    await_total(&nodes[0], 3, &Value::Null);
    // A server that shuts down deregisters.
    leaving.stop();
    let registered: BTreeSet<String> = query(&mut redis.connect(), &["ZRANGE", "encke:servers", "0", "-1"]);
    assert_eq!(registered, [server_name(&nodes[0]), other].into());
    await_total(&nodes[0], 2, &Value::Null);
    // A server that is killed does not deregister.
    nodes[1].signal(Signal::KILL);
    await_total(&nodes[0], 1, &missing);
    eventually_within(LEASE_TIMEOUT, "the killed server is not listed any more", || {
        let (total, listed) = total_and_missing(&nodes[0]);
        assert!(listed.is_null() || listed == missing, "{listed}");
        (listed.is_null() && total == 1).then_some(())
    });
    eventually_within(LINGER_TIMEOUT, "the server unsubscribes from the unused feeds", || {
        (unused_feeds() == (0, 0)).then_some(())
    });
    nodes[0].admin.publish("sports", 1);
    assert_eq!(try_subscribe(&mut nodes[0].client(), "sports")["ok"]["offset"], 1);

    // Without the list of servers, all others are missing.
    exec(&mut redis.connect(), &["SET", "encke:servers", "odd"]);
    assert_eq!(total_and_missing(&nodes[0]), (json!(1), json!(["*"])));
    nodes[0].assert_healthy();
    redis.kill();
    await_connected(&nodes[0], false);
    assert_eq!(total_and_missing(&nodes[0]), (json!(1), json!(["*"])));
}
