use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use encke_base::quota::QuotaOwner;
use encke_broker::channel::{ChannelGuard, ChannelName, HistoryLimit, HistoryPart, PublishId, Published};
use encke_broker::engine::{EngineError, EngineResponse, History, LogEngine, MemoryEngine, Presence};
use encke_core::message::Content;
use futures_util::FutureExt;

use crate::session::SessionRef;

/// Function that returns the delay of the next response, or `None` if it is immediate.
pub(super) type Delay = Box<dyn Fn() -> Option<Duration> + Send + Sync>;

/// A memory engine that delays some of its responses, like a remote engine.
pub(super) struct DelayedEngine {
    pub(super) memory: Arc<MemoryEngine<SessionRef>>,
    pub(super) delay: Delay,
    /// Number of outstanding responses.
    pub(super) outstanding: Arc<AtomicUsize>,
}

/// Counts one outstanding response until it is dropped.
struct OutstandingAnswer(Arc<AtomicUsize>);

impl OutstandingAnswer {
    fn new(outstanding: &Arc<AtomicUsize>) -> Self {
        outstanding.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(outstanding))
    }
}

impl Drop for OutstandingAnswer {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl DelayedEngine {
    fn answer<T: Send + 'static>(
        &self,
        call: impl FnOnce(&MemoryEngine<SessionRef>) -> EngineResponse<T> + Send + 'static,
    ) -> EngineResponse<T> {
        let delay = (self.delay)();
        // Requests are executed in order, so none may overtake a delayed one.
        if delay.is_none() && self.outstanding.load(Ordering::Relaxed) == 0 {
            return call(&self.memory);
        }
        let memory = Arc::clone(&self.memory);
        let outstanding = OutstandingAnswer::new(&self.outstanding);
        let delayed = async move {
            let _outstanding = outstanding;
            if let Some(delay) = delay {
                memory.timeouts.sleep(delay).await;
            }
            call(&memory).await
        };
        EngineResponse::Pending(delayed.boxed())
    }
}

impl LogEngine<SessionRef> for DelayedEngine {
    fn append(
        &self,
        channel: &ChannelName,
        creator: &QuotaOwner,
        content: &Content<'_>,
        id: Option<&PublishId>,
    ) -> EngineResponse<Result<Published, EngineError>> {
        let (channel, creator, content) = (channel.clone(), creator.clone(), content.clone().into_owned());
        let id = id.cloned();
        self.answer(move |memory| memory.append(&channel, &creator, &content, id.as_ref()))
    }

    fn read(
        &self,
        channel: &ChannelName,
        part: HistoryPart,
        limit: HistoryLimit,
    ) -> EngineResponse<Result<Option<History>, EngineError>> {
        let channel = channel.clone();
        self.answer(move |memory| memory.read(&channel, part, limit))
    }

    fn subscribe(
        &self,
        channel: &ChannelName,
        creator: &QuotaOwner,
    ) -> EngineResponse<Result<ChannelGuard<SessionRef>, EngineError>> {
        let (channel, creator) = (channel.clone(), creator.clone());
        self.answer(move |memory| memory.subscribe(&channel, &creator))
    }

    fn presence(
        &self,
        channel: &ChannelName,
        cursor: u64,
        limit: usize,
    ) -> EngineResponse<Result<Presence, EngineError>> {
        self.memory.presence(channel, cursor, limit)
    }
}

impl std::fmt::Debug for DelayedEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DelayedEngine").field("memory", &self.memory).finish_non_exhaustive()
    }
}
