//! Engines: where the logs of channels live.
//!
//! Sessions read from the logs in [`channel`](crate::channel). The memory engine has no other; an engine that several servers
//! share appends elsewhere, and feeds those logs from there. An engine is asked with no lock held and answers by an
//! [`Answer`], since only the memory engine has all its answers at once.

mod answer;
mod error;
mod memory;
mod pauses;
mod presence;
mod redis;
#[cfg(test)]
pub(crate) mod slow;

use std::fmt;
use std::sync::Arc;

use encke_core::Timestamp;
use encke_core::message::Content;
use encke_core::session::outbox::Bounds;

use crate::admission::Holder;
use crate::channel::{
    Channel, ChannelName, HistoryMessage, HistoryPart, Hold, PublishId, Published, Subscriber,
};
use crate::trace::Publish;

pub(crate) use answer::{Answer, all};
pub(crate) use error::EngineError;
pub(crate) use memory::MemoryEngine;
pub(crate) use pauses::Pauses;
pub(crate) use presence::{Presence, UserSessions};
pub use redis::{EvictsKeys, RedisAddress, RedisPlace, RedisSettings, RedisTls, Sentinels};
pub(crate) use redis::{Health, RedisEngine};
#[cfg(feature = "simulation")]
pub(crate) use redis::{SimulatedRedis, Stream};

/// Where the logs of channels live.
///
/// Every answer comes within a bounded time: a WebSocket that waits for many does not read its socket meanwhile. What is asked one after the
/// other by one connection is done in that order, if it is of one kind.
pub(crate) trait LogEngine<S: Subscriber>: fmt::Debug + Send + Sync + 'static {
    /// Appends a message to a channel's log, which `maker` makes if there is none, and to those of the patterns that stand for the
    /// channel and are followed: to all of them before anyone reads it in one, in an order that is the same for all. What was published
    /// on the channel under the same `id` before, and is known still, is not appended again; the answer is that of the first time.
    fn append(
        &self,
        channel: &ChannelName,
        maker: &Holder,
        content: &Content<'_>,
        id: Option<&PublishId>,
    ) -> Answer<Result<Published, EngineError>>;

    /// The same, and it is followed how the message gets to its readers here. An engine that does not know that appends it, no more.
    fn append_traced(
        &self,
        channel: &ChannelName,
        maker: &Holder,
        content: &Content<'_>,
        id: Option<&PublishId>,
        _trace: &Publish,
    ) -> Answer<Result<Published, EngineError>> {
        self.append(channel, maker, content, id)
    }

    /// This part of the channel's log, at most `limit` messages; nothing if there is no such channel.
    fn read(
        &self,
        channel: &ChannelName,
        part: HistoryPart,
        limit: usize,
    ) -> Answer<Result<Option<History>, EngineError>>;

    /// The log to read the channel, or the pattern, from: it follows the channel for as long as it is held or has
    /// subscribers. `maker` makes it if there is none.
    fn follow(&self, channel: &ChannelName, maker: &Holder) -> Answer<Result<Hold<S>, EngineError>>;

    /// Those who follow a channel, on all servers that share it: a page of at most `limit`, from the beginning or from where another
    /// [ended](Presence::next_cursor).
    fn presence(
        &self,
        channel: &ChannelName,
        cursor: u64,
        limit: usize,
    ) -> Answer<Result<Presence, EngineError>>;

    /// The server ends: those that share its channels need not wait for it. Nothing, where nobody does.
    fn leave(&self) -> Answer<()> {
        Answer::Ready(())
    }

    /// Channels of an earlier process, which may have had another engine, and which sessions follow already. Called once, at the start, before anything
    /// else is asked. Engines that stand before another one need not know.
    fn go_on_with(&self, _restored: Vec<Arc<Channel<S>>>) {}
}

/// What a log still has.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) epoch: Box<str>,
    pub(crate) bounds: Bounds,
    /// Oldest first.
    pub(crate) messages: Vec<HistoryMessage>,
}

impl History {
    /// What a log here has, at this time.
    fn of<S: Subscriber>(log: &Channel<S>, part: HistoryPart, limit: usize, now: Timestamp) -> Self {
        let (bounds, messages) = log.history(part, limit, now);
        Self { epoch: log.epoch().into(), bounds, messages }
    }
}
