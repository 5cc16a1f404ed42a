use std::collections::BTreeSet;
use std::time::Duration;

use encke_tests::process::Signal;
use encke_tests::redis::Redis;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::{TIMEOUT, eventually, eventually_within, until};
use encke_tests::{Client, RunningServer};
use serde_json::{Value, json};

use super::{launch, node};

/// A lease, and what is between two looks.
const LEASE: Duration = Duration::from_secs(30);

/// What a server is called.
#[track_caller]
fn name(node: &RunningServer) -> String {
    let line = node.logs.await_line("connected to Redis");
    let line: Value = serde_json::from_str(&line).expect("JSON");
    line["server"].as_str().expect("a name").to_owned()
}

#[track_caller]
fn presence(node: &RunningServer) -> Value {
    node.admin.get("/api/channels/news/presence").json()
}

/// How many there are, and who has not answered.
#[track_caller]
fn total_and_missing(node: &RunningServer) -> (Value, Value) {
    let mut presence = presence(node);
    (presence["total"].take(), presence["incomplete"].take())
}

/// A server that has much to do may answer too late, and is named then. So this looks again until nobody else is.
#[track_caller]
fn await_total(node: &RunningServer, total: u64, missing: &Value) {
    until("all answer that can", || total_and_missing(node) == (json!(total), missing.clone()));
}

/// The reply to a client, once nobody else is missing.
#[track_caller]
fn reply(client: &mut Client, missing: &Value) -> Value {
    eventually("all answer that can", || {
        let reply = client.request(r#"{"id":1,"presence":{"channel":"news"}}"#);
        (reply["ok"]["incomplete"] == *missing).then_some(reply)
    })
}

#[track_caller]
fn followers(nodes: &[&RunningServer]) -> Vec<Client> {
    let follow = |node: &&RunningServer| {
        let mut client = node.client();
        client.subscribe("news");
        client
    };
    nodes.iter().map(follow).collect()
}

#[test]
fn everyone_on_all_servers_is_seen_on_each() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis), node(&redis)];
    let mut clients = followers(&[&nodes[0], &nodes[0], &nodes[1]]);
    let expected: BTreeSet<_> = clients.iter().map(|client| client.hello.session.clone()).collect();
    for node in &nodes {
        let (mut seen, mut cursor) = (BTreeSet::new(), json!(0));
        while !cursor.is_null() {
            let path = format!("/api/channels/news/presence?limit=2&cursor={cursor}");
            let page = eventually("all answer", || {
                let page = node.admin.get(&path).json();
                page.get("incomplete").is_none().then_some(page)
            });
            assert_eq!(page["total"], 3, "{page}");
            for member in page["present"].as_array().expect("a list") {
                assert_eq!((&member["user"], &member["phase"]), (&Value::Null, &json!("attached")));
                let session = member["session"].as_str().expect("an id").to_owned();
                assert!(seen.insert(session), "{page}");
            }
            cursor = page["next_cursor"].clone();
        }
        assert_eq!(seen, expected);
    }
    let reply = reply(&mut clients[2], &Value::Null);
    let attached = json!({"user": null, "phase": "attached"});
    let present = json!([attached, attached, attached]);
    assert_eq!(reply["ok"], json!({"channel": "news", "total": 3, "present": present, "users": []}));
    // A session that may come back is seen, too.
    let gone = clients.remove(0).drop_connection();
    nodes[0].await_phase(&gone.session, "suspended");
    await_total(&nodes[2], 3, &Value::Null);
    until("it is seen", || presence(&nodes[2]).to_string().contains("suspended"));
    until("all are counted", || {
        nodes.iter().all(|node| node.admin.metrics().value("encke_engine_servers") == 3.0)
    });
}

#[test]
fn users_have_their_sessions_on_all_servers() {
    let redis = Redis::start();
    let nodes = [(); 2].map(|()| launch(&redis).set(&format!("auth.secret={SECRET}")).start());
    let follow = |node: &RunningServer, user: &str| {
        let claims = json!({"sub": user, "channels": {"*": ["subscribe", "presence"]}});
        let mut client = Client::connect(node.public, &format!("token={}", sign(&claims, SECRET)));
        client.subscribe("news");
        client
    };
    let mut asks = follow(&nodes[0], "alice");
    let _also = [follow(&nodes[1], "alice"), follow(&nodes[1], "bob")];
    let gone = follow(&nodes[1], "alice").drop_connection();
    nodes[1].await_phase(&gone.session, "suspended");
    let mut users = reply(&mut asks, &Value::Null)["ok"]["users"].take();
    users.as_array_mut().expect("a list").sort_by_key(|user| user["user"].to_string());
    let alice = json!({"user": "alice", "sessions": 3, "connections": 2});
    assert_eq!(users, json!([alice, {"user": "bob", "sessions": 1, "connections": 1}]));
}

