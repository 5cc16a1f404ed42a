use encke_tests::process::Signal;
use encke_tests::redis::Redis;
use encke_tests::tokens;
use encke_tests::waiting::{eventually, until};
use encke_tests::{Backend, Launch, RunningServer};
use redis::Connection;
use serde_json::Value;

use super::{exec, launch, query};
use crate::webhooks::{USERS, accepted_events, webhook};

/// Several servers with one Redis and one backend.
struct Nodes {
    redis: Redis,
    backend: Backend,
    connection: Connection,
}

impl Nodes {
    fn new() -> Self {
        let redis = Redis::start();
        Self { connection: redis.connect(), redis, backend: Backend::start() }
    }

    fn launch(&self) -> Launch {
        let webhook = format!("webhook=[{}]", webhook(&self.backend.url("/encke"), USERS, ""));
        launch(&self.redis).set(&webhook).set(&format!("auth.secret={}", tokens::SECRET))
    }

    /// Starts a server. Returns it with the name of its users in Redis.
    fn start(&mut self) -> (RunningServer, String) {
        let before: Vec<String> = query(&mut self.connection, &["ZRANGE", "encke:{users}names", "0", "-1"]);
        let server = self.launch().start();
        let name = eventually("the server has a name", || {
            let names: Vec<String> =
                query(&mut self.connection, &["ZRANGE", "encke:{users}names", "0", "-1"]);
            names.into_iter().find(|name| !before.contains(name))
        });
        (server, name)
    }

    /// Waits until the user is online on this many servers.
    #[track_caller]
    fn await_servers(&mut self, user: &str, servers: &str) {
        until(format!("{user} is online on {servers} servers"), || {
            let found: Option<String> = query(&mut self.connection, &["HGET", "encke:{users}online", user]);
            found.as_deref().unwrap_or("0") == servers
        });
    }

    /// Returns the events of a user in the order in which Redis created them.
    fn events(&self, user: &str) -> Vec<String> {
        let mut events = accepted_events(&self.backend);
        events.retain(|event| event["user"] == user);
        events.sort_by_key(|event| event["at_ms"].as_u64());
        events.dedup_by_key(|event| event["id"].to_string());
        let name = |event: &Value| event["event"].as_str().expect("text").replace("user.", "");
        events.iter().map(name).collect()
    }

    /// Waits until exactly these events of a user have been accepted.
    #[track_caller]
    fn await_events(&self, user: &str, expected: &[&str]) {
        until(format!("exactly the events {expected:?}"), || self.events(user) == expected);
    }
}

#[test]
fn users_are_counted_over_all_servers() {
    let mut nodes = Nodes::new();
    let ((a, _), (b, _)) = (nodes.start(), nodes.start());
    let mut first = a.client_of("al ice");
    nodes.await_servers("al ice", "1");
    let mut second = b.client_of("al ice");
    nodes.await_servers("al ice", "2");
    first.close();
    nodes.await_servers("al ice", "1");
    second.close();
    nodes.await_events("al ice", &["online", "offline"]);
    let left: usize = query(&mut nodes.connection, &["HLEN", "encke:{users}online"]);
    assert_eq!(left, 0);
}

/// Bob is on both servers. Instead of waiting, the test ends the lease.
#[test]
fn the_users_of_a_dead_server_go_offline() {
    let mut nodes = Nodes::new();
    let ((a, name), (b, _)) = (nodes.start(), nodes.start());
    let _clients = [a.client_of("alice"), a.client_of("bob"), b.client_of("bob")];
    nodes.await_servers("bob", "2");
    nodes.await_events("alice", &["online"]);
    a.signal(Signal::KILL);
    exec(&mut nodes.connection, &["ZADD", "encke:{users}names", "1", &name]);
    nodes.await_events("alice", &["online", "offline"]);
    nodes.await_servers("bob", "1");
    nodes.await_events("bob", &["online"]);
}

/// The lease has ended although the server is alive: it was cut off from Redis, or stopped.
#[test]
fn a_server_that_was_given_up_registers_its_users_again() {
    let mut nodes = Nodes::new();
    let ((a, name), (_b, _)) = (nodes.start(), nodes.start());
    let mut client = a.client_of("alice");
    nodes.await_events("alice", &["online"]);
    exec(&mut nodes.connection, &["ZREM", "encke:{users}names", &name]);
    exec(&mut nodes.connection, &["ZADD", "encke:{users}given-up", "1", &name]);
    nodes.await_events("alice", &["online", "offline", "online"]);
    client.close();
    nodes.await_events("alice", &["online", "offline", "online", "offline"]);
}

#[test]
fn users_of_a_redis_that_has_lost_its_keys_are_not_reported_again() {
    let mut nodes = Nodes::new();
    let (a, _) = nodes.start();
    let mut client = a.client_of("alice");
    nodes.await_events("alice", &["online"]);
    nodes.redis.kill();
    let mut bob = a.client_of("bob");
    nodes.redis.restart();
    nodes.connection = nodes.redis.connect();
    nodes.await_servers("alice", "1");
    nodes.await_events("bob", &["online"]);
    client.close();
    bob.close();
    nodes.await_events("bob", &["online", "offline"]);
    nodes.await_events("alice", &["online", "offline"]);
}

#[test]
fn users_stay_online_while_their_server_restarts_with_a_snapshot() {
    let mut nodes = Nodes::new();
    let folder = tempfile::tempdir().expect("a temporary directory can be created");
    let snapshot = format!("shutdown.snapshot={}", folder.path().join("snapshot").display());
    let (b, _) = nodes.start();
    let mut a = nodes.launch().set(&snapshot).start();
    let clients = ["alice", "bob"].map(|user| a.client_of(user));
    let _bob = b.client_of("bob");
    nodes.await_servers("alice", "1");
    nodes.await_servers("bob", "2");
    a.stop();
    let mut a = nodes.launch().set(&snapshot).start();
    for client in &clients {
        a.admin.kick(&client.hello.session);
    }
    nodes.await_events("alice", &["online", "offline"]);
    nodes.await_servers("bob", "1");
    // Without sessions, nothing is left of a server that stops.
    a.stop();
    let mut a = nodes.launch().start();
    let _alice = a.client_of("alice");
    nodes.await_events("alice", &["online", "offline", "online"]);
    a.stop();
    nodes.await_events("alice", &["online", "offline", "online", "offline"]);
    nodes.await_events("bob", &["online"]);
}
