//! A Redis, a replica of it, and three Sentinels that promote the replica when the master fails.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use redis::{Client, Connection};
use tempfile::TempDir;

use crate::Relay;
use crate::process::Process;
use crate::proxy::free_address;
use crate::redis::Redis;
use crate::relay::Fate;
use crate::waiting::{eventually, eventually_within, until};

/// Name of the master in the Sentinels' configuration.
pub const MASTER: &str = "encke-tests";

/// Password of the Sentinels.
pub const PASSWORD: &str = "hunter2";

/// Redis master and replica with their Sentinels. See the [module](self).
#[derive(Debug)]
pub struct Sentinels {
    /// Master until it is killed.
    pub master: Redis,
    /// Master after the failover.
    pub replica: Redis,
    /// Relay for the replication stream.
    pub replication_relay: Relay,
    sentinels: Vec<Sentinel>,
}

#[derive(Debug)]
struct Sentinel {
    _process: Process,
    _directory: TempDir,
    address: SocketAddr,
}

/// Time without a reply, in milliseconds, after which the Sentinels consider the master down. A busy machine
/// replies late.
const DOWN_AFTER_MS: u32 = 2000;

/// How long a failover may take until all Sentinels agree on it.
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(60);

impl Default for Sentinels {
    fn default() -> Self {
        Self::start()
    }
}

impl Sentinels {
    /// Starts all processes and waits until the Sentinels have discovered each other and the replica.
    ///
    /// # Panics
    /// Panics if that does not happen in time.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        let master = Redis::start();
        let between = Relay::new(master.address(), || Fate::Intact);
        let from = between.address;
        let of = format!("{} {}", from.ip(), from.port());
        let replica = Redis::with(&["--replicaof", &of]);
        until("the replica catches up", || has_replication_field(&replica, "master_link_status", "up"));
        let sentinels: Vec<_> = (0..3).map(|_| Sentinel::start(master.address())).collect();
        for sentinel in &sentinels {
            sentinel.await_discovery();
        }
        Self { master, replica, replication_relay: between, sentinels }
    }

    /// Returns the list of Redis URLs for a server's configuration. The first address is unreachable.
    #[must_use]
    pub fn url(&self) -> String {
        let addresses = [free_address()].into_iter().chain(self.sentinels.iter().map(|one| one.address));
        addresses.map(|address| format!("redis://{address}")).collect::<Vec<_>>().join(",")
    }

    /// Kills the master and waits until the replica has been promoted.
    ///
    /// # Panics
    /// Panics if it is not.
    #[track_caller]
    pub fn fail_over(&mut self) {
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
    #[track_caller]
    fn start(master: SocketAddr) -> Self {
        let (address, directory) =
            (free_address(), TempDir::new().expect("a temporary directory can be created"));
        let settings = format!(
            "bind 127.0.0.1\nport {}\nrequirepass {PASSWORD}\nsentinel sentinel-pass {PASSWORD}\n\
             sentinel monitor {MASTER} {} {} 2\nsentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}\n\
             sentinel failover-timeout {MASTER} 60000\n",
            address.port(),
            master.ip(),
            master.port(),
        );
        let path = directory.path().join("sentinel.conf");
        fs::write(&path, settings).expect("the file can be written");
        let child = Command::new("redis-server")
            .arg(path)
            .arg("--sentinel")
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process = Process::new(child.expect("redis-server is installed (tests/run installs it)"));
        Self { _process: process, _directory: directory, address }
    }

    /// Waits until this Sentinel knows the replica and the two other Sentinels.
    #[track_caller]
    fn await_discovery(&self) {
        eventually("a Sentinel knows the replica and the other Sentinels", || {
            let mut connection = self.connect().ok()?;
            let mut command = redis::cmd("SENTINEL");
            let known: Vec<(String, String)> =
                command.arg(&["MASTER", MASTER]).query(&mut connection).ok()?;
            let has = |key: &str, value: &str| known.iter().any(|(one, other)| one == key && other == value);
            let knows_all =
                has("num-slaves", "1") && has("num-other-sentinels", "2") && has("flags", "master");
            knows_all.then_some(())
        });
    }

    fn connect(&self) -> redis::RedisResult<Connection> {
        Client::open(format!("redis://:{PASSWORD}@{}", self.address))?.get_connection()
    }
}
