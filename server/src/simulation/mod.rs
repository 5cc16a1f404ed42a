//! The whole server without threads, runtime and listeners: whoever holds it decides what happens next. For the
//! simulation in `tests/sim`; not part of the API, and not in a build without the feature `simulation`.
//!
//! Timeouts, sessions, channels, dialect and connections are the real ones. Time, random numbers, sockets and the
//! executor are given.

mod bayeux;
mod engine;
mod late_engine;
mod polls;
mod restart;
mod socket;
mod views;

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use encke_core::Timestamp;
use encke_core::close::CloseReason;
use encke_core::message::CompactJson;
use encke_core::session::Input;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::Request;
use tokio_util::sync::CancellationToken;

use crate::admission::Holder;
use crate::arena::Ref;
use crate::channel::ChannelName;
use crate::client::Caller;
use crate::clock::Clock;
use crate::config::Config;
use crate::context;
use crate::entropy::Entropy;
use crate::events::{HookSink, Hooks};
use crate::executor::{Executor, Runtime, Sharing};
use crate::expiry::ExpiryHandler;
use crate::http::Reply;
use crate::public::{self, accept_events, parse_query};
use crate::rest::{AnyPoller, Line, Rest, SimulatedPoller};
use crate::resting::Resting;
use crate::session::Channel;
use crate::timeouts::{Batch, SteppedWheel, Timeouts, Worker};
use crate::transport::sse;
use crate::transport::websocket::{self, Upgrade};

use engine::make_engine;

pub use crate::clock::SimulatedTime;
pub use bayeux::{ConnectRequest, HeldConnect};
pub use engine::Engine;
pub use polls::Poll;
pub use restart::GoneOn;
pub use socket::Socket;
pub use views::{ChannelView, Held, SessionView};

/// A task of the server.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a simulated server is made of.
#[expect(missing_debug_implementations, reason = "functions have none")]
pub struct Parameters {
    /// The configuration. Addresses, TLS and threads do not matter.
    pub config: Config,
    /// For ids, secrets and whatever else is random.
    pub seed: u64,
    /// Both clocks.
    pub time: Arc<SimulatedTime>,
    /// Told of lifecycle events.
    pub hooks: Box<dyn Hooks>,
    /// Runs the server's own tasks.
    pub spawn: Box<dyn Fn(Task) + Send + Sync>,
    /// So many of these tasks share what is one thing for each of many; one by one, if there is more than one of them.
    pub io_threads: usize,
    /// Called to end the sleep of the wheel.
    pub wheel_waker: Waker,
    /// Batches of expiries that may wait for a worker.
    pub dispatch_batches: usize,
    /// Where logs live.
    pub engine: Engine,
}

/// The server.
pub struct Server {
    public: Arc<public::Context>,
    wheel: SteppedWheel,
    wheel_state: WheelState,
    worker: Worker<ExpiryHandler>,
    batches: crossbeam_channel::Receiver<Batch>,
    late_answers: Arc<AtomicUsize>,
    poller: Arc<SimulatedPoller>,
}

/// Where the wheel's loop is.
#[derive(Clone, Copy, Debug)]
enum WheelState {
    Awake,
    FallingAsleep(Timestamp),
    Asleep,
}

/// A whole answer, at once: to a request for a stream or a poll that got something else, or to commands.
#[derive(Debug)]
pub struct Answer {
    /// Of HTTP.
    pub status: u16,
    /// The whole body.
    pub body: Vec<u8>,
}

impl From<Reply> for Answer {
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

    fn sharing(&self) -> Sharing {
        if self.io_threads > 1 { Sharing::one_by_one(self.io_threads) } else { Sharing::on(1) }
    }
}

impl Server {
    /// A server at the start of its life.
    #[must_use]
    pub fn new(parameters: Parameters) -> Self {
        let Parameters {
            config,
            seed,
            time,
            hooks,
            spawn,
            io_threads,
            wheel_waker,
            dispatch_batches,
            engine,
        } = parameters;
        let clock = Arc::new(Clock::simulated(time, config.timers.stall_threshold));
        let (timeouts, to_arm) = Timeouts::new(clock, config.timers.ping_slack, config.limits.slots());
        let late_answers = Arc::new(AtomicUsize::new(0));
        let late = Arc::clone(&late_answers);
        let executor: Arc<dyn Executor> = Arc::new(Spawner { spawn, io_threads });
        let entropy = Entropy::seeded(seed);
        let mut client = context::client_on(
            &config,
            Arc::clone(&timeouts),
            entropy.clone(),
            Arc::clone(&executor),
            Box::new(HookSink(hooks)),
            |memory| make_engine(engine, memory, late, entropy, &executor),
        );
        let poller = Arc::new(SimulatedPoller::default());
        client.rest = config.rest_after.map(|after| Rest {
            after,
            line: Line::default(),
            poller: AnyPoller::Simulated(Arc::clone(&poller)),
            runtime: Runtime::Simulated(Arc::clone(&executor)),
        });
        let client = Arc::new(client);
        Resting::start(&client).expect("it needs nothing of the system");
        let (sender, batches) = crossbeam_channel::bounded(dispatch_batches);
        let handler = Arc::new(ExpiryHandler { context: Arc::clone(&client), executor });
        Self {
            public: Arc::new(context::public(&config, client, CancellationToken::new())),
            worker: Worker::new(0, batches.clone(), handler, Arc::clone(&timeouts)),
            wheel: SteppedWheel::new(config.wheel(), timeouts, to_arm, sender, wheel_waker),
            wheel_state: WheelState::Awake,
            batches,
            late_answers,
            poller,
        }
    }

