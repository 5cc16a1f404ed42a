//! Channels in Redis, which several servers share.
//!
//! Redis has the logs. A publish is one script there ([`scripts`]), and its answer is Redis's. One task ([`feed`]) follows the channels that
//! sessions here follow, and keeps a log of each in this process, which all of them read: so a message comes here once, however many follow its
//! channel. What comes is in order, or the task reads what is missing; what cannot be had any more is a gap, as in any log.
//!
//! While Redis cannot be reached, publishes are refused at once, sessions stay, and what they have missed is read afterwards. Every deadline is on
//! the server's own wheel.

mod address;
mod asked;
mod connected;
mod connection;
mod feed;
mod following;
mod keys;
mod link;
mod message;
mod opening;
mod patterns;
mod presence;
mod probe;
mod pushes;
mod restored;
mod scripts;
mod sentinel;
mod settings;
#[cfg(feature = "simulation")]
mod simulated;
mod tls;

use std::sync::Arc;

use encke_core::message::Content;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{Answer, EngineError, History, LogEngine, Presence};
use crate::admission::Holder;
use crate::channel::{Channel, ChannelName, Channels, HistoryPart, Hold, PublishId, Published, Subscriber};
use crate::entropy::Entropy;
use crate::executor::Executor;
use crate::timeouts::Timeouts;

pub use address::RedisAddress;
use feed::Feed;
pub use link::EvictsKeys;
pub(crate) use link::Health;
use link::Link;
pub use sentinel::Sentinels;
pub use settings::{RedisPlace, RedisSettings};
#[cfg(feature = "simulation")]
pub(crate) use simulated::{SimulatedRedis, Stream};
pub use tls::RedisTls;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct RedisEngine<S: Subscriber> {
    link: Arc<Link<S>>,
    /// To the task, which waits for it before it connects.
    restored: Mutex<Option<oneshot::Sender<Vec<Hold<S>>>>>,
}

impl<S: Subscriber> RedisEngine<S> {
    /// Connects once it knows what there is to [go on with](LogEngine::go_on_with), and goes on with it for ever.
    pub(crate) fn start(
        settings: RedisSettings,
        channels: Arc<Channels<S>>,
        timeouts: Arc<Timeouts>,
        entropy: Entropy,
        executor: &Arc<dyn Executor>,
    ) -> Self {
        channels.metrics().engine.begin();
        let (link, requests) = Link::new(settings, channels, timeouts, entropy, Arc::clone(executor));
        let link = Arc::new(link);
        let (restored, to_restore) = oneshot::channel();
        executor.spawn(Box::pin(Feed::new(Arc::clone(&link), requests).run(to_restore)));
        Self { link, restored: Mutex::new(Some(restored)) }
    }

    pub(crate) fn health(&self) -> Arc<Health> {
        Arc::clone(&self.link.health)
    }
}

impl<S: Subscriber> LogEngine<S> for RedisEngine<S> {
    fn append(
        &self,
        channel: &ChannelName,
        _: &Holder,
        content: &Content<'_>,
        id: Option<&PublishId>,
    ) -> Answer<Result<Published, EngineError>> {
        if self.link.channels.is_closed() {
            return Answer::Ready(Err(EngineError::Draining));
        }
        self.link.publish(channel, content, id)
    }

    fn read(
        &self,
        channel: &ChannelName,
        part: HistoryPart,
        limit: usize,
    ) -> Answer<Result<Option<History>, EngineError>> {
        self.link.read(channel, part, limit)
    }

    fn follow(&self, channel: &ChannelName, maker: &Holder) -> Answer<Result<Hold<S>, EngineError>> {
        self.link.follow(channel, maker)
    }

    fn presence(
        &self,
        channel: &ChannelName,
        cursor: u64,
        limit: usize,
    ) -> Answer<Result<Presence, EngineError>> {
        self.link.presence(channel, cursor, limit)
    }

    fn leave(&self) -> Answer<()> {
        self.link.leave()
    }

    fn go_on_with(&self, restored: Vec<Arc<Channel<S>>>) {
        let channels = &self.link.channels;
        // What the server says is said here, and goes on as it is.
        let shared = restored.iter().filter(|channel| !channel.name().is_direct());
        let holds = shared.filter_map(|channel| {
            // A pattern's log is not in Redis: it has what it has until another begins.
            let is_pattern = channel.name().is_pattern();
            if is_pattern { channels.hold_followed(channel) } else { channels.await_filling(channel) }
        });
        let holds = holds.collect();
        let sender = self.restored.lock().take();
        if let Some(sender) = sender {
            // The task goes with the runtime.
            _ = sender.send(holds);
        }
    }
}
