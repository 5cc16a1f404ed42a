use std::sync::Arc;

use encke_base::quota::QuotaOwner;
use encke_base::trace::PublishTrace;
use encke_core::message::Content;
use encke_timeouts::Timeouts;

use crate::channel::{
    Channel, ChannelGuard, ChannelName, Channels, HistoryLimit, HistoryPart, PublishId, Published, Subscriber,
};
use crate::engine::error::EngineError;
use crate::engine::log_engine::{History, LogEngine};
use crate::engine::presence::Presence;
use crate::engine::response::EngineResponse;

/// Engine that keeps its logs only in the memory of this process. All its responses are immediate.
#[derive(Debug)]
pub struct MemoryEngine<S: Subscriber> {
    pub channels: Arc<Channels<S>>,
    pub timeouts: Arc<Timeouts>,
}

impl<S: Subscriber> LogEngine<S> for MemoryEngine<S> {
    fn append(
        &self,
        channel: &ChannelName,
        creator: &QuotaOwner,
        content: &Content<'_>,
        id: Option<&PublishId>,
    ) -> EngineResponse<Result<Published, EngineError>> {
        EngineResponse::Ready(self.channels.publish(channel, creator, content, id).map_err(EngineError::from))
    }

    fn append_traced(
        &self,
        channel: &ChannelName,
        creator: &QuotaOwner,
        content: &Content<'_>,
        id: Option<&PublishId>,
        trace: &PublishTrace,
    ) -> EngineResponse<Result<Published, EngineError>> {
        let published = self.channels.publish_traced(channel, creator, content, id, trace);
        EngineResponse::Ready(published.map_err(EngineError::from))
    }

    fn read(
        &self,
        channel: &ChannelName,
        part: HistoryPart,
        limit: HistoryLimit,
    ) -> EngineResponse<Result<Option<History>, EngineError>> {
        let now = self.timeouts.clock().now();
        let log = self.channels.get(channel.as_str());
        EngineResponse::Ready(Ok(log.map(|log| History::of(&log, part, limit, now))))
    }

    fn subscribe(
        &self,
        channel: &ChannelName,
        creator: &QuotaOwner,
    ) -> EngineResponse<Result<ChannelGuard<S>, EngineError>> {
        EngineResponse::Ready(self.channels.acquire(channel, creator).map_err(EngineError::from))
    }

    fn presence(
        &self,
        channel: &ChannelName,
        cursor: u64,
        limit: usize,
    ) -> EngineResponse<Result<Presence, EngineError>> {
        let from = usize::try_from(cursor).unwrap_or(usize::MAX);
        EngineResponse::Ready(Ok(Presence::single_server(self.channels.presence_page(
            channel.as_str(),
            from,
            limit,
        ))))
    }

    fn adopt_restored(&self, restored: Vec<Arc<Channel<S>>>) {
        self.channels.reset_epoch(restored.iter().filter(|channel| channel.is_remote()));
    }
}
