//! The user that the README makes for servers may do what they need, and nothing else.

use encke_tests::redis::Redis;
use encke_tests::waiting::{TIMEOUT, until};
use encke_tests::{Launch, RunningServer};
use redis::Connection;
use serde_json::json;

use super::nodes::{assert_message, exec};
use super::{keys_of_news, launch};

const README: &str = include_str!("../../../../README.md");

/// The command by which the README makes the user.
fn rule() -> Vec<String> {
    let line = README.lines().find_map(|line| line.strip_prefix("redis-cli -p 6390 ACL SETUSER "));
    let words = line.expect("the README makes a user").split(' ');
    words.map(|word| word.trim_matches('\'').to_owned()).collect()
}

fn redis_with(rule: &[String]) -> (Redis, Connection) {
    let redis = Redis::start();
    let mut connection = redis.connect();
    redis::cmd("ACL").arg("SETUSER").arg(rule).exec(&mut connection).expect("a rule that Redis knows");
    (redis, connection)
}

fn launch_as_the_user(redis: &Redis) -> Launch {
    let rule = rule();
    let password = rule.iter().find_map(|word| word.strip_prefix('>')).expect("it has a password");
    launch(redis).set("engine.user=encke").environment("ENCKE_ENGINE__PASSWORD", password)
}

/// All that a server asks Redis for.
#[track_caller]
fn use_everything(server: &RunningServer, redis: &mut Connection) {
    let mut client = server.client();
    client.subscribe("news");
    server.admin.publish("news", "allowed");
    assert_message(&mut client, 1, &json!("allowed"));
    assert_eq!(server.admin.get("/api/channels/news/history").status, 200);
    client.subscribe("/a/*");
    let keyed = r#"{"channel":"/a/b","data":"by pattern","key":"k"}"#;
    assert_eq!(server.admin.post("/api/publish", keyed).status, 200);
    assert_message(&mut client, 1, &json!("by pattern"));
    // A channel that cannot be opened is not listened to any more.
    exec(redis, &["SET", "encke:{126}m:odd", "x"]);
    let reply = client.request(r#"{"id":1,"subscribe":{"channel":"odd"}}"#);
    assert_eq!(reply["error"]["code"], "unavailable", "{reply}");
    until("nobody listens", || calls(redis).contains("cmdstat_unsubscribe:"));
}

/// What was called, also by scripts, a line for each command.
fn calls(redis: &mut Connection) -> String {
    redis::cmd("INFO").arg("commandstats").query(redis).expect("statistics")
}

#[test]
fn the_user_of_the_readme_may_do_what_a_server_needs() {
    let (redis, mut connection) = redis_with(&rule());
    exec(&mut connection, &["CONFIG", "RESETSTAT"]);
    let mut server = launch_as_the_user(&redis).start();
    use_everything(&server, &mut connection);
    // It says that it ends.
    server.terminate();
    server.await_exit(TIMEOUT);
    // What was kept for a time is kept for ever by another.
    let mut other = launch_as_the_user(&redis).set("channel.history_age=off").start();
    other.admin.publish("news", "kept");
    other.terminate();
    assert!(other.await_exit(TIMEOUT).success());
    let denied: Vec<String> =
        redis::cmd("ACL").arg("LOG").query::<Vec<redis::Value>>(&mut connection).map_or_else(
            |error| panic!("{error}"),
            |entries| entries.iter().map(|entry| format!("{entry:?}")).collect(),
        );
    // It says its name to those that want to know it, and goes on without; and asks for all that patterns stand for when it may not ask for less.
    let is_expected = |entry: &str| entry.contains("setinfo") || entry.contains("encke:{*}c:/a/*");
    let denied: Vec<_> = denied.iter().filter(|entry| !is_expected(entry)).collect();
    assert!(denied.is_empty(), "{denied:?}");
    let called = calls(&mut connection);
    for word in rule() {
        // Half a minute after the last has left a pattern.
        let Some(command) = word.strip_prefix('+').filter(|command| *command != "punsubscribe") else {
            continue;
        };
        assert!(called.contains(&format!("cmdstat_{command}:")), "nobody needs {command}: {called}");
    }
}

#[test]
fn what_it_may_not_do_is_said() {
    let rule: Vec<_> = rule().into_iter().filter(|word| word != "+info").collect();
    let (redis, mut connection) = redis_with(&rule);
    let server = launch_as_the_user(&redis).start();
    server.logs.await_line("NOPERM");
    let answer = server.admin.post("/api/publish", r#"{"channel":"news","data":1}"#);
    assert_eq!((answer.status, &*answer.error_code()), (503, "unavailable"), "{answer:?}");
    exec(&mut connection, &["ACL", "SETUSER", "encke", "+info"]);
    until("it is connected", || server.admin.metrics().value("encke_engine_up") == 1.0);
    // Keys and names beyond its own it may not touch.
    let stranger = launch_as_the_user(&redis).set("engine.prefix=other:").start();
    stranger.logs.await_line("NOPERM");
    let [meta, ..] = keys_of_news();
    assert_eq!(redis::cmd("EXISTS").arg(meta.replace("encke:", "other:")).query(&mut connection), Ok(0));
}
