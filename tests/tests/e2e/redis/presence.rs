use std::collections::BTreeSet;
use std::time::Duration;

use encke_tests::process::Signal;
use encke_tests::redis::Redis;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::{TIMEOUT, eventually, eventually_within, until};
use encke_tests::{Client, RunningServer};
use serde_json::{Value, json};

use super::{launch, node};

/// How long a killed server may remain listed: the duration of a lease, plus the interval between checks.
const LEASE_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the name of a server.
#[track_caller]
fn server_name(node: &RunningServer) -> String {
    let line = node.logs.await_line("connected to Redis");
    let line: Value = serde_json::from_str(&line).expect("JSON");
    line["server"].as_str().expect("a name").to_owned()
}

#[track_caller]
fn presence(node: &RunningServer) -> Value {
    node.admin.get("/api/channels/news/presence").json()
}

/// Returns the number of sessions, and the servers that have not replied.
#[track_caller]
fn total_and_missing(node: &RunningServer) -> (Value, Value) {
    let mut presence = presence(node);
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
        let reply = client.request(r#"{"id":1,"presence":{"channel":"news"}}"#);
        (reply["ok"]["incomplete"] == *missing).then_some(reply)
    })
}

#[track_caller]
fn subscribers(nodes: &[&RunningServer]) -> Vec<Client> {
    let connect = |node: &&RunningServer| {
        let mut client = node.client();
        client.subscribe("news");
        client
    };
    nodes.iter().map(connect).collect()
}

#[test]
fn presence_covers_all_servers() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis), node(&redis)];
    let mut clients = subscribers(&[&nodes[0], &nodes[0], &nodes[1]]);
    let expected: BTreeSet<_> = clients.iter().map(|client| client.hello.session.clone()).collect();
    for node in &nodes {
        let (mut seen, mut cursor) = (BTreeSet::new(), json!(0));
        while !cursor.is_null() {
            let path = format!("/api/channels/news/presence?limit=2&cursor={cursor}");
            let page = eventually("all servers answer", || {
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
    // A suspended session is included as well.
    let suspended = clients.remove(0).drop_connection();
    nodes[0].await_phase(&suspended.session, "suspended");
    await_total(&nodes[2], 3, &Value::Null);
    until("the suspended session is listed", || presence(&nodes[2]).to_string().contains("suspended"));
    until("all servers are counted", || {
        nodes.iter().all(|node| node.admin.metrics().value("encke_engine_servers") == 3.0)
    });
}

#[test]
fn users_are_counted_over_all_servers() {
    let redis = Redis::start();
    let nodes = [(); 2].map(|()| launch(&redis).set(&format!("auth.secret={SECRET}")).start());
    let connect = |node: &RunningServer, user: &str| {
        let claims = json!({"sub": user, "channels": {"*": ["subscribe", "presence"]}});
        let mut client = Client::connect(node.public, &format!("token={}", sign(&claims, SECRET)));
        client.subscribe("news");
        client
    };
    let mut client = connect(&nodes[0], "alice");
    let _others = [connect(&nodes[1], "alice"), connect(&nodes[1], "bob")];
    let suspended = connect(&nodes[1], "alice").drop_connection();
    nodes[1].await_phase(&suspended.session, "suspended");
    let mut users = reply(&mut client, &Value::Null)["ok"]["users"].take();
    users.as_array_mut().expect("a list").sort_by_key(|user| user["user"].to_string());
    let alice = json!({"user": "alice", "sessions": 3, "connections": 2});
    assert_eq!(users, json!([alice, {"user": "bob", "sessions": 1, "connections": 1}]));
}

#[test]
fn a_frozen_server_is_reported_as_missing() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis), node(&redis)];
    let mut clients = subscribers(&[&nodes[0], &nodes[1], &nodes[2]]);
    nodes.iter().for_each(|node| await_total(node, 3, &Value::Null));
    let missing = json!([server_name(&nodes[2])]);
    nodes[2].while_stopped(|| {
        await_total(&nodes[0], 2, &missing);
        let reply = reply(&mut clients[1], &missing);
        assert_eq!(reply["ok"]["total"], 2, "{reply}");
    });
    await_total(&nodes[0], 3, &Value::Null);
}

