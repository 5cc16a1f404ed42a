//! The one task that keeps the connections and follows channels. What sessions here follow is what is wanted; what Redis has confirmed is what
//! there is; the task makes the second like the first, whatever happens to the connections.

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::Poll;
use std::time::Duration;

use encke_core::Timestamp;
use futures_util::future::{BoxFuture, Either, select};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use redis::aio::SendError;
use redis::{RedisError, cmd};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::asked::Asked;
use super::connection::{Connection, describe};
use super::following::{Following, Next};
use super::link::{EvictsKeys, Link, NotConnected, Request, Up};
use super::message::Told;
use super::opening::{MOST_NEW, MOST_WHOLE, Opening, ToOpen, open};
use super::probe::{Info, learn_life, send};
use super::pushes::{Push, Pushes, pushes};
use super::scripts::Scripts;
use crate::channel::{ChannelName, Subscriber, new_epoch};
use crate::engine::EngineError;
use crate::timeouts::Sleep;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(2);

/// Between two attempts to connect: from this,
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// twice as long each time, to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Between two probes. An answer may take as long.
const PROBE: Duration = Duration::from_secs(5);

/// After so many probes, what nobody follows is looked for.
const PROBES_BETWEEN_SWEEPS: u64 = 2;

/// After so many, all channels are opened again: a message that was told to nobody would be missing until the next.
const PROBES_BETWEEN_COMPARISONS: u64 = 12;

/// How long a channel is followed that nobody here follows any more.
const LINGER: Duration = Duration::from_secs(30);

/// Questions to Redis about channels at a time.
const MOST_OPENINGS: usize = 4;

/// See the [module](self).
pub(super) struct Feed<S: Subscriber> {
    link: Arc<Link<S>>,
    requests: mpsc::Receiver<Request<S>>,
    following: BTreeMap<ChannelName, Following<S>>,
    /// Those that are to be opened.
    to_open: VecDeque<ChannelName>,
}

/// Connections to one Redis, for as long as they last.
struct Session {
    up: Up,
    /// For commands, and for what is followed.
    connections: [Connection; 2],
    pushes: Pushes,
    replication_id: String,
    /// Where probes come back.
    probe_feed: String,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
    openings: FuturesUnordered<BoxFuture<'static, Result<Opening, RedisError>>>,
    probe: Probe,
    tick: Sleep,
}

#[derive(Default)]
struct Probe {
    /// How many were sent.
    number: u64,
    /// When the last was.
    sent_at: Option<Timestamp>,
    /// The answer to the last, until it is there.
    answer: Option<BoxFuture<'static, Result<Info, RedisError>>>,
    /// The last has come back.
    is_back: bool,
}

/// What the task acts on.
enum Event<S: Subscriber> {
    Over,
    Opened(Result<Opening, RedisError>),
    Probed(Result<Info, RedisError>),
    Tick,
    Request(Request<S>),
    Push(Push),
}

impl<S: Subscriber> Feed<S> {
    pub(super) fn new(link: Arc<Link<S>>, requests: mpsc::Receiver<Request<S>>) -> Self {
        Self { link, requests, following: BTreeMap::new(), to_open: VecDeque::new() }
    }

