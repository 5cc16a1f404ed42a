//! Patterns that are followed in Redis. What matches comes on the connection of the feed, in one order with everything else there, and is appended to
//! a log of this server's own. Redis keeps nothing of it: what is published while there is no connection is not known here, and every log begins
//! another life then, of which its readers are told by a gap.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};

use encke_core::Timestamp;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use redis::aio::MultiplexedConnection;
use redis::{RedisError, cmd};

use super::asked::Asked;
use super::connection::describe;
use super::feed::LINGER;
use super::following::{Waiting, answer_all};
use super::link::{Link, Request, checked};
use super::message::Told;
use crate::admission::Holder;
use crate::channel::{ChannelName, Hold, Life, Subscriber, new_epoch};
use crate::engine::EngineError;

/// What Redis is asked to compare with the name of every publish. If more patterns are followed than these, it tells all that any pattern can
/// stand for, and what is not wanted is dropped here.
const MOST_GLOBS: usize = 64;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Patterns<S: Subscriber> {
    link: Arc<Link<S>>,
    followed: BTreeMap<ChannelName, Followed<S>>,
    /// What Redis has been asked to tell on this connection, and whether it has said that it does.
    globs: BTreeMap<String, bool>,
    /// What it says to that. That it does is known in its order among what it tells.
    answers: FuturesUnordered<BoxFuture<'static, (String, Result<(), RedisError>)>>,
    /// Redis tells this user nothing but what its access rule has, letter by letter: that may be the widest glob.
    only_widest: bool,
}

#[derive(Debug)]
struct Followed<S: Subscriber> {
    /// The log, once Redis tells what matches.
    hold: Option<Hold<S>>,
    /// The log lacks nothing: it began on this connection.
    is_whole: bool,
    /// Of the first that followed it.
    maker: Holder,
    /// Those who wait for the log.
    waiting: Waiting<S>,
    /// What brings it on this connection.
    glob: Option<String>,
    /// Since when nobody here follows it.
    idle_since: Option<Timestamp>,
}

impl<S: Subscriber> Patterns<S> {
    pub(super) fn new(link: Arc<Link<S>>) -> Self {
        let (followed, globs, answers) = (BTreeMap::new(), BTreeMap::new(), FuturesUnordered::new());
        Self { link, followed, globs, answers, only_widest: false }
    }

    /// One that sessions of an earlier process follow, with the log that it has left.
    pub(super) fn restored(&mut self, name: ChannelName, hold: Hold<S>) {
        // A log that is here is not made.
        let restored = Followed { hold: Some(hold), ..Followed::new(Holder::Operator) };
        self.followed.insert(name, restored);
    }

    /// Somebody wants to follow one.
    pub(super) fn requested(&mut self, request: Request<S>, commands: &MultiplexedConnection) {
        let Request { channel, maker, answer } = request;
        let pattern = self.followed.entry(channel.clone()).or_insert_with(|| Followed::new(maker));
        pattern.waiting.retain(|waiting| !waiting.is_closed());
        pattern.waiting.push(answer);
        if pattern.hold.is_some() {
            answer_all(&mut pattern.waiting, pattern.hold.as_ref(), None);
        } else {
            self.ask(&channel, commands);
        }
    }

