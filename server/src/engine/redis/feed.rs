//! The one task that keeps the connections and follows channels. What sessions here follow is what is wanted; what Redis has confirmed is what
//! there is; the task makes the second like the first, whatever happens to the connections.

mod openings;

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use redis::RedisError;
use tokio::sync::{mpsc, oneshot};

use super::address::RedisAddress;
use super::connected::Connected;
use super::following::{Following, Next};
use super::link::{Link, NotConnected, Request};
use super::message::Told;
use super::opening::Opening;
use super::patterns::Patterns;
use super::probe::{Info, learn_life};
use super::pushes::{Push, PushedAs};
use super::settings::RedisPlace;
use crate::channel::{ChannelName, Hold, Subscriber};
use crate::engine::EngineError;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(2);

/// Between two attempts to connect: from this,
const SHORTEST_PAUSE_MS: u64 = 50;

/// twice as long each time, to this.
const LONGEST_PAUSE_MS: u64 = 1000;

/// After a connection that has lasted so long, in which probes came back, it begins with the shortest again.
const STEADY: Duration = Duration::from_secs(10);

/// After so many probes, what nobody follows is looked for.
const PROBES_BETWEEN_SWEEPS: u64 = 2;

/// After so many, all channels are opened again: a message that was told to nobody would be missing until the next.
const PROBES_BETWEEN_COMPARISONS: u64 = 12;

/// How long a channel is followed that nobody here follows any more.
pub(super) const LINGER: Duration = Duration::from_secs(30);

/// See the [module](self).
pub(super) struct Feed<S: Subscriber> {
    link: Arc<Link<S>>,
    requests: mpsc::Receiver<Request<S>>,
    following: BTreeMap<ChannelName, Following<S>>,
    /// Those that are to be opened.
    to_open: VecDeque<ChannelName>,
    patterns: Patterns<S>,
    /// The last message that Redis has told.
    last_push: Option<Push>,
    /// Which Sentinel is asked first, if there are any: the one that was right.
    sentinel: usize,
}

/// What the task acts on.
enum Event<S: Subscriber> {
    Over,
    Opened(Result<Opening, RedisError>),
    Probed(Result<Info, RedisError>),
    Tick,
    Request(Request<S>),
    Push(Push),
    /// A glob, and why it is not told what that stands for.
    Refused(String, RedisError),
}

impl<S: Subscriber> Feed<S> {
    pub(super) fn new(link: Arc<Link<S>>, requests: mpsc::Receiver<Request<S>>) -> Self {
        let patterns = Patterns::new(Arc::clone(&link));
        let (following, to_open) = (BTreeMap::new(), VecDeque::new());
        Self { link, requests, following, to_open, patterns, last_push: None, sentinel: 0 }
    }

