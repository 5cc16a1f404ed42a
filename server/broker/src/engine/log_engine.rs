use std::fmt;
use std::sync::Arc;

use encke_base::quota::QuotaOwner;
use encke_base::trace::PublishTrace;
use encke_core::Timestamp;
use encke_core::dialect::Since;
use encke_core::message::Content;
use encke_core::session::outbox::LogBounds;

use super::error::EngineError;
use super::presence::Presence;
use super::response::EngineResponse;
use crate::channel::{
    Channel, ChannelGuard, ChannelName, HistoryLimit, HistoryMessage, HistoryPart, PublishId, Published,
    Subscriber,
};

/// Owner of channel logs.
///
/// All responses arrive within a bounded time, because a WebSocket connection that waits for too many of them
/// stops reading its socket. Requests of the same kind from one connection are executed in order.
pub trait LogEngine<S: Subscriber>: fmt::Debug + Send + Sync + 'static {
    /// Appends a message to a channel's log and to the logs of the subscribed patterns that match the
    /// channel. Creates the channel on behalf of `creator` if it does not exist. The message cannot be read
    /// from any of these logs before all of them have it, and messages have the same order in all of them.
    ///
    /// If a publish to this channel with the same `id` is still known, nothing is appended, and the response
    /// is the same as for the first publish.
    fn append(
        &self,
        channel: &ChannelName,
        creator: &QuotaOwner,
        content: &Content<'_>,
        id: Option<&PublishId>,
    ) -> EngineResponse<Result<Published, EngineError>>;

    /// Like [`append`](Self::append), with tracing of the delivery to local readers. Engines without tracing
    /// support just append.
    fn append_traced(
        &self,
        channel: &ChannelName,
        creator: &QuotaOwner,
        content: &Content<'_>,
        id: Option<&PublishId>,
        _trace: &PublishTrace,
    ) -> EngineResponse<Result<Published, EngineError>> {
        self.append(channel, creator, content, id)
    }

    /// Returns messages of a channel's log, or `None` if the channel does not exist.
    fn read(
        &self,
        channel: &ChannelName,
        part: HistoryPart,
        limit: HistoryLimit,
    ) -> EngineResponse<Result<Option<History>, EngineError>>;

    /// Returns the local log of a channel or pattern, created on behalf of `creator` if it does not exist. It
    /// receives the channel's messages while it has guards or subscribers.
    fn subscribe(
        &self,
        channel: &ChannelName,
        creator: &QuotaOwner,
    ) -> EngineResponse<Result<ChannelGuard<S>, EngineError>>;

    /// Like [`subscribe`](Self::subscribe), for a client that has received this message: the log has it, too,
    /// unless it was lost.
    fn subscribe_after(
        &self,
        channel: &ChannelName,
        creator: &QuotaOwner,
        _since: &Since<'_>,
    ) -> EngineResponse<Result<ChannelGuard<S>, EngineError>> {
        self.subscribe(channel, creator)
    }

    /// Returns a page of at most `limit` subscribers of a channel on all servers that share it. `cursor` is
    /// zero or the [end](Presence::next_cursor) of the previous page.
    fn presence(
        &self,
        channel: &ChannelName,
        cursor: u64,
        limit: usize,
    ) -> EngineResponse<Result<Presence, EngineError>>;

    /// Announces that this server is shutting down, so that others do not wait for its replies. Does nothing
    /// in engines that are not shared.
    fn leave(&self) -> EngineResponse<()> {
        EngineResponse::Ready(())
    }

    /// Adopts channels restored from an earlier process, which may have used another engine. Sessions already
    /// subscribe to these channels. Called once at startup, before any other request. Engines that wrap
    /// another one need not implement it.
    fn adopt_restored(&self, _restored: Vec<Arc<Channel<S>>>) {}
}

/// Part of a channel's log.
#[derive(Debug)]
pub struct History {
    pub epoch: Box<str>,
    pub bounds: LogBounds,
    /// Oldest message first.
    pub messages: Vec<HistoryMessage>,
}

impl History {
    /// Reads a local log.
    pub(super) fn of<S: Subscriber>(
        log: &Channel<S>,
        part: HistoryPart,
        limit: HistoryLimit,
        now: Timestamp,
    ) -> Self {
        let (bounds, messages) = log.history(part, limit, now);
        Self { epoch: log.epoch().into(), bounds, messages }
    }
}
