use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crossbeam_channel::Receiver;
use encke_core::Timestamp;
use futures_util::future::{Either, select};
use tokio::runtime::Runtime;

use crate::channel::Channels;
use crate::clock::Clock;
use crate::config::Config;
use crate::entropy::Entropy;
use crate::executor::Executor;
use crate::http::{self, Listener};
use crate::metrics::{Metrics, Readings};
use crate::session::{Hooks, SessionLimits, Sessions};
use crate::shutdown::{Connections, Flag};
use crate::timeouts::{
    ActOnExpiry, Batch, DISPATCH_BATCHES, Timeouts, TimerCell, TimerName, WheelThread, WorkerPool,
};
use crate::transport::Places;

/// How long tasks that are still there after the drain get to notice that they are dropped.
const RUNTIME_SHUTDOWN: Duration = Duration::from_millis(200);

/// What every connection and every handler sees.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) timeouts: Arc<Timeouts>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) channels: Arc<Channels>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) places: Arc<Places>,
    /// Sockets of one address, if connections of one are limited.
    pub(crate) sockets: Option<Arc<Places>>,
    pub(crate) connections: Connections,
    pub(crate) entropy: Entropy,
    pub(crate) stop_accepting: Flag,
    batches: Receiver<Batch>,
    log_lines_dropped: LogLinesDropped,
}

/// Reads how many log lines were dropped.
pub type LogLinesDropped = Box<dyn Fn() -> u64 + Send + Sync>;

impl Shared {
    /// Messages of expiries on their way to the workers.
    pub(crate) fn dispatch_depth(&self) -> usize {
        self.batches.len()
    }

    pub(crate) fn readings(&self) -> Readings<'_> {
        Readings {
            timeouts: &self.timeouts,
            channels: &self.channels,
            dispatch_depth: self.dispatch_depth(),
            log_lines_dropped: (self.log_lines_dropped)(),
        }
    }
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's word.
        error: io::Error,
    },
    /// There is no thread to be had.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// A running server.
pub struct Server {
    shared: Arc<Shared>,
    runtime: Runtime,
    wheel: WheelThread,
    workers: WorkerPool,
    public: SocketAddr,
    admin: SocketAddr,
}