    /// Asks for all that Redis has not been asked for on this connection, or has refused.
    pub(super) fn ask_all(&mut self, commands: &MultiplexedConnection) {
        let missing = self.followed.iter().filter(|(_, pattern)| pattern.glob.is_none());
        for name in missing.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.ask(&name, commands);
        }
    }

    fn ask(&mut self, name: &ChannelName, commands: &MultiplexedConnection) {
        let Some(pattern) = self.followed.get_mut(name).filter(|pattern| pattern.glob.is_none()) else {
            return;
        };
        let keys = &self.link.keys;
        let own = keys.glob(name.as_str());
        let has_room = self.globs.len() < MOST_GLOBS || self.globs.contains_key(&own);
        let glob = if has_room && !self.only_widest { own } else { keys.widest_glob() };
        pattern.glob = Some(glob.clone());
        match self.globs.get(&glob) {
            Some(true) => self.begin(|pattern| pattern.glob.as_ref() == Some(&glob)),
            Some(false) => {}
            None => {
                self.globs.insert(glob.clone(), false);
                let asked = self.send("PSUBSCRIBE", &glob, commands);
                self.answers.push(asked.map(|answer| (glob, answer)).boxed());
            }
        }
    }

    fn send(
        &self,
        what: &str,
        glob: &str,
        commands: &MultiplexedConnection,
    ) -> Asked<Result<(), RedisError>> {
        let mut command = cmd(what);
        command.arg(glob);
        let mut commands = commands.clone();
        let asked = async move { commands.send_packed_command(&command).await.and_then(checked).map(drop) };
        Asked::new(asked, &self.link.executor)
    }

    /// Redis tells what matches this, from here on.
    pub(super) fn confirmed(&mut self, glob: &[u8]) {
        let Ok(glob) = std::str::from_utf8(glob) else { return };
        if let Some(is_confirmed) = self.globs.get_mut(glob) {
            *is_confirmed = true;
            self.begin(|pattern| pattern.glob.as_deref() == Some(glob));
        }
    }

    /// Logs begin, of those that have none that lacks nothing.
    fn begin(&mut self, is_meant: impl Fn(&Followed<S>) -> bool) {
        let link = &self.link;
        let meant = self.followed.iter_mut().filter(|(_, pattern)| is_meant(pattern));
        let mut refused = Vec::new();
        for (name, pattern) in meant {
            match pattern.begin(name, link) {
                Ok(()) => answer_all(&mut pattern.waiting, pattern.hold.as_ref(), None),
                Err(error) => {
                    answer_all(&mut pattern.waiting, None, Some(error));
                    refused.push(name.clone());
                }
            }
        }
        for name in refused {
            self.followed.remove(&name);
        }
    }

    /// Waits until Redis refuses to tell something.
    pub(super) fn poll_refused(&mut self, task: &mut Context<'_>) -> Poll<(String, RedisError)> {
        while let Poll::Ready(Some((glob, answer))) = self.answers.poll_next_unpin(task) {
            if let Err(error) = answer {
                return Poll::Ready((glob, error));
            }
        }
        Poll::Pending
    }

    /// Redis does not tell what matches this glob. Perhaps it may tell more; else it is asked again later for patterns that have a log.
    pub(super) fn refused(&mut self, glob: &str, error: &RedisError, commands: &MultiplexedConnection) {
        self.globs.remove(glob);
        let may_tell_more = error.code() == Some("NOPERM") && glob != self.link.keys.widest_glob();
        self.followed.retain(|_, pattern| {
            if pattern.glob.as_deref() != Some(glob) {
                return true;
            }
            pattern.glob = None;
            if !may_tell_more {
                answer_all(&mut pattern.waiting, None, Some(EngineError::Unavailable));
            }
            may_tell_more || pattern.hold.is_some()
        });
        if may_tell_more {
            self.only_widest = true;
            self.ask_all(commands);
        } else {
            tracing::warn!(glob, "patterns cannot be followed: {}", describe(error));
        }
    }

    /// A message was published on a channel that has no log here.
    pub(super) fn told(&self, channel: &str, told: &Told) {
        // Anyone may have published it, wherever they like.
        if let (Ok(channel), Some(content)) = (ChannelName::to_publish(channel, usize::MAX), told.content()) {
            self.link.channels.feed_patterns(&channel, &told.epoch, told.offset, &content);
        }
    }

    /// Messages of a channel are known to be missing.
    pub(super) fn missed(&mut self, channel: &ChannelName) {
        for (name, pattern) in &mut self.followed {
            if pattern.is_whole && name.stands_for(channel) {
                pattern.is_whole = false;
                // It has a log, of which there may always be another life.
                _ = pattern.begin(name, &self.link);
            }
        }
    }

    /// Stops following what nobody here has followed for long.
    pub(super) fn let_go(&mut self, commands: &MultiplexedConnection) {
        let now = self.link.timeouts.clock().now();
        let mut ended = Vec::new();
        for (name, pattern) in &mut self.followed {
            let is_idle = pattern.hold.as_ref().is_some_and(|hold| hold.channel().is_only_held());
            if !is_idle {
                pattern.idle_since = None;
            } else if now.since(*pattern.idle_since.get_or_insert(now)) >= LINGER
                && let Some(hold) = pattern.hold.take()
            {
                match self.link.channels.let_go(hold) {
                    Ok(()) => ended.push(name.clone()),
                    // Somebody was faster.
                    Err(hold) => pattern.hold = Some(hold),
                }
            }
        }
        for name in ended {
            let glob = self.followed.remove(&name).and_then(|pattern| pattern.glob);
            if let Some(glob) = glob
                && !self.followed.values().any(|other| other.glob.as_ref() == Some(&glob))
            {
                self.globs.remove(&glob);
                drop(self.send("PUNSUBSCRIBE", &glob, commands));
            }
        }
    }

    /// There is no connection any more. What sessions here follow is followed again on the next.
    pub(super) fn disconnected(&mut self) {
        self.globs.clear();
        self.answers = FuturesUnordered::new();
        self.followed.retain(|_, pattern| {
            answer_all(&mut pattern.waiting, None, Some(EngineError::Unavailable));
            (pattern.glob, pattern.is_whole) = (None, false);
            pattern.hold.is_some()
        });
    }
}

impl<S: Subscriber> Followed<S> {
    fn new(maker: Holder) -> Self {
        Self { hold: None, is_whole: false, maker, waiting: Vec::new(), glob: None, idle_since: None }
    }

    /// Has a log that begins now, unless it has one that lacks nothing.
    fn begin(&mut self, name: &ChannelName, link: &Link<S>) -> Result<(), EngineError> {
        let channels = &link.channels;
        match &self.hold {
            Some(_) if self.is_whole => {}
            Some(old) => {
                let epoch = new_epoch(&link.entropy).into();
                let life = Life { epoch, last: 0, past: Box::default(), is_filling: false };
                if let Some(new) = channels.succeed(old.channel(), &life) {
                    channels.move_subscribers(old.channel(), new.channel(), None);
                    self.hold = Some(new);
                }
            }
            None => self.hold = Some(channels.hold(name, &self.maker)?),
        }
        self.is_whole = true;
        Ok(())
    }
}
