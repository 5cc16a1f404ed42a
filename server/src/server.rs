use std::future::IntoFuture;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use rustix::process::{Resource, getrlimit};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::accepting::{accept_admins, accept_clients};
use crate::admin::{LogLinesDropped, live};
use crate::client;
use crate::clock::Clock;
use crate::config::Config;
use crate::context;
use crate::engine::EvictsKeys;
use crate::entropy::Entropy;
use crate::events::{HookSink, Hooks, Sinks, Webhooks};
use crate::executor::Executor;
use crate::expiry::ExpiryHandler;
use crate::listeners::{ListenError, Listeners};
use crate::metrics::Metrics;
use crate::public;
use crate::resting::{self, Resting};
use crate::session::Channel;
use crate::snapshot::{self, ClaimError, Claimed, Kept, Loaded, Taken};
use crate::systemd::Supervisor;
use crate::timeouts::{DISPATCH_BATCHES, Timeouts, WheelThread, WorkerPool};
use crate::watchdog;

/// How long tasks that are still running after the drain get to notice that they are dropped.
const RUNTIME_SHUTDOWN: Duration = Duration::from_millis(200);

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Channels cannot live there.
    #[error(transparent)]
    Engine(#[from] EvictsKeys),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    /// Another process has the snapshot, or it cannot be had at all.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The snapshot cannot be taken away, so that it might be read twice.
    #[error("cannot take the snapshot: {0} (shutdown.snapshot)")]
    Snapshot(io::Error),
}

/// A running server.
pub struct Server {
    public: Arc<public::Context>,
    /// How long clients have to leave.
    drain: Duration,
    /// Where sessions wait for the next process.
    snapshot: Option<Claimed>,
    /// When the wheel has not turned for this long, the process is not well.
    stalled_after: Duration,
    runtime: Runtime,
    wheel: WheelThread,
    workers: WorkerPool,
    resting: Resting,
    webhooks: Option<Arc<Webhooks>>,
    /// Of the public and of the admin listener.
    addresses: (SocketAddr, SocketAddr),
    admin_tls: bool,
}

