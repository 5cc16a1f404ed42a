//! The whole server without threads, runtime and listeners: the caller decides which step happens next. Used
//! by the simulation in `tests/sim`; not part of the API, and only built with the feature `simulation`.
//!
//! Timeouts, sessions, channels, dialects and connections are the real code. The caller supplies time, random
//! numbers, sockets and the executor.

mod bayeux;
mod delayed_engine;
mod engine;
#[cfg(test)]
mod panic_tests;
mod polls;
mod restart;
mod socket;
mod views;

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

use encke_base::entropy::Entropy;
use encke_base::executor::{Executor, Runtime, WorkSharing};
use encke_base::parking::{AnyPoller, IdleQueue, Parking, SimulatedPoller};
use encke_base::quota::QuotaOwner;
use encke_broker::channel::ChannelName;
use encke_core::Timestamp;
use encke_core::close::CloseReason;
use encke_core::message::CompactJson;
use encke_core::session::Input;
use encke_timeouts::clock::{Clock, SimulatedTime};
use encke_timeouts::{ExpiryBatch, ExpiryWorker, SteppedWheel, Timeouts};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::Request;
use tokio_util::sync::CancellationToken;

use crate::client::Caller;
use crate::config::Config;
use crate::connection::transport::sse;
use crate::connection::transport::websocket::{self, Upgrade};
use crate::events::{HookSink, Hooks};
use crate::http::Reply;
use crate::public::{self, accept_events, parse_query};
use crate::server::assembly;
use crate::server::expiry::ExpiryDispatcher;
use crate::server::parking_threads::ParkingThreads;
use crate::session::{Arrival, Channel, ChannelKey, SessionRef};

use engine::make_engine;

pub use bayeux::{AcceptedConnect, ConnectRequest};
pub use encke_base::outbound::{SimulatedResponse, SimulatedTarget};
pub use engine::SimulatedEngine;
pub use polls::HeldPoll;
pub use restart::{ReservedSnapshot, RestoreResult};
pub use socket::{SimulatedSocket, SimulatedStream};
pub use views::{ChannelView, MessageView, ServerTotals, SessionView};

/// A task of the server.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Configuration and environment of a simulated server.
#[expect(missing_debug_implementations, reason = "functions do not implement Debug")]
pub struct Parameters {
    /// The configuration. Addresses, TLS and threads do not matter.
    pub config: Config,
    /// Seed for ids, secrets and all other random numbers.
    pub seed: u64,
    /// Source of the monotonic clock and the wall clock.
    pub time: Arc<SimulatedTime>,
    /// Hooks that receive lifecycle events.
    pub hooks: Box<dyn Hooks>,
    /// Spawns the server's own tasks.
    pub spawn: Box<dyn Fn(Task) + Send + Sync>,
    /// Number of tasks that share batch work. If it is greater than 1, each takes one item at a time.
    pub io_threads: usize,
    /// Called to wake the wheel.
    pub wheel_waker: Waker,
    /// Capacity of the queue of expiry batches.
    pub dispatch_batches: usize,
    /// Engine that stores the logs.
    pub engine: SimulatedEngine,
    /// Answers backend hooks, if the configuration has any.
    pub backend: Option<SimulatedTarget>,
}

/// A simulated server.
pub struct SimulatedServer {
    public: Arc<public::Context>,
    wheel: SteppedWheel,
    wheel_state: WheelState,
    worker: ExpiryWorker<ExpiryDispatcher>,
    batches: crossbeam_channel::Receiver<ExpiryBatch>,
    outstanding_answers: Arc<AtomicUsize>,
    poller: Arc<SimulatedPoller>,
    /// Number of requests so far, and of other bytes that arrived.
    arrivals: AtomicU64,
}

/// When a request arrived, relative to others.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestArrival(Arrival);

/// Returns the key that stands for a channel in event ids.
///
/// # Panics
/// If the name is not valid.
#[must_use]
pub fn event_id_key(channel: &str) -> String {
    let name = ChannelName::new(channel, channel.len()).expect("a valid name");
    ChannelKey::of(&name).to_string()
}

/// State of the wheel's loop.
#[derive(Clone, Copy, Debug)]
enum WheelState {
    Awake,
    FallingAsleep(Timestamp),
    Asleep,
}

/// A complete HTTP response: to commands, or to a stream or poll that was rejected.
#[derive(Debug)]
pub struct HttpResponse {
    /// HTTP status.
    pub status: u16,
    /// The whole body.
    pub body: Vec<u8>,
}

