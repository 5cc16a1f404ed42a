//! The server: its listeners, its threads, and the services that its handlers share.

mod accepting;
pub(crate) mod assembly;
pub mod documented;
mod drain;
pub(crate) mod expiry;
mod listeners;
pub(crate) mod parking_threads;
pub(crate) mod persistence;
mod watchdog;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use encke_base::entropy::Entropy;
use encke_base::executor::Executor;
use encke_base::metrics::Metrics;
use encke_base::process::systemd::Supervisor;
use encke_broker::engine::EvictsKeys;
use encke_timeouts::clock::Clock;
use encke_timeouts::{DISPATCH_BATCHES, Timeouts, WheelThread, WorkerPool};
use rustix::process::{Resource, getrlimit};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::admin::{self, LogLinesDropped, live};
use crate::config::Config;
use crate::events::{HookSink, Hooks, Sinks, Webhooks};
use crate::public;
use crate::snapshot::{SnapshotLock, SnapshotLockError};
use accepting::{accept_admins, accept_clients};
use expiry::ExpiryDispatcher;
pub use listeners::{ListenError, Listeners};
use parking_threads::ParkingThreads;
use persistence::restore;

/// Grace period for tasks that are still running after the drain. When it ends, they are dropped.
const RUNTIME_SHUTDOWN: Duration = Duration::from_millis(200);

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Listening on an address failed.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The engine cannot store channels.
    #[error(transparent)]
    Engine(#[from] EvictsKeys),
    /// Starting a thread failed.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    /// Another process is using the snapshot, or locking the snapshot failed.
    #[error(transparent)]
    Claim(#[from] SnapshotLockError),
    /// The snapshot cannot be removed, so it might be read twice.
    #[error("cannot remove the snapshot: {0} (shutdown.snapshot)")]
    Snapshot(io::Error),
}

/// A running server.
pub struct Server {
    public: Arc<public::Context>,
    /// How long clients have to disconnect during a drain.
    drain: Duration,
    /// Lock on the snapshot through which sessions are passed to the next process.
    snapshot: Option<SnapshotLock>,
    /// How long the wheel may stand still before the process is considered unhealthy.
    stalled_after: Duration,
    runtime: Runtime,
    wheel: WheelThread,
    workers: WorkerPool,
    parking: ParkingThreads,
    webhooks: Option<Arc<Webhooks>>,
    /// Addresses of the public and the admin listener.
    addresses: (SocketAddr, SocketAddr),
    admin_tls: bool,
}

impl Server {
    /// Listens on both addresses and starts all threads.
    ///
    /// # Errors
    /// Returns [`StartError`] if the server cannot start; nothing is left running.
    pub fn start(
        config: Config,
        hooks: Box<dyn Hooks>,
        log_lines_dropped: LogLinesDropped,
    ) -> Result<Self, StartError> {
        let listeners = Listeners::bind(&config)?;
        let claimed = Self::claim_snapshot(&config, || false)?;
        Self::start_on(listeners, claimed, config, hooks, log_lines_dropped)
    }

    /// Locks the snapshot, if one is configured. If another process, presumably this one's predecessor, has
    /// locked it, waits for up to [`Config::listen_wait`], or until `is_cancelled` returns `true`.
    ///
    /// # Errors
    /// Returns [`SnapshotLockError`] if the snapshot cannot be locked.
    pub fn claim_snapshot(
        config: &Config,
        is_cancelled: impl FnMut() -> bool,
    ) -> Result<Option<SnapshotLock>, SnapshotLockError> {
        let settings = config.snapshot.as_ref();
        settings.map(|settings| SnapshotLock::acquire(settings, config.listen_wait, is_cancelled)).transpose()
    }

    /// Restores the sessions of the previous process, if there is a snapshot, then starts all threads and
    /// serves clients.
    ///
    /// # Errors
    /// Returns [`StartError`] if the server cannot start; nothing is left running.
    pub fn start_on(
        listeners: Listeners,
        snapshot: Option<SnapshotLock>,
        config: Config,
        hooks: Box<dyn Hooks>,
        log_lines_dropped: LogLinesDropped,
    ) -> Result<Self, StartError> {
        let config = within_descriptors(config);
        // Leave out `enable_time`, so that tasks cannot use any timer but the wheel.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().thread_name("encke-io").enable_io().build()?;
        let addresses = (listeners.public.address, listeners.admin.address);

        let clock = Arc::new(Clock::new(config.timers.stall_threshold));
        let (timeouts, to_arm) =
            Timeouts::new(clock, config.timers.ping_slack, config.limits.session_slots());
        let (entropy, metrics) = (Entropy::system(), Arc::new(Metrics::new()));
        let webhooks = Webhooks::new(&config.webhooks, &timeouts, &entropy, &metrics);
        let sinks = Sinks::combine(HookSink(hooks), webhooks.as_ref(), metrics);
        let executor: Arc<dyn Executor> = Arc::new(runtime.handle().clone());
        let mut client =
            assembly::client_services(&config, Arc::clone(&timeouts), entropy, Arc::clone(&executor), sinks);
        client.parking = parking_threads::create_parking(config.park_after, runtime.handle())?;
        let client = Arc::new(client);
        client.authorise_token_joins();
        public::accept_forwarded(&client);
        // If an error occurs after this point, the snapshot is put back.
        let (channels, taken) = match &snapshot {
            Some(claimed) => restore(claimed, &client).map_err(StartError::Snapshot)?,
            None => (Vec::new(), None),
        };
        client.logs.engine.adopt_restored(channels);
        let (sender, batches) = crossbeam_channel::bounded(DISPATCH_BATCHES);
        if let Some(webhooks) = &webhooks {
            webhooks.start(&*executor);
        }
        if let Some(issuer) = &client.access.issuer {
            issuer.start(&*executor);
        }
        if let Some(tracer) = &client.tracer {
            tracer.start(&*executor);
        }
        let handler = ExpiryDispatcher { services: Arc::clone(&client), executor };
        let parking = ParkingThreads::start(&client)?;
        let workers = WorkerPool::start(config.timers.workers, &batches, &Arc::new(handler), &timeouts)?;
        let wheel = WheelThread::start(config.wheel_settings(), Arc::clone(&timeouts), to_arm, sender)?;
        if let Some(engine) = &client.engine_health
            && let Err(refusal) = runtime.block_on(engine.first_attempt())
        {
            runtime.shutdown_timeout(RUNTIME_SHUTDOWN);
            wheel.stop();
            workers.join();
            return Err(refusal.into());
        }
        if let Some(taken) = taken {
            taken.remove().map_err(StartError::Snapshot)?;
        }
        client.reminders.arm_restored();
        client.sessions.subscriptions.join_leave().start();

        let stop = CancellationToken::new();
        let public = Arc::new(assembly::public(&config, client, stop));
        let admin =
            Arc::new(assembly::admin(&config, &public, addresses.0.port(), batches, log_lines_dropped));
        admin::accept_forwarded(&admin);
        let below = config.limits.descriptors.below;
        runtime.spawn(accept_clients(listeners.public, Arc::clone(&public), below));
        runtime.spawn(live::run(Arc::clone(&admin)));
        runtime.spawn(accept_admins(listeners.admin, admin));
        Ok(Self {
            public,
            drain: config.drain,
            snapshot,
            stalled_after: config.timers.watchdog,
            runtime,
            wheel,
            workers,
            parking,
            webhooks,
            addresses,
            admin_tls: config.tls_for_admin,
        })
    }

    /// Returns the address that clients connect to.
    #[must_use]
    pub fn public_address(&self) -> SocketAddr {
        self.addresses.0
    }

    /// Returns the address of the admin API.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.addresses.1
    }

    /// Reloads everything that can be replaced while the server runs: the TLS certificate, and the keys that
    /// the token issuer publishes. Open connections keep their certificate. Unusable input is logged, and the
    /// old data stays in use. `reloading` is dropped once the certificate has been reloaded.
    pub fn reload(&self, reloading: impl Send + 'static) {
        if let Some(issuer) = &self.public.client.access.issuer {
            issuer.request_reload();
        }
        match &self.public.tls {
            Some(tls) => tls.reload_in_background(reloading),
            None => tracing::info!("no certificate to reload: TLS is not configured"),
        }
    }

    /// Sends keep-alives to the supervisor while the process is healthy. Does nothing if the supervisor has
    /// no watchdog.
    pub fn feed_watchdog(&self, supervisor: Supervisor) {
        if let Some(within) = supervisor.watchdog() {
            let context = Arc::clone(&self.public.client);
            self.runtime.spawn(watchdog::send_keep_alives(supervisor, within, context, self.stalled_after));
        }
    }

    /// Whether clients connect over TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.public.tls.is_some()
    }

    /// Whether clients must present a token.
    #[must_use]
    pub fn needs_token(&self) -> bool {
        self.public.client.access.auth.needs_token()
    }

    /// Whether the backend authenticates clients.
    #[must_use]
    pub fn has_connect_hook(&self) -> bool {
        self.public.client.access.has_connect_hook()
    }

    /// Whether the admin API is served over TLS.
    #[must_use]
    pub fn admin_has_tls(&self) -> bool {
        self.admin_tls
    }

    /// Stops all threads, and closes open connections.
    pub fn stop(self) {
        self.runtime.shutdown_timeout(RUNTIME_SHUTDOWN);
        self.wheel.stop();
        self.workers.join();
        self.parking.stop();
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("public", &self.addresses.0)
            .field("admin", &self.addresses.1)
            .finish_non_exhaustive()
    }
}

/// Returns the configuration with its limits reduced to what the process's file descriptors allow.
fn within_descriptors(mut config: Config) -> Config {
    if let Some(descriptors) = getrlimit(Resource::Nofile).current {
        config.fit_descriptors(descriptors);
        let connections = config.limits.max_connections.min(config.limits.descriptors.connections);
        tracing::info!(descriptors, connections, "connection limit");
    }
    config
}