    /// Connects, serves, and begins anew, once it knows which channels were followed before.
    pub(super) async fn run(mut self, restored: oneshot::Receiver<Vec<Hold<S>>>) {
        for hold in restored.await.unwrap_or_default() {
            let name = hold.channel().name().clone();
            if name.is_pattern() {
                self.patterns.restored(name, hold);
            } else {
                self.following.insert(name, Following::restored(hold));
            }
        }
        let (mut pause_ms, mut said) = (SHORTEST_PAUSE_MS, String::new());
        loop {
            let address = self.find().await;
            let shown = address.as_ref().map_or(self.link.settings.place.to_string(), ToString::to_string);
            let connected = match address {
                Ok(address) => self.connect(&address).await,
                Err(why) => Err(why),
            };
            let why = match connected {
                Ok(connected) => {
                    let server = self.link.peers.server();
                    tracing::info!(address = shown, server, "connected to Redis");
                    self.link.channels.metrics().engine.connected();
                    self.link.set_up(Some(connected.up.clone()));
                    self.link.health.has_tried(Ok(()));
                    let began = self.link.timeouts.clock().now();
                    let why = self.serve(connected).await;
                    // A Redis that takes connections and then does not do what is asked is not asked all the time.
                    if self.link.timeouts.clock().now().since(began) >= STEADY {
                        (pause_ms, said) = (SHORTEST_PAUSE_MS, String::new());
                    }
                    why
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
                tracing::warn!(address = shown, "no channels: {why}");
                said = why;
            }
            // Servers that have lost the same Redis do not all come back at the same time.
            let spread = self.link.entropy.number_in(pause_ms / 2..pause_ms + 1);
            self.link.timeouts.sleep(Duration::from_millis(spread)).await;
            pause_ms = (2 * pause_ms).min(LONGEST_PAUSE_MS);
        }
    }

    /// Where Redis is now.
    async fn find(&mut self) -> Result<RedisAddress, NotConnected> {
        match &self.link.settings.place {
            RedisPlace::At(address) => Ok(address.clone()),
            RedisPlace::Asked(sentinels) => {
                let found = sentinels.find(self.sentinel, &self.link).await?;
                self.sentinel = found.sentinel;
                Ok(found.address)
            }
        }
    }

    async fn connect(&mut self, address: &RedisAddress) -> Result<Connected, NotConnected> {
        let connected = self.link.timeouts.within(CONNECT, Connected::open(address, &self.link)).await;
        let connected = connected.unwrap_or(Err(NotConnected::TimedOut(CONNECT)));
        if connected.is_err() {
            // Another may know better.
            self.sentinel = self.sentinel.wrapping_add(1);
        }
        connected
    }

    /// Returns why it is over.
    async fn serve(&mut self, mut connected: Connected) -> NotConnected {
        self.patterns.ask_all(&connected.up.commands);
        self.open_all();
        loop {
            self.begin_openings(&mut connected);
            match self.next_event(&mut connected).await {
                Event::Over => return NotConnected::Over,
                Event::Request(request) if request.channel.is_pattern() => {
                    self.patterns.requested(request, &connected.up.commands)
                }
                Event::Request(request) => self.requested(request),
                Event::Refused(glob, error) => self.patterns.refused(&glob, &error, &connected.up.commands),
                Event::Push(push) => self.pushed(push, &mut connected),
                Event::Opened(Ok(opening)) => {
                    self.take_pushes(&mut connected);
                    self.opened(opening, &connected)
                }
                Event::Opened(Err(error)) => return error.into(),
                Event::Probed(Ok(info)) => {
                    if let Err(why) = self.probed(info, &mut connected).await {
                        return why;
                    }
                }
                Event::Probed(Err(error)) => return error.into(),
                Event::Tick => {
                    if let Err(why) = self.tick(&mut connected) {
                        return why;
                    }
                }
            }
        }
    }

    async fn next_event(&mut self, connected: &mut Connected) -> Event<S> {
        poll_fn(|task| {
            if connected.over.as_mut().poll(task).is_ready() {
                return Poll::Ready(Event::Over);
            }
            if let Poll::Ready(Some(opened)) = connected.openings.poll_next_unpin(task) {
                return Poll::Ready(Event::Opened(opened));
            }
            if let Some(answer) = &mut connected.probe.answer
                && let Poll::Ready(answer) = answer.poll_unpin(task)
            {
                connected.probe.answer = None;
                return Poll::Ready(Event::Probed(answer));
            }
            if connected.tick.poll_unpin(task).is_ready() {
                return Poll::Ready(Event::Tick);
            }
            if let Poll::Ready(Some(request)) = self.requests.poll_recv(task) {
                return Poll::Ready(Event::Request(request));
            }
            if let Poll::Ready((glob, error)) = self.patterns.poll_refused(task) {
                return Poll::Ready(Event::Refused(glob, error));
            }
            match connected.pushes.poll_next(task) {
                Poll::Ready(Some(push)) => Poll::Ready(Event::Push(push)),
                // Its sender goes with the connection.
                Poll::Ready(None) => Poll::Ready(Event::Over),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    fn pushed(&mut self, push: Push, connected: &mut Connected) {
        if push.kind == PushedAs::Confirmation {
            self.patterns.confirmed(&push.feed);
        } else if !self.last_push.as_ref().is_some_and(|last| push.repeats(last)) {
            self.told(&push, connected);
            self.last_push = Some(push);
        }
    }

    fn told(&mut self, push: &Push, connected: &mut Connected) {
        let Ok(feed) = std::str::from_utf8(&push.feed) else { return };
        if feed == connected.probe_feed {
            connected.probe_came_back(push, &self.link);
            return;
        }
        if self.link.heard_of_peers(feed, push, &connected.up.commands) {
            return;
        }
        let Some(name) = self.link.keys.channel_of(feed) else { return };
        let told = Told::parse(&push.payload);
        let Some(following) = self.following.get_mut(name) else {
            if let (PushedAs::ByGlob, Some(told)) = (push.kind, told) {
                self.patterns.told(name, &told);
            }
            return;
        };
        let next = match told {
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

    /// # Errors
    /// The last probe has not come back, or has not been answered.
    fn tick(&mut self, connected: &mut Connected) -> Result<(), NotConnected> {
        let number = connected.begin_probe(&self.link)?;
        self.link.renew_lease(connected.up.clone());
        if number.is_multiple_of(PROBES_BETWEEN_SWEEPS) {
            self.let_go(connected);
            self.patterns.let_go(&connected.up.commands);
            self.patterns.ask_all(&connected.up.commands);
        }
        if number.is_multiple_of(PROBES_BETWEEN_COMPARISONS) {
            self.open_all();
        }
        Ok(())
    }

    /// # Errors
    /// It is no master any more.
    async fn probed(&mut self, info: Info, connected: &mut Connected) -> Result<(), NotConnected> {
        if !info.is_master {
            return Err(NotConnected::Replica);
        }
        if *info.replication_id != *connected.up.life.read().replication_id {
            // It was a replica in between, and may lack what it had.
            let key = self.link.keys.life();
            let life = learn_life(&connected.up, &key, &info.replication_id);
            let life = self.link.timeouts.within(CONNECT, life).await;
            self.link.channels.metrics().engine.lives(life.ok_or(NotConnected::TimedOut(CONNECT))??);
            self.open_all();
        }
        Ok(())
    }

    /// Stops following what nobody here has followed for long.
    fn let_go(&mut self, connected: &Connected) {
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
                Some(Ok(())) | None => connected.unsubscribe(&channel, &self.link),
            }
        }
    }

    /// What sessions here follow stays: it is followed again on the next connection.
    fn disconnected(&mut self) {
        self.link.set_up(None);
        self.to_open.clear();
        self.patterns.disconnected();
        self.last_push = None;
        self.following.retain(|_, following| following.disconnected());
        while let Ok(request) = self.requests.try_recv() {
            // It may have given up.
            _ = request.answer.send(Err(EngineError::Unavailable));
        }
    }
}
