//! A test engine whose responses wait for a signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use encke_base::locks::Mutex;
use encke_base::quota::QuotaOwner;
use encke_broker::channel::{ChannelGuard, ChannelName, HistoryLimit, HistoryPart, PublishId, Published};
use encke_broker::engine::{EngineError, EngineResponse, History, LogEngine, MemoryEngine, Presence};
use encke_core::message::Content;
use futures_util::FutureExt;

use crate::session::SessionRef;

/// The memory engine, with responses held back until the test releases them.
#[derive(Debug)]
pub(crate) struct SlowEngine {
    pub(crate) memory: MemoryEngine<SessionRef>,
    pub(crate) control: Arc<SlowControl>,
}

/// Lets a test control the engine.
#[derive(Debug, Default)]
pub(crate) struct SlowControl {
    /// Whether responses are released.
    pub(crate) is_open: AtomicBool,
    /// Error to return for publishes, if set.
    pub(crate) refusal: Mutex<Option<EngineError>>,
}

impl SlowEngine {
    fn later<T: Send + 'static>(&self, response: EngineResponse<T>) -> EngineResponse<T> {
        let held = Arc::clone(&self.control);
        let mut response = Some(response);
        let ready = std::future::poll_fn(move |_| match response.take() {
            Some(EngineResponse::Ready(ready)) if held.is_open.load(Ordering::Relaxed) => Poll::Ready(ready),
            waiting => {
                response = waiting;
                Poll::Pending
            }
        });
        EngineResponse::Pending(ready.boxed())
    }
}

impl LogEngine<SessionRef> for SlowEngine {
    fn append(
        &self,
        channel: &ChannelName,
        creator: &QuotaOwner,
        content: &Content<'_>,
        id: Option<&PublishId>,
    ) -> EngineResponse<Result<Published, EngineError>> {
        let refusal = *self.control.refusal.lock();
        self.later(match refusal {
            Some(error) => EngineResponse::Ready(Err(error)),
            None => self.memory.append(channel, creator, content, id),
        })
    }

    fn read(
        &self,
        channel: &ChannelName,
        part: HistoryPart,
        limit: HistoryLimit,
    ) -> EngineResponse<Result<Option<History>, EngineError>> {
        self.later(self.memory.read(channel, part, limit))
    }

    fn subscribe(
        &self,
        channel: &ChannelName,
        creator: &QuotaOwner,
    ) -> EngineResponse<Result<ChannelGuard<SessionRef>, EngineError>> {
        self.later(self.memory.subscribe(channel, creator))
    }

    fn presence(
        &self,
        channel: &ChannelName,
        cursor: u64,
        limit: usize,
    ) -> EngineResponse<Result<Presence, EngineError>> {
        self.later(self.memory.presence(channel, cursor, limit))
    }
}
