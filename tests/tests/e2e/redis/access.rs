//! The Redis user that the documents create for servers has the permissions that servers need, and no others.

use encke_tests::redis::Redis;
use encke_tests::waiting::until;
use encke_tests::{Launch, RunningServer};
use redis::Connection;

use super::session_script::{LEASE_SCRIPT, SCRIPT};
use super::{
    assert_message, assert_not_opened, assert_unavailable, await_connected, exec, keys_of_news, launch, query,
};

const SCALING: &str = include_str!("../../../../server/docs/operations/scaling.md");

/// Returns the ACL rule of the user that the page on scaling out creates.
fn acl_rule() -> Vec<String> {
    let line = SCALING.lines().find_map(|line| line.strip_prefix("redis-cli -p 6390 ACL SETUSER "));
    let words = line.expect("the page creates a user").split(' ');
    words.map(|word| word.trim_matches('\'').to_owned()).collect()
}

fn redis_with(rule: &[String]) -> (Redis, Connection) {
    let redis = Redis::start();
    let mut connection = redis.connect();
    redis::cmd("ACL").arg("SETUSER").arg(rule).exec(&mut connection).expect("Redis accepts the rule");
    (redis, connection)
}

fn launch_as_the_user(redis: &Redis) -> Launch {
    let rule = acl_rule();
    let password = rule.iter().find_map(|word| word.strip_prefix('>')).expect("the rule has a password");
    launch(redis).set("engine.user=encke").environment("ENCKE_ENGINE__PASSWORD", password)
}

/// Uses all commands that a server sends to Redis.
#[track_caller]
fn use_everything(server: &RunningServer, redis: &mut Connection) {
    let mut client = server.client();
    client.subscribe("news");
    server.admin.publish("news", "allowed");
    assert_message(&mut client, 1, "allowed");
    for query in ["", "?before=2"] {
        assert_eq!(server.admin.get(&format!("/api/channels/news/history{query}")).status, 200);
    }
    client.subscribe("/a/*");
    let keyed = r#"{"channel":"/a/b","data":"by pattern","key":"k"}"#;
    assert_eq!(server.admin.post("/api/publish", keyed).status, 200);
    assert_message(&mut client, 1, "by pattern");
    // If a channel cannot be opened, the server unsubscribes from its feed.
    exec(redis, &["SET", "encke:{126}m:odd", "x"]);
    assert_not_opened(&mut client, "odd");
    until("the feed is unsubscribed from", || command_statistics(redis).contains("cmdstat_unsubscribe:"));
}

/// Uses all commands for sessions that several servers share, as the user.
#[track_caller]
fn use_session_directory(redis: &Redis) {
    let rule = acl_rule();
    let password = rule.iter().find_map(|word| word.strip_prefix('>')).expect("the rule has a password");
    let mut connection = redis.connect();
    exec(&mut connection, &["AUTH", "encke", password]);
    let [session, lease] =
        [SCRIPT, LEASE_SCRIPT].map(|script| query::<String>(&mut connection, &["SCRIPT", "LOAD", script]));
    let [record, of, ended, leases, since] =
        ["s:0f", "of:", "ended", "leases", "since"].map(|key| format!("encke:{{sessions}}{key}"));
    let of_server = format!("{of}n_1");
    let mut call_lease = |operation| {
        exec(&mut connection, &["EVALSHA", &lease, "3", &leases, &since, &of, operation, "n_1", "10000"]);
    };
    call_lease("renew");
    call_lease("end");
    let mut call_session = |operation| {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&session).arg(5).arg(&[&record, &of, &ended, &leases, &since]);
        call.arg(&[
            operation, "n_1", "1", "0f", "1", "1", "1", "1", "1", "1000", "digest", "4002", "1000", "*",
        ]);
        let reply: redis::Value = call.query(&mut connection).expect("the user may call the script");
        assert!(format!("{reply:?}").contains("accepted"), "{operation}: {reply:?}");
    };
    call_session("write");
    call_session("end");
    exec(&mut connection, &["SSCAN", &of_server, "0"]);
}

/// Returns the statistics of all commands executed, including commands executed by scripts, one line per
/// command.
fn command_statistics(redis: &mut Connection) -> String {
    query(redis, &["INFO", "commandstats"])
}

#[test]
fn the_readme_user_has_exactly_the_needed_permissions() {
    let (redis, mut connection) = redis_with(&acl_rule());
    exec(&mut connection, &["CONFIG", "RESETSTAT"]);
    let mut server = launch_as_the_user(&redis).start();
    use_everything(&server, &mut connection);
    // A server deregisters when it shuts down.
    server.stop();
    // A server with unlimited history removes the expiry that another server has set.
    let mut other = launch_as_the_user(&redis).set("channel.history_age=off").start();
    other.admin.publish("news", "kept");
    other.stop();
    use_session_directory(&redis);
    let denied: Vec<redis::Value> = query(&mut connection, &["ACL", "LOG"]);
    // Two denials are expected. The client library tries to set its name. A pattern is first subscribed to
    // with a narrow glob, and if that is denied, with the widest one.
    let is_expected = |entry: &str| entry.contains("setinfo") || entry.contains("encke:{*}c:/a/*");
    let denied = denied.iter().map(|entry| format!("{entry:?}")).filter(|entry| !is_expected(entry));
    let denied: Vec<_> = denied.collect();
    assert!(denied.is_empty(), "{denied:?}");
    let called = command_statistics(&mut connection);
    for word in acl_rule() {
        // `punsubscribe` is sent only half a minute after the last subscriber of a pattern has left.
        let Some(command) = word.strip_prefix('+').filter(|command| *command != "punsubscribe") else {
            continue;
        };
        assert!(called.contains(&format!("cmdstat_{command}:")), "no server uses {command}: {called}");
    }
}

#[test]
fn missing_permissions_are_logged() {
    let rule: Vec<_> = acl_rule().into_iter().filter(|word| word != "+info").collect();
    let (redis, mut connection) = redis_with(&rule);
    let server = launch_as_the_user(&redis).start();
    server.logs.await_line("NOPERM");
    assert_unavailable(&server);
    exec(&mut connection, &["ACL", "SETUSER", "encke", "+info"]);
    await_connected(&server, true);
    // The user has no access to keys and feeds with another prefix.
    let stranger = launch_as_the_user(&redis).set("engine.prefix=other:").start();
    stranger.logs.await_line("NOPERM");
    let [meta, ..] = keys_of_news();
    let exists: u64 = query(&mut connection, &["EXISTS", &meta.replace("encke:", "other:")]);
    assert_eq!(exists, 0);
}
