//! A Redis, a replica of it, and three Sentinels that make the replica the master when the Redis is gone.

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

/// What the Sentinels call it.
pub const MASTER: &str = "encke-tests";

/// What they want to be told by those who ask.
pub const PASSWORD: &str = "hunter2";

/// See the [module](self).
#[derive(Debug)]
pub struct Sentinels {
    /// Until it is killed.
    pub master: Redis,
    /// Then this is.
    pub replica: Redis,
    /// What the master sends to the replica goes through this.
    pub between: Relay,
    sentinels: Vec<Sentinel>,
}

#[derive(Debug)]
struct Sentinel {
    _process: Process,
    _directory: TempDir,
    address: SocketAddr,
}

/// After so long without an answer a master is gone. A busy machine answers late.
const GONE_AFTER_MS: u32 = 2000;

/// Until there is another master, and everyone knows.
const FAILOVER: Duration = Duration::from_secs(60);

impl Default for Sentinels {
    fn default() -> Self {
        Self::start()
    }
}

impl Sentinels {
    /// Starts all of it, and waits until everyone knows everyone.
    ///
    /// # Panics
    /// When that does not come about.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        let master = Redis::start();
        let between = Relay::new(master.address(), || Fate::Whole);
        let from = between.address;
        let of = format!("{} {}", from.ip(), from.port());
        let replica = Redis::with(&["--replicaof", &of]);
        until("the replica has caught up", || says(&replica, "master_link_status", "up"));
        let sentinels: Vec<_> = (0..3).map(|_| Sentinel::start(master.address())).collect();
        for sentinel in &sentinels {
            sentinel.await_acquainted();
        }
        Self { master, replica, between, sentinels }
    }

    /// Where servers find them; the first is nowhere.
    #[must_use]
    pub fn url(&self) -> String {
        let addresses = [free_address()].into_iter().chain(self.sentinels.iter().map(|one| one.address));
        addresses.map(|address| format!("redis://{address}")).collect::<Vec<_>>().join(",")
    }

    /// The master is killed. Returns when the replica has taken over.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn fail_over(&mut self) {
        self.master.kill();
        eventually_within(FAILOVER, "the replica takes over", || {
            says(&self.replica, "role", "master").then_some(())
        });
    }
}

/// Whether a Redis says this of itself.
fn says(redis: &Redis, what: &str, value: &str) -> bool {
    // Whoever is connected to a Redis that becomes a master loses the connection.
    let text = redis
        .try_connect()
        .and_then(|mut connection| redis::cmd("INFO").arg("replication").query::<String>(&mut connection));
    let line = format!("{what}:{value}");
    text.is_ok_and(|text| text.lines().any(|other| other == line))
}

impl Sentinel {
    #[track_caller]
    fn start(master: SocketAddr) -> Self {
        let (address, directory) = (free_address(), TempDir::new().expect("a temporary directory"));
        let settings = format!(
            "bind 127.0.0.1\nport {}\nrequirepass {PASSWORD}\nsentinel sentinel-pass {PASSWORD}\n\
             sentinel monitor {MASTER} {} {} 2\nsentinel down-after-milliseconds {MASTER} {GONE_AFTER_MS}\n\
             sentinel failover-timeout {MASTER} 60000\n",
            address.port(),
            master.ip(),
            master.port(),
        );
        let path = directory.path().join("sentinel.conf");
        fs::write(&path, settings).expect("there is room for a file");
        let child = Command::new("redis-server")
            .arg(path)
            .arg("--sentinel")
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process = Process::new(child.expect("redis-server is installed (tests/run sees to it)"));
        Self { _process: process, _directory: directory, address }
    }

    /// Waits until it knows the replica and the other two.
    #[track_caller]
    fn await_acquainted(&self) {
        eventually("a Sentinel knows everyone", || {
            let mut connection = self.connect().ok()?;
            let mut question = redis::cmd("SENTINEL");
            let known: Vec<(String, String)> =
                question.arg(&["MASTER", MASTER]).query(&mut connection).ok()?;
            let says = |key: &str, value: &str| known.iter().any(|(one, other)| one == key && other == value);
            let everyone =
                says("num-slaves", "1") && says("num-other-sentinels", "2") && says("flags", "master");
            everyone.then_some(())
        });
    }

    fn connect(&self) -> redis::RedisResult<Connection> {
        Client::open(format!("redis://:{PASSWORD}@{}", self.address))?.get_connection()
    }
}