    /// The server's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.public.client.timeouts.clock().now()
    }

    /// The wheel's loop goes on: it turns, falls asleep, or wakes up. Returns until when it sleeps, if it does now.
    pub fn step_wheel(&mut self) -> Option<Timestamp> {
        match self.wheel_state {
            WheelState::Awake => self.wheel_state = WheelState::FallingAsleep(self.wheel.turn()),
            WheelState::FallingAsleep(until) if self.wheel.fall_asleep(until) => {
                self.wheel_state = WheelState::Asleep;
                return Some(until);
            }
            WheelState::FallingAsleep(_) | WheelState::Asleep => {
                self.wheel.awake();
                self.wheel_state = WheelState::Awake;
            }
        }
        None
    }

    /// A worker takes one batch. Returns whether there was one.
    pub fn work(&self) -> bool {
        self.worker.act_on_next()
    }

    /// Batches that wait for a worker.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Whether connections at rest may have something to read.
    #[must_use]
    pub fn has_to_read(&self) -> bool {
        self.poller.has_news()
    }

    /// One of them is looked at. It may be found out of several at a time that they have something to read.
    pub fn look(&self) {
        if let Some((number, since)) = self.poller.next(self.now()) {
            self.public.client.sessions.readable(Ref::of_number(number), since);
        }
    }

    /// The process ends, and with it the connections at rest, which have no tasks that could.
    pub fn cut_at_rest(&self) {
        self.public.client.sessions.cut_at_rest();
    }

    /// Answers of the engine that are still to come.
    #[must_use]
    pub fn late_answers(&self) -> usize {
        self.late_answers.load(Ordering::Relaxed)
    }

    /// Serves a WebSocket whose request was just answered with 101.
    pub fn serve_websocket(&self, socket: impl Socket, address: IpAddr, query: &str) -> Task {
        let client = &self.public.client;
        let caller = Caller::of(&Request::new(()), address, &client.auth);
        let open_connection = self.public.connections.enter(None);
        let upgrade = Upgrade { caller, wanted: parse_query(query), open_connection, answer: Vec::new() };
        let upgraded = std::future::ready(Some((socket::Adapter(socket), Vec::new())));
        Box::pin(websocket::serve(upgrade, upgraded, Arc::clone(client)).map(drop))
    }

    /// Serves a stream of events.
    ///
    /// # Errors
    /// [`Answer`], if the request gets another answer.
    ///
    /// # Panics
    /// If the target is not one of HTTP.
    pub fn serve_events(
        &self,
        socket: impl Socket,
        address: IpAddr,
        target: &str,
        last_event_id: Option<&str>,
    ) -> Result<Task, Answer> {
        let client = &self.public.client;
        let mut request = Request::get(target);
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let request = request.body(()).expect("a target and a header of HTTP");
        let caller = Caller::of(&request, address, &client.auth);
        let socket = socket::Adapter(socket);
        let accepted = accept_events(&request, &caller, client, || socket.0.is_over())
            .map_err(|reply| Answer::from(*reply))?;
        let open_connection = self.public.connections.enter(None);
        Ok(Box::pin(sse::serve(socket, accepted, Arc::clone(client), open_connection)))
    }

    /// Publishes as the admin API does. Returns the offset.
    ///
    /// # Errors
    /// Why it was refused.
    pub fn publish(&self, channel: &str, json: &str) -> Result<u64, String> {
        let client = &self.public.client;
        let name = ChannelName::to_publish(channel, client.settings.channel_name_bytes)
            .map_err(|error| error.to_string())?;
        let data = CompactJson::parse(json).map_err(|error| error.to_string())?;
        let published = client.logs.channels.publish(&name, &Holder::Operator, &data.into(), None);
        published.map(|published| published.offset).map_err(|error| error.to_string())
    }

    /// Drops the connection of a session, as an administrator does. Returns whether the session is there.
    pub fn disconnect(&self, session: &str) -> bool {
        self.handle(session, Input::Disconnect)
    }

    /// Ends a session, as an administrator does. Returns whether it was there.
    pub fn end(&self, session: &str) -> bool {
        self.handle(session, Input::Close(CloseReason::Kicked))
    }

    fn handle(&self, session: &str, input: Input) -> bool {
        let sessions = &self.public.client.sessions;
        let found = session.parse().ok().and_then(|id| sessions.registry().get(id));
        found.is_some_and(|session| {
            sessions.handle(&session, input);
            true
        })
    }

    /// Ends every session, and lets none begin.
    pub fn drain(&self) {
        self.public.stop.cancel();
        self.public.client.sessions.drain();
    }

    fn channels_in_order(&self) -> Vec<Arc<Channel>> {
        self.public.client.logs.channels.after(None, usize::MAX)
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("wheel", &self.wheel_state).finish_non_exhaustive()
    }
}
