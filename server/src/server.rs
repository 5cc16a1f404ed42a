use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::admin::{self, LogLinesDropped};
use crate::client;
use crate::clock::Clock;
use crate::config::Config;
use crate::context;
use crate::entropy::Entropy;
use crate::events::{HookSink, Hooks};
use crate::executor::Executor;
use crate::expiry::ExpiryHandler;
use crate::http::{Acceptor, Listener};
use crate::listeners::{ListenError, Listeners};
use crate::public;
use crate::timeouts::{DISPATCH_BATCHES, Timeouts, WheelThread, WorkerPool};

/// How long tasks that are still running after the drain get to notice that they are dropped.
const RUNTIME_SHUTDOWN: Duration = Duration::from_millis(200);

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// A running server.
pub struct Server {
    public: Arc<public::Context>,
    /// How long clients have to leave.
    drain: Duration,
    runtime: Runtime,
    wheel: WheelThread,
    workers: WorkerPool,
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
        Self::start_on(listeners, config, hooks, log_lines_dropped)
    }

    /// Starts all threads, and serves all that come.
    ///
    /// # Errors
    /// [`StartError::Thread`]; nothing is left running.
    pub fn start_on(
        listeners: Listeners,
        config: Config,
        hooks: Box<dyn Hooks>,
        log_lines_dropped: LogLinesDropped,
    ) -> Result<Self, StartError> {
        // Without `enable_time`: no task can wait on another timer than the wheel.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().thread_name("encke-io").enable_io().build()?;
        let addresses = (listeners.public.address, listeners.admin.address);

        let clock = Arc::new(Clock::new(config.timers.stall_threshold));
        let (timeouts, to_arm) = Timeouts::new(clock, config.timers.ping_slack);
        let events = Box::new(HookSink(hooks));
        let executor: Arc<dyn Executor> = Arc::new(runtime.handle().clone());
        let client = Arc::new(context::client(
            &config,
            Arc::clone(&timeouts),
            Entropy::system(),
            Arc::clone(&executor),
            events,
        ));
        let (sender, batches) = crossbeam_channel::bounded(DISPATCH_BATCHES);
        let handler = ExpiryHandler { context: Arc::clone(&client), executor };
        let workers = WorkerPool::start(config.timers.workers, &batches, &Arc::new(handler), &timeouts)?;
        let wheel = WheelThread::start(config.timers.wheel(), Arc::clone(&timeouts), to_arm, sender)?;

        let stop = CancellationToken::new();
        let public = Arc::new(context::public(&config, Arc::clone(&client), stop.clone()));
        let admin = context::admin(&config, client, batches, log_lines_dropped, stop);
        runtime.spawn(accept_clients(listeners.public, Arc::clone(&public)));
        runtime.spawn(accept_admins(listeners.admin, Arc::new(admin)));
        let admin_tls = config.tls_for_admin;
        Ok(Self { public, drain: config.drain, runtime, wheel, workers, addresses, admin_tls })
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

    /// Reloads what can be exchanged while the server runs: the certificate of TLS. Open connections keep theirs. A
    /// certificate that cannot be used is logged, and the old one stays.
    pub fn reload(&self) {
        match &self.public.tls {
            Some(tls) => tls.reload_aside(),
            None => tracing::info!("nothing to reload: there is no certificate"),
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
    pub fn drain(&self) -> usize {
        let public::Context { client, connections, stop, .. } = &*self.public;
        let until = client.timeouts.clock().now() + self.drain;
        stop.cancel();
        client.sessions.drain();
        self.runtime.block_on(async {
            let timeout = pin!(client.timeouts.sleep_until(until));
            match select(timeout, pin!(connections.all_closed())).await {
                Either::Left(_) => connections.count(),
                Either::Right(_) => 0,
            }
        })
    }

    /// Stops all threads. Connections that are still there are cut.
    pub fn stop(self) {
        self.runtime.shutdown_timeout(RUNTIME_SHUTDOWN);
        self.wheel.stop();
        self.workers.join();
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

/// Accepts until the server drains.
async fn accept_clients(listener: Listener, context: Arc<public::Context>) {
    let context = &context;
    let room = || context.handshakes.room(&context.client.timeouts);
    let accepting = acceptor(&context.client).accept(listener, room, |socket, peer| {
        public::serve(socket, peer, Arc::clone(context));
    });
    select(pin!(accepting), pin!(context.stop.cancelled())).await;
}

/// Accepts for as long as the runtime lives.
async fn accept_admins(listener: Listener, context: Arc<admin::Context>) {
    let serve = |socket, peer| admin::serve(socket, peer, Arc::clone(&context));
    // Where there are too many, the oldest gives way.
    let room = || ready(());
    acceptor(&context.client).accept(listener, room, serve).await;
}

fn acceptor(context: &client::Context) -> Acceptor {
    Acceptor { timeouts: Arc::clone(&context.timeouts), metrics: Arc::clone(&context.metrics) }
}
