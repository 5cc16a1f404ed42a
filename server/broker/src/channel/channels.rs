use std::sync::Arc;

use encke_base::entropy::Entropy;
use encke_base::executor::Executor;
use encke_base::metrics::Metrics;
use encke_timeouts::{OwnerKey, Timeouts};

use super::append::LogAppender;
use super::fan_out::FanOut;
use super::namespaces::Namespaces;
use super::occupancy::Occupancy;
use super::presence::PresencePage;
use super::retention::LogRetention;
use super::state::Channel;
use super::subscriber::Subscriber;
use super::subscribers::SubscriberKey;
use super::table::ChannelTable;

/// All channels of the server.
#[derive(Debug)]
pub struct Channels<S: Subscriber> {
    pub(super) appender: LogAppender<S>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) entropy: Entropy,
}

impl<S: Subscriber> Channels<S> {
    /// Creates an empty set of at most `limit` channels. One user can create at most `limit_per_creator` of
    /// them, and one address at most half. Large audiences are notified on `executor`.
    #[expect(clippy::too_many_arguments, reason = "what all channels share")]
    pub fn new(
        registry: Arc<S::Registry>,
        limit: usize,
        limit_per_creator: usize,
        namespaces: Arc<Namespaces>,
        timeouts: Arc<Timeouts>,
        metrics: Arc<Metrics>,
        entropy: Entropy,
        executor: Arc<dyn Executor>,
    ) -> Self {
        let table = ChannelTable::new(limit, limit_per_creator);
        let retention = LogRetention::new(table, namespaces, timeouts);
        let appender = LogAppender::new(retention, FanOut::new(registry, executor));
        Self { appender, metrics, entropy }
    }

    /// Reports the first subscription to a channel and the end of the last one to `occupancy`.
    pub fn with_occupancy(mut self, occupancy: Option<Arc<Occupancy>>) -> Self {
        self.appender.retention.table.occupancy = occupancy;
        self
    }

    pub(super) fn retention(&self) -> &LogRetention<S> {
        &self.appender.retention
    }

    pub(super) fn table(&self) -> &ChannelTable<S> {
        &self.appender.retention.table
    }

    pub fn namespaces(&self) -> &Arc<Namespaces> {
        &self.retention().namespaces
    }

    /// Registry in which subscribers are looked up.
    pub fn registry(&self) -> &Arc<S::Registry> {
        &self.appender.fan_out.registry
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Stops all appends. An append that is in progress still completes, so the contents of a log are final
    /// once its lock has been acquired after this call.
    pub fn close(&self) {
        self.appender.close();
    }

    /// Allows appends again, because the contents of the logs will not be saved.
    pub fn reopen(&self) {
        self.appender.reopen();
    }

    /// Whether appends are stopped.
    pub fn is_closed(&self) -> bool {
        self.appender.is_closed()
    }

    /// Returns the channel with this name, if it exists.
    pub fn get(&self, name: &str) -> Option<Arc<Channel<S>>> {
        self.table().get(name)
    }

    /// Returns at most `limit` public channels whose names follow `cursor`, sorted by name.
    pub fn public_after(&self, cursor: Option<&str>, limit: usize) -> Vec<Arc<Channel<S>>> {
        self.table().public_after(cursor, limit)
    }

    /// Returns at most `limit` channels, public or not, whose names follow `cursor`, sorted by name.
    pub fn after(&self, cursor: Option<&str>, limit: usize) -> Vec<Arc<Channel<S>>> {
        self.table().after(cursor, limit)
    }

    /// Returns the channel whose timer has this key, if it still exists.
    pub fn find_by_timer(&self, owner: OwnerKey) -> Option<Arc<Channel<S>>> {
        self.table().find_by_timer(owner)
    }

    /// Drops expired messages, after the timer for the log's oldest message has expired.
    pub fn handle_timeout(&self, channel: &Arc<Channel<S>>) {
        self.retention().handle_timeout(channel);
    }

    /// Number of channels.
    pub fn len(&self) -> usize {
        self.table().len()
    }

    /// Number of channels that count towards the limit.
    pub fn limited_len(&self) -> usize {
        self.len().saturating_sub(self.table().direct_len())
    }

    /// Bytes held by all logs.
    pub fn bytes(&self) -> usize {
        self.retention().bytes()
    }

    /// Bytes held by all logs, each message counted once.
    #[cfg(feature = "simulation")]
    pub fn count_bytes(&self) -> usize {
        let mut seen = std::collections::HashSet::new();
        let channels = self.after(None, usize::MAX);
        channels.iter().map(|channel| channel.state.lock().log.count_bytes(&mut seen)).sum()
    }

    /// Number of timers registered for channels.
    #[cfg(any(test, feature = "simulation"))]
    pub fn timer_count(&self) -> usize {
        self.table().timer_count()
    }

    /// Ends a subscription.
    pub fn unsubscribe(&self, channel: &Arc<Channel<S>>, key: SubscriberKey) {
        channel.remove_subscriber(key);
        self.retention().retire_if_unused(channel);
    }

    /// Returns at most `limit` subscribers from index `from` on; an empty page if the channel does not exist.
    pub fn presence_page(&self, name: &str, from: usize, limit: usize) -> PresencePage {
        let Some(channel) = self.get(name) else { return PresencePage::default() };
        let is_wanted = |subscriber: &S, is_listed| is_listed && subscriber.exists(self.registry());
        let (mut subscribers, total) = channel.subscribers(from, limit.saturating_add(1), is_wanted);
        // One extra subscriber was requested; its index starts the next page.
        let next = subscribers.get(limit).map(|(index, _)| *index);
        subscribers.truncate(limit);
        let members = subscribers.into_iter();
        let members = members
            .filter_map(|(index, subscriber)| Some((index, subscriber.member(self.registry(), &channel)?)));
        PresencePage { total, members: members.collect(), next }
    }
}
