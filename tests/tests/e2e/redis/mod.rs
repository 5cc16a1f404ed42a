//! Redis as the engine of channels.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use encke_tests::redis::Redis;
use encke_tests::waiting::{eventually_within, until};
use encke_tests::{Client, Launch, RunningServer};
use redis::{Connection, FromRedisValue};
use serde_json::{Value, json};

// Permissions of the server's Redis user.
mod access;
// A Redis that restarts and has lost nothing.
mod epochs;
// A Redis that is killed, restarted or replaced, and loses messages.
mod faults;
// The command `history`, on servers without a log of the channel.
mod history;
// Joins and leaves over several servers.
mod join_leave;
// Links that fail in one direction, a frozen Redis, and a slow server that Redis disconnects.
mod links;
// Model of the Redis scripts in Rust.
mod model;
// Several servers with one Redis.
mod nodes;
// Patterns, whose logs are local to each server.
mod patterns;
// Presence over several servers.
mod presence;
// A Redis with a replica and Sentinels.
mod replicated;
// Sessions restored from a snapshot, with subscriptions in Redis.
mod restarts;
// The scripts compared with the model.
mod scripts;
// Failovers by Sentinels.
mod sentinels;
// Sessions that resume on any server.
mod shared_sessions;
// TLS, and unacceptable certificates.
mod tls;
// Events of users over several servers.
mod users;
// The script for users compared with a model.
mod session_script;
mod users_script;

/// How long failure detection or recovery may take. A server notices within two probes that Redis does not
/// respond, and reconnects within a second after Redis responds again.
const DETECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Configures a server that keeps its channels in the Redis at this URL.
fn launch_at(url: impl fmt::Display) -> Launch {
    Launch::with(&["engine.kind=redis", &format!("engine.url={url}")])
}

/// Configures a server that keeps its channels in this Redis.
fn launch(redis: &Redis) -> Launch {
    launch_at(redis.url())
}

#[track_caller]
fn node(redis: &Redis) -> RunningServer {
    launch(redis).start()
}

/// Returns the meta key, log and feed of the channel `news`.
fn keys_of_news() -> [String; 3] {
    ["m", "l", "c"].map(|kind| format!("encke:{{38}}{kind}:news"))
}

/// Executes a Redis command and returns its result.
#[track_caller]
fn query<T: FromRedisValue>(connection: &mut Connection, command: &[&str]) -> T {
    let result = redis::cmd(command[0]).arg(&command[1..]).query(connection);
    result.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

#[track_caller]
fn exec(connection: &mut Connection, command: &[&str]) {
    query::<redis::Value>(connection, command);
}

/// Breaks the connections that receive feeds, or all others.
#[track_caller]
fn kill_connections(connection: &mut Connection, kind: &str) {
    exec(connection, &["CLIENT", "KILL", "TYPE", kind]);
}

/// Sends a subscribe and returns the reply.
#[track_caller]
fn try_subscribe(client: &mut Client, channel: &str) -> Value {
    client.request(json!({"id": 1, "subscribe": {"channel": channel}}))
}

/// Sends a subscribe to `news` from a position and returns the reply.
#[track_caller]
fn subscribe_since(client: &mut Client, epoch: &str, offset: u64) -> Value {
    let since = json!({"epoch": epoch, "offset": offset});
    client.request(json!({"id": 1, "subscribe": {"channel": "news", "since": since}}))
}

#[track_caller]
fn assert_not_opened(client: &mut Client, channel: &str) {
    let reply = try_subscribe(client, channel);
    assert_eq!(reply["error"]["code"], "unavailable", "{reply}");
}

#[track_caller]
fn assert_unavailable(server: &RunningServer) {
    let answer = server.admin.post("/api/publish", r#"{"channel":"news","data":1}"#);
    answer.assert_error(503, "unavailable");
}

/// Waits until the server is connected to Redis, or has noticed that it is not.
#[track_caller]
fn await_connected(server: &RunningServer, is_connected: bool) {
    let value = f64::from(u8::from(is_connected));
    until(format!("encke_engine_up is {value}"), || server.admin.metrics().value("encke_engine_up") == value);
}

/// Waits until messages can be published again. Returns the response to the first publish that succeeds.
#[track_caller]
fn await_published(server: &RunningServer, channel: &str, data: impl Into<Value>) -> Value {
    let body = json!({"channel": channel, "data": data.into()}).to_string();
    eventually_within(DETECTION_TIMEOUT, "the message is published", || {
        let answer = server.admin.post("/api/publish", &body);
        assert!(answer.status == 200 || answer.status == 503, "{answer:?}");
        (answer.status == 200).then(|| answer.json())
    })
}

/// Asserts that the next message has this offset and these data.
#[track_caller]
fn assert_message(client: &mut Client, offset: u64, data: impl Into<Value>) {
    let object = client.object();
    let message = &object["message"];
    assert_eq!((&message["offset"], &message["data"]), (&json!(offset), &data.into()), "{object}");
}

/// Asserts that all messages up to the one with the data `last` arrive in order and without a gap. Returns
/// the data of all of them.
#[track_caller]
fn assert_all_up_to(client: &mut Client, mut offset: u64, last: &str) -> Vec<Value> {
    let mut all = Vec::new();
    while all.last().is_none_or(|data| data != last) {
        offset += 1;
        let mut object = client.object();
        assert_eq!(object["message"]["offset"], offset, "{object}");
        all.push(object["message"]["data"].take());
    }
    all
}

#[track_caller]
fn assert_numbers(client: &mut Client, numbers: RangeInclusive<u64>) {
    numbers.for_each(|number| assert_message(client, number, number));
}

/// Connects a client to each server. All clients receive messages 1 to 3 of `news`. Returns the clients and
/// the epoch.
fn subscribers_with_three_messages(nodes: &[RunningServer; 2]) -> ([Client; 2], String) {
    let mut subscribers = nodes.each_ref().map(RunningServer::client);
    let [epoch, other] = subscribers.each_mut().map(|subscriber| subscriber.subscribe("news"));
    assert_eq!(epoch, other);
    nodes[0].admin.publish_each("news", 1..=2);
    nodes[1].admin.publish("news", 3);
    subscribers.iter_mut().for_each(|subscriber| assert_numbers(subscriber, 1..=3));
    (subscribers, epoch)
}

/// Asserts that the next object is a gap of unknown length. Returns the gap's epoch.
#[track_caller]
fn assert_gap(client: &mut Client, channel: &str) -> Value {
    let mut object = client.object();
    let gap = &mut object["gap"];
    assert_eq!((&gap["channel"], gap.get("from")), (&json!(channel), None), "{gap}");
    gap["epoch"].take()
}