    /// Connects, serves, and begins anew.
    pub(super) async fn run(mut self) {
        let (mut pause, mut said) = (SHORTEST_PAUSE, String::new());
        loop {
            let connected = self.connect().await;
            let why = match connected {
                Ok(session) => {
                    tracing::info!(address = %self.link.settings.address, "connected to Redis");
                    (pause, said) = (SHORTEST_PAUSE, String::new());
                    self.link.channels.metrics().engine.connected();
                    self.link.set_up(Some(session.up.clone()));
                    self.link.health.has_tried(Ok(()));
                    self.serve(session).await
                }
                Err(why) => {
                    self.link.health.has_tried(Err(&why));
                    why
                }
            }
            .to_string();
            self.disconnected();
            // The same once, however often it is tried.
            if why != said {
                tracing::warn!(address = %self.link.settings.address, "no channels: {why}");
                said = why;
            }
            let spread = self.link.entropy.number_in(50..101);
            self.link.timeouts.sleep(pause.mul_f64(spread_of(spread))).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    async fn connect(&self) -> Result<Session, NotConnected> {
        let timeout = self.link.timeouts.sleep(CONNECT);
        match select(self.connect_both().boxed(), timeout).await {
            Either::Left((connected, _)) => connected,
            Either::Right(_) => Err(NotConnected::TimedOut(CONNECT)),
        }
    }

    async fn connect_both(&self) -> Result<Session, NotConnected> {
        let Link { settings, executor, .. } = &*self.link;
        // Both end with either.
        let over = CancellationToken::new();
        let mut commands =
            Connection::open(settings, over.clone(), |_| Ok::<_, SendError>(()), executor).await?;
        let info = Info::ask(&mut commands.commands).await?;
        if !info.is_master {
            return Err(NotConnected::Replica);
        }
        if info.evicts && !settings.allow_eviction {
            return Err(EvictsKeys.into());
        }
        let scripts = Scripts::load(&mut commands.commands, settings).await?;
        let up = Up {
            commands: commands.commands.clone(),
            scripts: Arc::new(scripts),
            life: Arc::new(AtomicU64::new(0)),
            over: over.clone(),
        };
        let life = learn_life(&up, &self.link.keys.life(), &info.replication_id).await?;
        self.link.channels.metrics().engine.lives(life);
        let (sender, pushes) = pushes(over.clone());
        let mut feed = Connection::open(settings, over.clone(), sender, executor).await?;
        let probe_feed = self.link.keys.probe(&new_epoch(&self.link.entropy));
        let mut subscribe = cmd("SUBSCRIBE");
        subscribe.arg(&probe_feed);
        feed.commands.send_packed_command(&subscribe).await?;
        Ok(Session {
            up,
            connections: [commands, feed],
            pushes,
            replication_id: info.replication_id,
            probe_feed,
            over: Box::pin(over.cancelled_owned()),
            openings: FuturesUnordered::new(),
            probe: Probe { is_back: true, ..Probe::default() },
            tick: self.link.timeouts.sleep(Duration::ZERO),
        })
    }

    /// Returns why it is over.
    async fn serve(&mut self, mut session: Session) -> NotConnected {
        self.open_all();
        loop {
            self.begin_openings(&mut session);
            match self.next_event(&mut session).await {
                Event::Over => return NotConnected::Over,
                Event::Request(request) => self.requested(request),
                Event::Push(push) => self.pushed(push, &mut session),
                Event::Opened(Ok(opening)) => self.opened(opening, &session),
                Event::Opened(Err(error)) => return error.into(),
                Event::Probed(Ok(info)) => {
                    if let Err(why) = self.probed(info, &mut session).await {
                        return why;
                    }
                }
                Event::Probed(Err(error)) => return error.into(),
                Event::Tick => {
                    if let Err(why) = self.tick(&mut session) {
                        return why;
                    }
                }
            }
        }
    }

    async fn next_event(&mut self, session: &mut Session) -> Event<S> {
        poll_fn(|task| {
            if session.over.as_mut().poll(task).is_ready() {
                return Poll::Ready(Event::Over);
            }
            if let Poll::Ready(Some(opened)) = session.openings.poll_next_unpin(task) {
                return Poll::Ready(Event::Opened(opened));
            }
            if let Some(answer) = &mut session.probe.answer
                && let Poll::Ready(answer) = answer.poll_unpin(task)
            {
                session.probe.answer = None;
                return Poll::Ready(Event::Probed(answer));
            }
            if session.tick.poll_unpin(task).is_ready() {
                return Poll::Ready(Event::Tick);
            }
            if let Poll::Ready(Some(request)) = self.requests.poll_recv(task) {
                return Poll::Ready(Event::Request(request));
            }
            match session.pushes.poll_next(task) {
                Poll::Ready(Some(push)) => Poll::Ready(Event::Push(push)),
                // Its sender goes with the connection.
                Poll::Ready(None) => Poll::Ready(Event::Over),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    fn requested(&mut self, Request { channel, maker, answer }: Request<S>) {
        let following = self.following.entry(channel.clone()).or_insert_with(|| Following::new(maker));
        following.waiting.push(answer);
        following.waiting.retain(|waiting| !waiting.is_closed());
        if following.hold.is_some() {
            following.answer_all(None);
        } else {
            self.wants_open(channel);
        }
    }

    fn wants_open(&mut self, channel: ChannelName) {
        if let Some(following) = self.following.get_mut(&channel) {
            if following.is_opening {
                following.opens_again = true;
            } else {
                following.is_opening = true;
                self.to_open.push_back(channel);
            }
        }
    }

    fn open_all(&mut self) {
        let channels: Vec<_> = self.following.keys().cloned().collect();
        for channel in channels {
            self.wants_open(channel);
        }
    }

    fn begin_openings(&mut self, session: &mut Session) {
        while session.openings.len() < MOST_OPENINGS && !self.to_open.is_empty() {
            let (mut batch, mut whole) = (Vec::new(), 0);
            while batch.len() < MOST_NEW && whole < MOST_WHOLE {
                let Some(channel) = self.to_open.pop_front() else { break };
                let Some(following) = self.following.get_mut(&channel) else { continue };
                let after = following.begin_opening();
                whole += usize::from(after == 0);
                let subscribe = !following.is_subscribed;
                let new_epoch = new_epoch(&self.link.entropy);
                batch.push(ToOpen { channel, after, subscribe, new_epoch });
            }
            if batch.is_empty() {
                // Nobody waits for those any more.
                continue;
            }
            let feed = session.connections[1].commands.clone();
            session.openings.push(open(batch, feed, session.up.clone(), self.link.keys.clone()).boxed());
        }
    }

    fn opened(&mut self, opening: Opening, session: &Session) {
        self.link.channels.metrics().engine.opened(opening.len());
        for (channel, result) in opening {
            let Some(following) = self.following.get_mut(&channel) else { continue };
            let outcome = match result {
                Ok(opened) => following.opened(&channel, &opened, &self.link.channels),
                Err(error) => {
                    tracing::warn!(%channel, "a channel cannot be read: {}", describe(&error));
                    following.is_opening = false;
                    Err(EngineError::Unavailable)
                }
            };
            match outcome {
                Ok(Next::Open) => self.wants_open(channel),
                Ok(Next::Nothing) => following.answer_all(None),
                Err(error) => {
                    following.answer_all(Some(error));
                    if following.hold.is_none() {
                        self.following.remove(&channel);
                        self.unsubscribe(&channel, session);
                    }
                }
            }
        }
    }

    fn pushed(&mut self, push: Push, session: &mut Session) {
        let Ok(feed) = std::str::from_utf8(&push.feed) else { return };
        if feed == session.probe_feed {
            self.probe_came_back(&push, session);
            return;
        }
        let Some(name) = self.link.keys.channel_of(feed) else { return };
        let Some(following) = self.following.get_mut(name) else { return };
        let next = match Told::parse(&push.payload) {
            Some(told) => following.told(told, &self.link.channels),
            // Whatever that was, the log knows.
            None => Next::Open,
        };
        if next == Next::Open
            && let Some((channel, _)) = self.following.get_key_value(name)
        {
            let channel = channel.clone();
            self.wants_open(channel);
        }
    }

    fn probe_came_back(&self, push: &Push, session: &mut Session) {
        let probe = &mut session.probe;
        if push.payload == probe.number.to_string().as_bytes() && !std::mem::replace(&mut probe.is_back, true)
        {
            let took = probe.sent_at.map(|sent_at| self.link.timeouts.clock().now().since(sent_at));
            took.into_iter().for_each(|took| self.link.channels.metrics().engine.probed(took));
        }
    }

    /// # Errors
    /// The last probe has not come back, or has not been answered.
    fn tick(&mut self, session: &mut Session) -> Result<(), NotConnected> {
        if !session.probe.is_back || session.probe.answer.is_some() {
            return Err(NotConnected::Silent(PROBE));
        }
        let number = session.probe.number + 1;
        let answer = send(session.up.clone(), session.probe_feed.clone(), number).boxed();
        let sent_at = Some(self.link.timeouts.clock().now());
        session.probe = Probe { number, sent_at, answer: Some(answer), is_back: false };
        session.tick = self.link.timeouts.sleep(PROBE);
        if number.is_multiple_of(PROBES_BETWEEN_SWEEPS) {
            self.let_go(session);
        }
        if number.is_multiple_of(PROBES_BETWEEN_COMPARISONS) {
            self.open_all();
        }
        Ok(())
    }

    /// # Errors
    /// It is no master any more.
    async fn probed(&mut self, info: Info, session: &mut Session) -> Result<(), NotConnected> {
        if !info.is_master {
            return Err(NotConnected::Replica);
        }
        if info.replication_id != session.replication_id {
            // It was a replica in between, and may lack what it had.
            let key = self.link.keys.life();
            let life = learn_life(&session.up, &key, &info.replication_id).boxed();
            match select(life, self.link.timeouts.sleep(CONNECT)).await {
                Either::Left((Ok(life), _)) => self.link.channels.metrics().engine.lives(life),
                Either::Left((Err(error), _)) => return Err(error.into()),
                Either::Right(_) => return Err(NotConnected::TimedOut(CONNECT)),
            }
            session.replication_id = info.replication_id;
            self.open_all();
        }
        Ok(())
    }

    /// Stops following what nobody here has followed for long.
    fn let_go(&mut self, session: &Session) {
        let now = self.link.timeouts.clock().now();
        let mut idle = Vec::new();
        for (name, following) in &mut self.following {
            let is_idle = following.hold.as_ref().is_some_and(|hold| hold.channel().is_only_held());
            if !is_idle || following.is_opening {
                following.idle_since = None;
            } else if now.since(*following.idle_since.get_or_insert(now)) >= LINGER {
                idle.push(name.clone());
            }
        }
        for channel in idle {
            let Some(mut following) = self.following.remove(&channel) else { continue };
            match following.hold.take().map(|hold| self.link.channels.let_go(hold)) {
                // Somebody was faster.
                Some(Err(hold)) => {
                    following.hold = Some(hold);
                    self.following.insert(channel, following);
                }
                Some(Ok(())) | None => self.unsubscribe(&channel, session),
            }
        }
    }

    fn unsubscribe(&self, channel: &ChannelName, session: &Session) {
        let mut unsubscribe = cmd("UNSUBSCRIBE");
        unsubscribe.arg(self.link.keys.of(channel.as_str()).feed);
        let mut feed = session.connections[1].commands.clone();
        let asked = async move { feed.send_packed_command(&unsubscribe).await.is_ok() };
        drop(Asked::new(asked, &self.link.executor));
    }

    /// What sessions here follow stays: it is followed again on the next connection.
    fn disconnected(&mut self) {
        self.link.set_up(None);
        self.to_open.clear();
        self.following.retain(|_, following| following.disconnected());
        while let Ok(request) = self.requests.try_recv() {
            // It may have given up.
            _ = request.answer.send(Err(EngineError::Unavailable));
        }
    }
}

/// Servers that have lost the same Redis do not all come back at the same time.
fn spread_of(percent: u64) -> f64 {
    f64::from(u32::try_from(percent).unwrap_or(100)) / 100.0
}
