//! An engine for tests, which answers when it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use encke_core::message::Content;
use futures_util::FutureExt;
use parking_lot::Mutex;

use super::{Answer, EngineError, History, LogEngine, MemoryEngine, Presence};
use crate::admission::Holder;
use crate::channel::{ChannelName, HistoryPart, Hold, PublishId, Published};
use crate::session::SessionRef;

/// The memory engine, which keeps its answers to itself until it is told to give them.
#[derive(Debug)]
pub(crate) struct SlowEngine {
    pub(crate) memory: MemoryEngine<SessionRef>,
    pub(crate) held: Arc<Held>,
}

/// What a test tells its engine.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Whether it gives its answers now.
    pub(crate) answers: AtomicBool,
    /// What becomes of a publish.
    pub(crate) refusal: Mutex<Option<EngineError>>,
}

impl SlowEngine {
    fn later<T: Send + 'static>(&self, answer: Answer<T>) -> Answer<T> {
        let held = Arc::clone(&self.held);
        let mut answer = Some(answer);
        let ready = std::future::poll_fn(move |_| match answer.take() {
            Some(Answer::Ready(ready)) if held.answers.load(Ordering::Relaxed) => Poll::Ready(ready),
            waiting => {
                answer = waiting;
                Poll::Pending
            }
        });
        Answer::Later(ready.boxed())
    }
}

impl LogEngine<SessionRef> for SlowEngine {
    fn append(
        &self,
        channel: &ChannelName,
        maker: &Holder,
        content: &Content<'_>,
        id: Option<&PublishId>,
    ) -> Answer<Result<Published, EngineError>> {
        self.later(match *self.held.refusal.lock() {
            Some(error) => Answer::Ready(Err(error)),
            None => self.memory.append(channel, maker, content, id),
        })
    }

    fn read(
        &self,
        channel: &ChannelName,
        part: HistoryPart,
        limit: usize,
    ) -> Answer<Result<Option<History>, EngineError>> {
        self.later(self.memory.read(channel, part, limit))
    }

    fn follow(&self, channel: &ChannelName, maker: &Holder) -> Answer<Result<Hold<SessionRef>, EngineError>> {
        self.later(self.memory.follow(channel, maker))
    }

    fn presence(
        &self,
        channel: &ChannelName,
        cursor: u64,
        limit: usize,
    ) -> Answer<Result<Presence, EngineError>> {
        self.later(self.memory.presence(channel, cursor, limit))
    }
}