#[test]
fn a_server_that_stands_still_is_named() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis), node(&redis)];
    let mut clients = followers(&[&nodes[0], &nodes[1], &nodes[2]]);
    nodes.iter().for_each(|node| await_total(node, 3, &Value::Null));
    let still = json!([name(&nodes[2])]);
    nodes[2].while_stopped(|| {
        await_total(&nodes[0], 2, &still);
        let reply = reply(&mut clients[1], &still);
        assert_eq!(reply["ok"]["total"], 2, "{reply}");
    });
    await_total(&nodes[0], 3, &Value::Null);
}

#[test]
fn a_server_that_is_gone_is_named_for_as_long_as_it_may_be_there() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let mut ends = node(&redis);
    let _clients = followers(&[&nodes[0], &nodes[1], &ends]);
    await_total(&nodes[0], 3, &Value::Null);
    // One that ends says so.
    ends.terminate();
    ends.await_exit(TIMEOUT);
    let mut zrange = redis::cmd("ZRANGE");
    let there: BTreeSet<String> =
        zrange.arg("encke:servers").arg(0).arg(-1).query(&mut redis.connect()).expect("a set");
    assert_eq!(there, nodes.each_ref().map(name).into());
    await_total(&nodes[0], 2, &Value::Null);
    // One that is killed cannot.
    let killed = name(&nodes[1]);
    nodes[1].signal(Signal::KILL);
    await_total(&nodes[0], 1, &json!([killed]));
    eventually_within(LEASE, "nobody waits for it any more", || {
        let (total, missing) = total_and_missing(&nodes[0]);
        assert!(missing.is_null() || missing == json!([killed]), "{missing}");
        (missing.is_null() && total == 1).then_some(())
    });
}

#[test]
fn what_strangers_say_counts_for_nothing() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let _clients = followers(&[&nodes[0], &nodes[1]]);
    let (name, other) = (name(&nodes[0]), name(&nodes[1]));
    let mut connection = redis.connect();
    let mut publish = |feed: &str, text: &str| {
        redis::cmd("PUBLISH").arg(feed).arg(text).exec(&mut connection).expect("it is published");
    };
    let answers = format!("encke:answers:{name}");
    for stray in ["", "x", "{}", "[1,2]", &"[".repeat(10_000)] {
        publish("encke:questions", stray);
        publish(&answers, stray);
    }
    publish("encke:questions", r#"{"id":1,"server":"n_x","channel":"no such","from":9,"limit":1000}"#);
    // An answer to what was asked, by one that was not.
    let mut listener = redis.connect();
    let mut listener = listener.as_pubsub();
    listener.subscribe("encke:questions").expect("it listens");
    nodes[1].while_stopped(|| {
        let (total, missing) = std::thread::scope(|scope| {
            let asked = scope.spawn(|| total_and_missing(&nodes[0]));
            let question: String =
                listener.get_message().and_then(|message| message.get_payload()).expect("a question");
            let question: Value = serde_json::from_str(&question).expect("JSON");
            assert_eq!((&question["server"], &question["channel"]), (&json!(name), &json!("news")));
            let mut answer =
                json!({"id": question["id"], "server": "n_x", "total": 9, "members": [], "next": null});
            publish(&answers, &answer.to_string());
            // In the name of the one that was, but it makes no sense.
            answer["server"] = json!(other);
            answer["members"] = json!([[1, "<b>", null, "attached"]]);
            publish(&answers, &answer.to_string());
            asked.join().expect("an answer")
        });
        assert_eq!((total, missing), (json!(1), json!([other])));
    });
    nodes.iter().for_each(RunningServer::assert_healthy);
}

#[test]
fn where_redis_cannot_say_who_is_there_everyone_is_missing() {
    let mut redis = Redis::start();
    let node = launch(&redis).start();
    let _clients = followers(&[&node]);
    await_total(&node, 1, &Value::Null);
    redis::cmd("SET").arg("encke:servers").arg("odd").exec(&mut redis.connect()).expect("it is set");
    assert_eq!(total_and_missing(&node), (json!(1), json!(["*"])));
    node.assert_healthy();
    redis.kill();
    until("it is noticed", || node.admin.post("/api/publish", r#"{"channel":"a","data":1}"#).status == 503);
    assert_eq!(total_and_missing(&node), (json!(1), json!(["*"])));
}
