use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use encke_core::message::Content;
use futures_util::FutureExt;

use crate::admission::Holder;
use crate::channel::{ChannelName, HistoryPart, Hold, PublishId, Published};
use crate::engine::{Answer, EngineError, History, LogEngine, MemoryEngine, Presence};
use crate::session::SessionRef;

/// Decides how late the next answer is, if it is late.
pub(super) type Delay = Box<dyn Fn() -> Option<Duration> + Send + Sync>;

/// The memory engine, some of whose answers come late, as those of an engine elsewhere do.
pub(super) struct LateEngine {
    pub(super) memory: Arc<MemoryEngine<SessionRef>>,
    pub(super) delay: Delay,
    /// Answers that are still to come.
    pub(super) late: Arc<AtomicUsize>,
}

/// One answer that is still to come.
struct Late(Arc<AtomicUsize>);

impl Late {
    fn one_more(late: &Arc<AtomicUsize>) -> Self {
        late.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(late))
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LateEngine {
    fn answer<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&MemoryEngine<SessionRef>) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let delay = (self.delay)();
        // What a connection asks for is done in its order, so nothing overtakes what is late.
        if delay.is_none() && self.late.load(Ordering::Relaxed) == 0 {
            return ask(&self.memory);
        }
        let memory = Arc::clone(&self.memory);
        let late = Late::one_more(&self.late);
        let later = async move {
            let _late = late;
            if let Some(delay) = delay {
                memory.timeouts.sleep(delay).await;
            }
            ask(&memory).await
        };
        Answer::Later(later.boxed())
    }
}

impl LogEngine<SessionRef> for LateEngine {
    fn append(
        &self,
        channel: &ChannelName,
        maker: &Holder,
        content: &Content<'_>,
        id: Option<&PublishId>,
    ) -> Answer<Result<Published, EngineError>> {
        let (channel, maker, content) = (channel.clone(), maker.clone(), content.clone().into_owned());
        let id = id.cloned();
        self.answer(move |memory| memory.append(&channel, &maker, &content, id.as_ref()))
    }

    fn read(
        &self,
        channel: &ChannelName,
        part: HistoryPart,
        limit: usize,
    ) -> Answer<Result<Option<History>, EngineError>> {
        let channel = channel.clone();
        self.answer(move |memory| memory.read(&channel, part, limit))
    }

    fn follow(&self, channel: &ChannelName, maker: &Holder) -> Answer<Result<Hold<SessionRef>, EngineError>> {
        let (channel, maker) = (channel.clone(), maker.clone());
        self.answer(move |memory| memory.follow(&channel, &maker))
    }

    fn presence(
        &self,
        channel: &ChannelName,
        cursor: u64,
        limit: usize,
    ) -> Answer<Result<Presence, EngineError>> {
        self.memory.presence(channel, cursor, limit)
    }
}

impl std::fmt::Debug for LateEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LateEngine").field("memory", &self.memory).finish_non_exhaustive()
    }
}