#[test]
fn a_killed_server_is_reported_until_its_lease_expires() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let mut stopped = node(&redis);
    let _clients = subscribers(&[&nodes[0], &nodes[1], &stopped]);
    await_total(&nodes[0], 3, &Value::Null);
    // A server that shuts down deregisters.
    stopped.terminate();
    stopped.await_exit(TIMEOUT);
    let mut zrange = redis::cmd("ZRANGE");
    let registered: BTreeSet<String> =
        zrange.arg("encke:servers").arg(0).arg(-1).query(&mut redis.connect()).expect("a set");
    assert_eq!(registered, nodes.each_ref().map(server_name).into());
    await_total(&nodes[0], 2, &Value::Null);
    // A server that is killed does not deregister.
    let killed = server_name(&nodes[1]);
    nodes[1].signal(Signal::KILL);
    await_total(&nodes[0], 1, &json!([killed]));
    eventually_within(LEASE_TIMEOUT, "the killed server is not listed any more", || {
        let (total, missing) = total_and_missing(&nodes[0]);
        assert!(missing.is_null() || missing == json!([killed]), "{missing}");
        (missing.is_null() && total == 1).then_some(())
    });
}

#[test]
fn forged_presence_messages_are_ignored() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let _clients = subscribers(&[&nodes[0], &nodes[1]]);
    let (name, other) = (server_name(&nodes[0]), server_name(&nodes[1]));
    let mut connection = redis.connect();
    let mut publish = |feed: &str, text: &str| {
        redis::cmd("PUBLISH").arg(feed).arg(text).exec(&mut connection).expect("the message is published");
    };
    let answers = format!("encke:answers:{name}");
    for stray in ["", "x", "{}", "[1,2]", &"[".repeat(10_000)] {
        publish("encke:questions", stray);
        publish(&answers, stray);
    }
    publish("encke:questions", r#"{"id":1,"server":"n_x","channel":"no such","from":9,"limit":1000}"#);
    // Send a reply to a valid request, from a server that does not exist.
    let mut listener = redis.connect();
    let mut listener = listener.as_pubsub();
    listener.subscribe("encke:questions").expect("the feed is subscribed to");
    nodes[1].while_stopped(|| {
        let (total, missing) = std::thread::scope(|scope| {
            let pending = scope.spawn(|| total_and_missing(&nodes[0]));
            let query: String =
                listener.get_message().and_then(|message| message.get_payload()).expect("a query arrives");
            let query: Value = serde_json::from_str(&query).expect("JSON");
            assert_eq!((&query["server"], &query["channel"]), (&json!(name), &json!("news")));
            let mut answer =
                json!({"id": query["id"], "server": "n_x", "total": 9, "members": [], "next": null});
            publish(&answers, &answer.to_string());
            // Send a malformed reply in the name of the server that has to reply.
            answer["server"] = json!(other);
            answer["members"] = json!([[1, "<b>", null, "attached"]]);
            publish(&answers, &answer.to_string());
            pending.join().expect("the query does not panic")
        });
        assert_eq!((total, missing), (json!(1), json!([other])));
    });
    nodes.iter().for_each(RunningServer::assert_healthy);
}

#[test]
fn without_the_server_list_all_others_are_missing() {
    let mut redis = Redis::start();
    let node = launch(&redis).start();
    let _clients = subscribers(&[&node]);
    await_total(&node, 1, &Value::Null);
    redis::cmd("SET").arg("encke:servers").arg("odd").exec(&mut redis.connect()).expect("the key is set");
    assert_eq!(total_and_missing(&node), (json!(1), json!(["*"])));
    node.assert_healthy();
    redis.kill();
    until("the server notices the failure", || {
        node.admin.post("/api/publish", r#"{"channel":"a","data":1}"#).status == 503
    });
    assert_eq!(total_and_missing(&node), (json!(1), json!(["*"])));
}