impl From<Reply> for HttpResponse {
    fn from(reply: Reply) -> Self {
        let status = reply.status().as_u16();
        let body = futures_util::FutureExt::now_or_never(reply.into_body().collect());
        let body = body.and_then(Result::ok).map(|body| body.to_bytes().to_vec());
        Self { status, body: body.unwrap_or_default() }
    }
}

struct Spawner {
    spawn: Box<dyn Fn(Task) + Send + Sync>,
    io_threads: usize,
}

impl std::fmt::Debug for Spawner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Spawner")
    }
}

impl Executor for Spawner {
    fn spawn(&self, task: Task) {
        (self.spawn)(task);
    }

    fn work_sharing(&self) -> WorkSharing {
        if self.io_threads > 1 {
            WorkSharing::one_by_one(self.io_threads)
        } else {
            WorkSharing::for_threads(1)
        }
    }
}

impl SimulatedServer {
    /// Creates a server that has not started serving.
    #[must_use]
    pub fn new(parameters: Parameters) -> Self {
        let config = parameters.config;
        let clock = Arc::new(Clock::simulated(parameters.time, config.timers.stall_threshold));
        let (timeouts, to_arm) =
            Timeouts::new(clock, config.timers.ping_slack, config.limits.session_slots());
        let outstanding_answers = Arc::new(AtomicUsize::new(0));
        let late = Arc::clone(&outstanding_answers);
        let executor: Arc<dyn Executor> =
            Arc::new(Spawner { spawn: parameters.spawn, io_threads: parameters.io_threads });
        let entropy = Entropy::seeded(parameters.seed);
        let mut client = assembly::client_services_on(
            &config,
            Arc::clone(&timeouts),
            entropy.clone(),
            Arc::clone(&executor),
            Box::new(HookSink(parameters.hooks)),
            |memory| make_engine(parameters.engine, memory, late, entropy, &executor),
        );
        if let Some((backend, target)) = client.access.backend.as_mut().zip(parameters.backend) {
            Arc::get_mut(backend).expect("the backend is not shared yet").simulate(target);
        }
        let poller = Arc::new(SimulatedPoller::default());
        client.parking = config.park_after.map(|after| Parking {
            idle_time: after,
            idle_queue: IdleQueue::default(),
            poller: AnyPoller::Simulated(Arc::clone(&poller)),
            runtime: Runtime::Simulated(Arc::clone(&executor)),
        });
        let client = Arc::new(client);
        client.authorise_token_joins();
        ParkingThreads::start(&client).expect("a simulated poller needs no system resources");
        let (sender, batches) = crossbeam_channel::bounded(parameters.dispatch_batches);
        let handler = Arc::new(ExpiryDispatcher { services: Arc::clone(&client), executor });
        Self {
            public: Arc::new(assembly::public(&config, client, CancellationToken::new())),
            worker: ExpiryWorker::new(0, batches.clone(), handler, Arc::clone(&timeouts)),
            wheel: SteppedWheel::new(
                config.wheel_settings(),
                timeouts,
                to_arm,
                sender,
                parameters.wheel_waker,
            ),
            wheel_state: WheelState::Awake,
            batches,
            outstanding_answers,
            poller,
            arrivals: AtomicU64::default(),
        }
    }