impl Server {
    /// Listens and starts all threads.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub fn start(
        config: Config,
        hooks: Box<dyn Hooks>,
        log_lines_dropped: LogLinesDropped,
    ) -> Result<Self, StartError> {
        let listeners = Listeners::bind(&config)?;
        let claimed = Self::claim_snapshot(&config, || false)?;
        Self::start_on(listeners, claimed, config, hooks, log_lines_dropped)
    }

    /// Takes the lock of the snapshot, if there is to be one. While another process has it, presumably the one that this follows, it
    /// waits for [`Config::listen_wait`], or until `is_over`.
    ///
    /// # Errors
    /// [`ClaimError`].
    pub fn claim_snapshot(
        config: &Config,
        is_over: impl FnMut() -> bool,
    ) -> Result<Option<Claimed>, ClaimError> {
        let settings = config.snapshot.as_ref();
        settings.map(|settings| Claimed::when_free(settings, config.listen_wait, is_over)).transpose()
    }

    /// Goes on with the sessions of the process before, if there is a snapshot, starts all threads, and serves all that come.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub fn start_on(
        listeners: Listeners,
        snapshot: Option<Claimed>,
        config: Config,
        hooks: Box<dyn Hooks>,
        log_lines_dropped: LogLinesDropped,
    ) -> Result<Self, StartError> {
        let config = within_descriptors(config);
        // Without `enable_time`: no task can wait on another timer than the wheel.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().thread_name("encke-io").enable_io().build()?;
        let addresses = (listeners.public.address, listeners.admin.address);

        let clock = Arc::new(Clock::new(config.timers.stall_threshold));
        let (timeouts, to_arm) = Timeouts::new(clock, config.timers.ping_slack, config.limits.slots());
        let (entropy, metrics) = (Entropy::system(), Arc::new(Metrics::new()));
        let webhooks = Webhooks::new(&config.webhooks, &timeouts, &entropy, &metrics);
        let sinks = Sinks::of(HookSink(hooks), webhooks.as_ref(), metrics);
        let executor: Arc<dyn Executor> = Arc::new(runtime.handle().clone());
        let mut client =
            context::client(&config, Arc::clone(&timeouts), entropy, Arc::clone(&executor), sinks);
        client.rest = resting::rest(config.rest_after, runtime.handle())?;
        let client = Arc::new(client);
        // From here on an error puts the snapshot back.
        let (channels, taken) = match &snapshot {
            Some(claimed) => go_on(claimed, &client).map_err(StartError::Snapshot)?,
            None => (Vec::new(), None),
        };
        client.logs.engine.go_on_with(channels);
        let (sender, batches) = crossbeam_channel::bounded(DISPATCH_BATCHES);
        if let Some(webhooks) = &webhooks {
            webhooks.start(&*executor);
        }
        if let Some(issuer) = &client.issuer {
            issuer.start(&*executor);
        }
        #[cfg(feature = "otlp")]
        if let Some(tracer) = &client.tracer {
            tracer.start(&*executor);
        }
        let handler = ExpiryHandler { context: Arc::clone(&client), executor };
        let resting = Resting::start(&client)?;
        let workers = WorkerPool::start(config.timers.workers, &batches, &Arc::new(handler), &timeouts)?;
        let wheel = WheelThread::start(config.wheel(), Arc::clone(&timeouts), to_arm, sender)?;
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
        client.reminders.begin();
        client.sessions.begin_telling();

        let stop = CancellationToken::new();
        let public = Arc::new(context::public(&config, client, stop));
        let admin =
            Arc::new(context::admin(&config, &public, addresses.0.port(), batches, log_lines_dropped));
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
            resting,
            webhooks,
            addresses,
            admin_tls: config.tls_for_admin,
        })
    }

    /// Where clients connect.
    #[must_use]
    pub fn public_address(&self) -> SocketAddr {
        self.addresses.0
    }

    /// Where the admin API is.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.addresses.1
    }

    /// Reloads what can be exchanged while the server runs: the certificate of TLS, and the keys that the issuer of tokens publishes. Open
    /// connections keep theirs. What cannot be used is logged, and the old stays. `reloading` is dropped when that is over for the certificate.
    pub fn reload(&self, reloading: impl Send + 'static) {
        if let Some(issuer) = &self.public.client.issuer {
            issuer.read_again();
        }
        match &self.public.tls {
            Some(tls) => tls.reload_aside(reloading),
            None => tracing::info!("nothing to reload: there is no certificate"),
        }
    }

    /// Tells the supervisor again and again that the process is well, if it wants to hear that, for as long as it is.
    pub fn feed_watchdog(&self, supervisor: Supervisor) {
        if let Some(within) = supervisor.watchdog() {
            let context = Arc::clone(&self.public.client);
            self.runtime.spawn(watchdog::feed(supervisor, within, context, self.stalled_after));
        }
    }

    /// Whether clients connect by TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.public.tls.is_some()
    }

    /// Whether the admin API is served by TLS.
    #[must_use]
    pub fn admin_has_tls(&self) -> bool {
        self.admin_tls
    }

    /// Stops accepting, ends every session, and waits for the connections to close: at most
    /// [`Config::drain`]. Returns how many were left then.
    ///
    /// With a snapshot, nothing more is published, sessions are suspended instead, and it is written once the connections are closed: until
    /// then some may still tell what their clients have not got.
    pub fn drain(&self) -> usize {
        let public::Context { client, connections, stop, .. } = &*self.public;
        let until = client.timeouts.clock().now() + self.drain;
        stop.cancel();
        match &self.snapshot {
            Some(_) => {
                // Before the channels: what is due and was not published is for the next process.
                client.reminders.close();
                client.sessions.stop_telling();
                client.logs.channels.close();
                client.sessions.move_all();
            }
            None => client.sessions.drain(),
        }
        if let Some(webhooks) = &self.webhooks {
            webhooks.hurry();
        }
        #[cfg(feature = "otlp")]
        if let Some(tracer) = &client.tracer {
            tracer.hurry();
        }
        let left = self.runtime.block_on(async {
            let timeout = client.timeouts.sleep_until(until);
            match select(timeout, pin!(self.all_have_left())).await {
                Either::Left(_) => connections.count(),
                Either::Right(_) => 0,
            }
        });
        if let Some(events) =
            self.webhooks.as_ref().map(|webhooks| webhooks.queued()).filter(|events| *events > 0)
        {
            tracing::error!(events, "events are lost that no webhook has accepted");
        }
        #[cfg(feature = "otlp")]
        if let Some(spans) = client.tracer.as_ref().map(|tracer| tracer.queued()).filter(|spans| *spans > 0) {
            tracing::warn!(spans, "traces are lost that the collector has not accepted");
        }
        if let Some(claimed) = &self.snapshot {
            write_down(claimed, client);
        }
        self.runtime.block_on(client.logs.engine.leave().into_future());
        left
    }

    /// Waits until all connections are closed, reminders that were due are carried out, leaves are told, and webhooks have been told so.
    async fn all_have_left(&self) {
        self.public.connections.all_closed().await;
        self.public.client.reminders.settled().await;
        self.public.client.sessions.all_told().await;
        if let Some(webhooks) = &self.webhooks {
            webhooks.flushed().await;
        }
        #[cfg(feature = "otlp")]
        if let Some(tracer) = &self.public.client.tracer {
            tracer.flushed().await;
        }
    }

    /// Stops all threads. Connections that are still there are cut.
    pub fn stop(self) {
        self.runtime.shutdown_timeout(RUNTIME_SHUTDOWN);
        self.wheel.stop();
        self.workers.join();
        self.resting.stop();
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

/// The configuration with limits that the descriptors of the process allow.
fn within_descriptors(mut config: Config) -> Config {
    if let Some(descriptors) = getrlimit(Resource::Nofile).current {
        config.fit_into(descriptors);
        let connections = config.limits.max_connections.min(config.limits.descriptors.connections);
        tracing::info!(descriptors, connections, "room for connections");
    }
    config
}

fn kept(client: &client::Context) -> Kept {
    Kept {
        sessions: Arc::clone(&client.sessions),
        channels: Arc::clone(&client.logs.channels),
        reminders: Arc::clone(&client.reminders),
    }
}

/// Goes on with what the process before has left. Returns the channels that its engine is to go on with, and the file.
fn go_on(claimed: &Claimed, client: &client::Context) -> io::Result<(Vec<Arc<Channel>>, Option<Taken>)> {
    let path = claimed.settings().path.display();
    match snapshot::load(claimed.settings(), &kept(client), client.timeouts.clock().unix_now())? {
        Loaded::Nothing => tracing::info!(%path, "there is no snapshot"),
        Loaded::All { logs, sessions, skipped, age, channels, taken } => {
            tracing::info!(%path, logs, sessions, skipped, ?age, "the snapshot was read");
            return Ok((channels, Some(taken)));
        }
        Loaded::TooOld { aside, age } => {
            tracing::warn!(%path, ?age, aside = %aside.display(), "the snapshot is too old");
        }
        Loaded::Unreadable { aside, error } => {
            tracing::error!(%path, %error, aside = %aside.display(), "the snapshot cannot be read");
        }
    }
    Ok((Vec::new(), None))
}

fn write_down(claimed: &Claimed, client: &client::Context) {
    let path = &claimed.settings().path;
    let clock = client.timeouts.clock();
    let begun = clock.uptime();
    match snapshot::write(path, &kept(client), clock.unix_now()) {
        Ok((logs, sessions)) => {
            let took = clock.uptime().saturating_sub(begun);
            tracing::info!(path = %path.display(), logs, sessions, ?took, "the snapshot was written");
        }
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "the snapshot was not written: sessions end here")
        }
    }
}
