use std::sync::Arc;

use encke_core::message::Content;

use super::{Answer, EngineError, History, LogEngine, Presence};
use crate::admission::Holder;
use crate::channel::{Channel, ChannelName, Channels, HistoryPart, Hold, PublishId, Published, Subscriber};
use crate::timeouts::Timeouts;
use crate::trace::Publish;

/// Logs in the memory of this process, which end with it. It answers everything at once.
#[derive(Debug)]
pub(crate) struct MemoryEngine<S: Subscriber> {
    pub(crate) channels: Arc<Channels<S>>,
    pub(crate) timeouts: Arc<Timeouts>,
}

impl<S: Subscriber> LogEngine<S> for MemoryEngine<S> {
    fn append(
        &self,
        channel: &ChannelName,
        maker: &Holder,
        content: &Content<'_>,
        id: Option<&PublishId>,
    ) -> Answer<Result<Published, EngineError>> {
        Answer::Ready(self.channels.publish(channel, maker, content, id).map_err(EngineError::from))
    }

    fn append_traced(
        &self,
        channel: &ChannelName,
        maker: &Holder,
        content: &Content<'_>,
        id: Option<&PublishId>,
        trace: &Publish,
    ) -> Answer<Result<Published, EngineError>> {
        let published = self.channels.publish_traced(channel, maker, content, id, trace);
        Answer::Ready(published.map_err(EngineError::from))
    }

    fn read(
        &self,
        channel: &ChannelName,
        part: HistoryPart,
        limit: usize,
    ) -> Answer<Result<Option<History>, EngineError>> {
        let now = self.timeouts.clock().now();
        let log = self.channels.get(channel.as_str());
        Answer::Ready(Ok(log.map(|log| History::of(&log, part, limit, now))))
    }

    fn follow(&self, channel: &ChannelName, maker: &Holder) -> Answer<Result<Hold<S>, EngineError>> {
        Answer::Ready(self.channels.hold(channel, maker).map_err(EngineError::from))
    }

    fn presence(
        &self,
        channel: &ChannelName,
        cursor: u64,
        limit: usize,
    ) -> Answer<Result<Presence, EngineError>> {
        let from = usize::try_from(cursor).unwrap_or(usize::MAX);
        Answer::Ready(Ok(Presence::here(self.channels.present(channel.as_str(), from, limit))))
    }

    fn go_on_with(&self, restored: Vec<Arc<Channel<S>>>) {
        self.channels.begin_anew(restored.iter().filter(|channel| channel.is_fed()));
    }
}