    /// Returns the server's current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.public.client.timeouts.clock().now()
    }

    /// Runs the next step of the wheel's loop: turn, fall asleep, or wake up. If the wheel fell asleep in
    /// this step, returns when to wake it.
    pub fn step_wheel(&mut self) -> Option<Timestamp> {
        match self.wheel_state {
            WheelState::Awake => self.wheel_state = WheelState::FallingAsleep(self.wheel.turn()),
            WheelState::FallingAsleep(until) if self.wheel.prepare_sleep(until) => {
                self.wheel_state = WheelState::Asleep;
                return Some(until);
            }
            WheelState::FallingAsleep(_) | WheelState::Asleep => {
                self.wheel.end_sleep();
                self.wheel_state = WheelState::Awake;
            }
        }
        None
    }

    /// Lets a worker handle one batch of expiries. Returns whether there was one.
    pub fn work(&self) -> bool {
        self.worker.handle_next()
    }

    /// Number of batches in the worker's queue.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Returns whether a parked connection may be readable.
    #[must_use]
    pub fn has_readable(&self) -> bool {
        self.poller.has_events()
    }

    /// Handles one readable parked connection. Several connections may be found readable at the same time,
    /// and are then handled one per call.
    pub fn handle_readable(&self) {
        if let Some((number, since)) = self.poller.next_event(self.now()) {
            self.public.client.sessions.lifecycle.handle_readable(SessionRef::from_u64(number), since);
        }
    }

    /// Closes the process's parked connections, which have no tasks that could close them.
    pub fn close_parked(&self) {
        self.public.client.sessions.lifecycle.close_parked();
    }

    /// Number of outstanding responses from the engine.
    #[must_use]
    pub fn outstanding_answers(&self) -> usize {
        self.outstanding_answers.load(Ordering::Relaxed)
    }

    /// Numbers a request, or bytes, that arrive now. They may be handled after those that arrive later.
    pub fn number_request(&self) -> RequestArrival {
        RequestArrival(Arrival::from_bits(self.arrivals.fetch_add(1, Ordering::Relaxed) + 1))
    }

    /// Serves a WebSocket whose upgrade request arrived earlier, and was just answered with 101.
    pub fn serve_websocket(
        &self,
        socket: impl SimulatedSocket,
        address: IpAddr,
        query: &str,
        arrival: RequestArrival,
    ) -> Task {
        let client = &self.public.client;
        let caller =
            Caller::from_request(&Request::new(()), address, &client.access.auth).with_arrival(arrival.0);
        let open_connection = self.public.connections.enter(None);
        let upgrade = Upgrade { caller, wanted: parse_query(query), open_connection, answer: Vec::new() };
        let upgraded = std::future::ready(Some((socket::Adapter(socket), Vec::new())));
        Box::pin(websocket::serve(upgrade, upgraded, Arc::clone(client)).map(drop))
    }

    /// Serves an event stream whose request arrived earlier.
    ///
    /// # Errors
    /// [`HttpResponse`], if the request is rejected.
    ///
    /// # Panics
    /// If the target is not a valid HTTP target.
    pub fn serve_events(
        &self,
        socket: impl SimulatedSocket,
        address: IpAddr,
        target: &str,
        last_event_id: Option<&str>,
        arrival: RequestArrival,
    ) -> Result<Task, HttpResponse> {
        let client = &self.public.client;
        let mut request = Request::get(target);
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let request = request.body(()).expect("a valid target and header");
        let caller = Caller::from_request(&request, address, &client.access.auth).with_arrival(arrival.0);
        let socket = socket::Adapter(socket);
        let accepted = accept_events(&request, &caller, client, || socket.0.is_over())
            .map_err(|reply| HttpResponse::from(*reply))?;
        let open_connection = self.public.connections.enter(None);
        Ok(Box::pin(sse::serve(socket, accepted, Arc::clone(client), open_connection)))
    }

    /// Publishes a message, as the admin API does. Returns the message's offset.
    ///
    /// # Errors
    /// Why the message was rejected.
    pub fn publish(&self, channel: &str, json: &str) -> Result<u64, String> {
        let client = &self.public.client;
        let name = ChannelName::for_publish(channel, client.settings.channel_name_bytes)
            .map_err(|error| error.to_string())?;
        let data = CompactJson::parse(json).map_err(|error| error.to_string())?;
        let published = client.logs.channels.publish(&name, &QuotaOwner::Operator, &data.into(), None);
        published.map(|published| published.offset).map_err(|error| error.to_string())
    }

    /// Disconnects a session, as the admin API does. Returns whether the session exists.
    pub fn disconnect(&self, session: &str) -> bool {
        self.handle(session, Input::Disconnect)
    }

    /// Closes a session, as the admin API does. Returns whether the session existed.
    pub fn end(&self, session: &str) -> bool {
        self.handle(session, Input::Close(CloseReason::Kicked))
    }

    fn handle(&self, session: &str, input: Input) -> bool {
        let sessions = &self.public.client.sessions;
        let found = session.parse().ok().and_then(|id| sessions.table.registry().get(id));
        found.is_some_and(|session| {
            sessions.lifecycle.handle(&session, input);
            true
        })
    }

    /// Closes every session, and accepts no more.
    pub fn drain(&self) {
        self.public.stop.cancel();
        self.public.client.sessions.drain();
    }

    fn channels_in_order(&self) -> Vec<Arc<Channel>> {
        self.public.client.logs.channels.after(None, usize::MAX)
    }
}

impl std::fmt::Debug for SimulatedServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedServer").field("wheel", &self.wheel_state).finish_non_exhaustive()
    }
}