impl Server {
    /// Starts all threads and listens.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub fn start(
        config: Config,
        hooks: Box<dyn Hooks>,
        log_lines_dropped: LogLinesDropped,
    ) -> Result<Self, StartError> {
        // Without `enable_time`: no task can wait on another timer than the wheel.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().thread_name("encke-io").enable_io().build()?;
        let bind = |address| {
            let _within = runtime.enter();
            Listener::bind(address, &config).map_err(|error| StartError::Listen { address, error })
        };
        let (public, admin) = (bind(config.public)?, bind(config.admin)?);
        let (public_address, admin_address) = (public.address, admin.address);

        let clock = Arc::new(Clock::new(config.timers.stall_threshold));
        let (timeouts, names) = Timeouts::new(clock, config.timers.ping_slack);
        let metrics = Arc::new(Metrics::new());
        let entropy = Entropy::system();
        let executor: Arc<dyn Executor> = Arc::new(runtime.handle().clone());
        let channels = Arc::new(Channels::new(
            config.limits.max_channels,
            config.channel.log.clone(),
            Arc::clone(&timeouts),
            Arc::clone(&metrics),
            entropy.clone(),
            Arc::clone(&executor),
        ));
        let sessions = Arc::new(Sessions::new(
            SessionLimits {
                sessions: config.limits.max_sessions,
                unacked: config.max_unacked,
                subscriptions: config.limits.max_subscriptions,
            },
            Arc::clone(&timeouts),
            config.session.clone(),
            Arc::clone(&channels),
            Arc::clone(&metrics),
            entropy.clone(),
            hooks,
        ));
        let (sender, batches) = crossbeam_channel::bounded(DISPATCH_BATCHES);
        let actor = Actor {
            sessions: Arc::clone(&sessions),
            channels: Arc::clone(&channels),
            timeouts: Arc::clone(&timeouts),
            metrics: Arc::clone(&metrics),
            executor,
        };
        let workers = WorkerPool::start(config.timers.workers, &batches, &Arc::new(actor))?;
        let wheel = WheelThread::start(config.timers.wheel(), Arc::clone(&timeouts), names, sender)?;

        let limit_each = config.limits.max_connections_per_address;
        let shared = Arc::new(Shared {
            places: Places::new(config.limits.max_connections, limit_each),
            sockets: (limit_each != usize::MAX).then(|| Places::new(usize::MAX, sockets_each(limit_each))),
            config,
            timeouts,
            sessions,
            channels,
            metrics,
            connections: Connections::default(),
            entropy,
            stop_accepting: Flag::new(),
            batches,
            log_lines_dropped,
        });
        runtime.spawn(http::accept(public, Arc::clone(&shared), http::public::serve));
        runtime.spawn(http::accept_to_the_end(admin, Arc::clone(&shared), http::admin::serve));
        Ok(Self { shared, runtime, wheel, workers, public: public_address, admin: admin_address })
    }

    /// Where clients connect.
    #[must_use]
    pub fn public_address(&self) -> SocketAddr {
        self.public
    }

    /// Where the admin API is.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin
    }

    /// Reads anew what can be exchanged while the server runs: the certificate of TLS. Connections that are there keep
    /// theirs. What cannot be used is logged, and the old stays.
    pub fn reload(&self) {
        let Some(tls) = &self.shared.config.tls else {
            tracing::info!("nothing to reload: there is no certificate");
            return;
        };
        match tls.reload() {
            Ok(()) => tracing::info!("certificate reloaded"),
            Err(error) => tracing::error!(setting = error.setting(), %error, "the old certificate stays"),
        }
    }

    /// Whether clients connect by TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.shared.config.tls.is_some()
    }

    /// Stops accepting, ends every session, and waits for the connections to close: at most
    /// [`Config::drain`]. Returns how many were left then.
    pub fn drain(&self) -> usize {
        let shared = &self.shared;
        let until = shared.timeouts.clock().now() + shared.config.drain;
        shared.stop_accepting.set();
        shared.sessions.drain();
        self.runtime.block_on(async {
            let patience = pin!(shared.timeouts.sleep_until(until));
            match select(patience, pin!(shared.connections.all_closed())).await {
                Either::Left(_) => shared.connections.open(),
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
            .field("public", &self.public)
            .field("admin", &self.admin)
            .finish_non_exhaustive()
    }
}

/// What the workers do.
struct Actor {
    sessions: Arc<Sessions>,
    channels: Arc<Channels>,
    timeouts: Arc<Timeouts>,
    metrics: Arc<Metrics>,
    executor: Arc<dyn Executor>,
}

impl ActOnExpiry for Actor {
    fn act(&self, cell: &TimerCell, wakers: &mut Vec<Waker>) {
        match &cell.name {
            TimerName::Session(session) => {
                if let Some(session) = session.upgrade() {
                    self.sessions.handle_timeout(&session, wakers);
                }
            }
            TimerName::Sleep(id) => {
                wakers.extend(self.timeouts.take_sleeper(*id));
                self.metrics.sleep_fired();
            }
            TimerName::Log(channel) => {
                if let Some(channel) = channel.upgrade() {
                    self.channels.handle_timeout(&channel);
                    self.metrics.log_fired();
                }
            }
        }
    }

    /// From outside, each task woken costs the runtime a turn of its lock, and a system call while it sleeps. So one
    /// task goes in and wakes the others from there.
    fn wake(&self, wakers: Vec<Waker>) {
        if wakers.len() > 1 {
            self.executor.spawn(Box::pin(async { wakers.into_iter().for_each(Waker::wake) }));
        } else {
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    fn taken_up(&self, expired_at: Timestamp) {
        self.metrics.batch_taken_up(self.timeouts.clock().now().since(expired_at));
    }
}

/// How many sockets one address may have that may have so many connections: each may be on its way out while its successor is on
/// its way in, and whoever is refused must be told so first.
fn sockets_each(connections_each: usize) -> usize {
    const ON_THEIR_WAY: usize = 16;
    connections_each.saturating_mul(2).saturating_add(ON_THEIR_WAY)
}
