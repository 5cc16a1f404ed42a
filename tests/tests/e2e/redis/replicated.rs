//! A Redis, a replica of it, and three Sentinels that promote the replica when the master fails.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use encke_tests::Relay;
use encke_tests::port::Port;
use encke_tests::process::Process;
use encke_tests::redis::Redis;
use encke_tests::relay::Fate;
use encke_tests::waiting::{eventually_within, until};
use redis::Client;
use tempfile::TempDir;

/// Name of the master in the Sentinels' configuration.
pub(super) const MASTER: &str = "encke-tests";

pub(super) const PASSWORD: &str = "hunter2";

/// Redis master and replica with their Sentinels.
#[derive(Debug)]
pub(super) struct Sentinels {
    pub(super) master: Redis,
    pub(super) replica: Redis,
    pub(super) replication_relay: Relay,
    sentinels: Vec<Sentinel>,
    unreachable: Port,
}

#[derive(Debug)]
struct Sentinel {
    _process: Process,
    _directory: TempDir,
    port: Port,
}

/// Time without a reply, in milliseconds, after which the Sentinels consider the master down. A busy machine
/// replies late.
const DOWN_AFTER_MS: u32 = 2000;

/// How long a failover may take until all Sentinels agree on it.
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(60);

impl Sentinels {
    /// Starts all processes and waits until the Sentinels have discovered each other and the replica.
    pub(super) fn start() -> Self {
        let master = Redis::start();
        let between = Relay::new(master.address(), || Fate::Intact);
        let from = between.address;
        let of = format!("{} {}", from.ip(), from.port());
        let replica = Redis::with(&["--replicaof", &of]);
        until("the replica catches up", || has_replication_field(&replica, "master_link_status", "up"));
        let sentinels: Vec<_> = (0..3).map(|_| Sentinel::start(master.address())).collect();
        sentinels.iter().for_each(Sentinel::await_discovery);
        Self { master, replica, replication_relay: between, sentinels, unreachable: Port::reserve() }
    }

    /// Returns the list of Redis URLs for a server's configuration. The first address is unreachable.
    pub(super) fn url(&self) -> String {
        let ports = [&self.unreachable].into_iter().chain(self.sentinels.iter().map(|one| &one.port));
        ports.map(|port| format!("redis://{}", port.address)).collect::<Vec<_>>().join(",")
    }

    /// Kills the master and waits until the replica has been promoted.
    #[track_caller]
    pub(super) fn fail_over(&mut self) {
        self.master.kill();
        eventually_within(FAILOVER_TIMEOUT, "the replica takes over", || {
            has_replication_field(&self.replica, "role", "master").then_some(())
        });
    }
}

/// Whether `INFO replication` of this Redis has this field with this value.
fn has_replication_field(redis: &Redis, what: &str, value: &str) -> bool {
    // Connect again each time: Redis drops its connections when it becomes a master.
    let text = redis
        .try_connect()
        .and_then(|mut connection| redis::cmd("INFO").arg("replication").query::<String>(&mut connection));
    let line = format!("{what}:{value}");
    text.is_ok_and(|text| text.lines().any(|other| other == line))
}

impl Sentinel {
    fn start(master: SocketAddr) -> Self {
        let port = Port::reserve();
        let directory = TempDir::new().expect("a temporary directory can be created");
        let settings = format!(
            "bind 127.0.0.1\nport {}\nrequirepass {PASSWORD}\nsentinel sentinel-pass {PASSWORD}\n\
             sentinel monitor {MASTER} {} {} 2\nsentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}\n\
             sentinel failover-timeout {MASTER} 60000\n",
            port.address.port(),
            master.ip(),
            master.port(),
        );
        let path = directory.path().join("sentinel.conf");
        fs::write(&path, settings).expect("the file can be written");
        let mut command = Command::new("redis-server");
        command.arg(path).arg("--sentinel").current_dir(directory.path());
        Self { _process: Process::start(&mut command), _directory: directory, port }
    }

    /// Waits until this Sentinel knows the replica and the two other Sentinels.
    fn await_discovery(&self) {
        let is_discovered = || {
            let url = format!("redis://:{PASSWORD}@{}", self.port.address);
            let mut connection = Client::open(url).ok()?.get_connection().ok()?;
            let mut command = redis::cmd("SENTINEL");
            let known: Vec<(String, String)> =
                command.arg(&["MASTER", MASTER]).query(&mut connection).ok()?;
            let has = |key: &str, value: &str| known.iter().any(|(one, other)| one == key && other == value);
            Some(has("num-slaves", "1") && has("num-other-sentinels", "2") && has("flags", "master"))
        };
        until("a Sentinel knows the replica and the other Sentinels", || is_discovered() == Some(true));
    }
}
