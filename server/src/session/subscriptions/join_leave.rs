//! Notices of joins and leaves, published as messages of the channel in namespaces with `join_leave`.
//!
//! A notice is queued while the session's lock is held, together with the change that it reports. Therefore
//! the notices of one session on one channel are in order, regardless of which threads act. Each channel with
//! a queue has one task, which publishes the next notice once the previous one is in the log, and retries
//! while the engine is unreachable. Joins of an owner that joins too often are [held back](super::held_joins).

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use encke_base::executor::{Executor, yield_now};
use encke_base::locks::Mutex;
use encke_base::metrics::Metrics;
use encke_base::quota::QuotaOwner;
use encke_broker::channel::ChannelName;
use encke_broker::engine::{EngineError, RetryBackoff};
use encke_core::message::ContentKind;
use encke_timeouts::Timeouts;
use futures_util::future::select;
use tokio::sync::Notify;

use super::held_joins::{JoinRates, PendingJoin};
use super::notice_table::{NextNotice, Notice, NoticeTable, QueueFull};
use crate::auth::Identity;
use crate::session::channels::{Channel, SessionLogs, SubscribedChannel};
use crate::session::id::SessionId;
use crate::session::session_ref::SessionRef;
use crate::session::table::{NotRestored, SessionCell, SessionState, StoredNotice};

/// Publishes notices of joins and leaves; `None` if no namespace has `join_leave`.
pub(crate) struct JoinLeave(Option<Arc<Notices>>);

/// Notices of all channels.
struct Notices {
    /// Locked for one lookup at a time.
    table: Mutex<NoticeTable>,
    logs: SessionLogs,
    timeouts: Arc<Timeouts>,
    metrics: Arc<Metrics>,
    executor: Arc<dyn Executor>,
    /// Notified when no task is running.
    settled: Notify,
}

impl Notices {
    /// Queues a join. Returns whether presence lists the session from now on. It does not if the join is held
    /// back or lost. The caller holds the session's lock, which keeps the notices in the order of the changes.
    /// After releasing it, the caller must call [`Self::start_publishing`] for the channel.
    fn enqueue_join(
        &self,
        session: &SessionCell,
        owner: QuotaOwner,
        user: Option<Arc<str>>,
        channel: &Arc<Channel>,
    ) -> bool {
        let notice = Notice { kind: ContentKind::Joined, session: session.id(), user };
        let join = PendingJoin { notice, session: session.reference(), owner };
        let mut guard = self.logs.channels.acquire_existing(Arc::clone(channel)).ok();
        let now = self.timeouts.clock().now();
        let added = self.table.lock().add_join(channel.name(), join, now, &mut guard);
        self.count_lost(added).unwrap_or(false)
    }

    /// Queues a leave. If the join of the session was not announced, its leave is not announced either. The caller
    /// proceeds as for [`Self::enqueue_join`].
    fn enqueue_leave(&self, session: SessionId, user: Option<Arc<str>>, subscription: &SubscribedChannel) {
        let SubscribedChannel { channel, key } = subscription;
        if !channel.is_listed(*key) {
            return self.table.lock().cancel_join(channel.name(), session);
        }
        let notice = Notice { kind: ContentKind::Left, session, user };
        let mut guard = self.logs.channels.acquire_existing(Arc::clone(channel)).ok();
        let added = self.table.lock().add(channel.name(), notice, &mut guard);
        self.count_lost(added);
    }

    fn count_lost<T>(&self, added: Result<T, QueueFull>) -> Option<T> {
        if added.is_err() {
            self.metrics.channels.join_leave_lost();
        }
        added.ok()
    }

    /// Starts a task that publishes the channel's notices, if one is needed.
    fn start_publishing(self: &Arc<Self>, channel: &ChannelName) {
        let needs_task = self.table.lock().needs_task(channel);
        if needs_task {
            self.executor.spawn(Box::pin(Arc::clone(self).publish_all(channel.clone())));
        }
    }

    async fn publish_all(self: Arc<Self>, channel: ChannelName) {
        let mut backoff = RetryBackoff::new();
        loop {
            let notice = match self.next(&channel) {
                NextNotice::Publish(notice) => notice,
                NextNotice::Release(id, session) => {
                    self.release(&channel, id, session);
                    continue;
                }
                NextNotice::WaitUntil(time, changed) => {
                    select(pin!(self.timeouts.sleep_until(time)), pin!(changed.notified())).await;
                    continue;
                }
                NextNotice::None => return,
            };
            let response = {
                let content = notice.content();
                self.logs.engine.append(&channel, &QuotaOwner::Operator, &content, None)
            };
            match response.await {
                Ok(_) => self.remove_oldest(&channel),
                Err(EngineError::Draining) => self.stop(),
                Err(error @ EngineError::TooManyChannels(_)) => {
                    let session = notice.session;
                    tracing::warn!(%session, %channel, %error, "join or leave notice dropped");
                    self.metrics.channels.join_leave_lost();
                    self.remove_oldest(&channel);
                }
                // The engine may have stored the notice despite the error. Publishing it twice is harmless.
                Err(EngineError::Unavailable | EngineError::OutcomeUnknown | EngineError::Overloaded) => {
                    self.timeouts.sleep(backoff.next_delay()).await;
                    continue;
                }
            }
            backoff = RetryBackoff::new();
            yield_now().await;
        }
    }

    /// Returns what the channel's task must do next.
    fn next(&self, channel: &ChannelName) -> NextNotice {
        let now = self.timeouts.clock().now();
        // Drop the queue after releasing the lock, because its guard takes other locks.
        let (next, _removed, is_settled) = self.table.lock().next(channel, now);
        if is_settled {
            self.settled.notify_waiters();
        }
        next
    }

    /// Queues a join that was held back, and lists its session in presence. Both happen under the session's
    /// lock, so no leave can come in between.
    fn release(&self, channel: &ChannelName, id: SessionId, session: SessionRef) {
        let sessions = self.logs.channels.registry();
        let release = |state: &mut SessionState| {
            let is_released = self.table.lock().release(channel, id);
            if let Some((_, subscription)) = state.find(channel.as_str()).filter(|_| is_released) {
                subscription.channel.set_listed(subscription.key, true);
            }
        };
        let released = sessions.get(session).and_then(|session| sessions.change(&session, release));
        if released.is_none() {
            // A session that ends cancels its joins, so this is not expected.
            self.table.lock().cancel_join(channel, id);
        }
    }

    /// Removes the oldest notice, because it was published or is being dropped.
    fn remove_oldest(&self, channel: &ChannelName) {
        self.table.lock().remove_oldest(channel);
    }

    /// Starts publishing, including notices left by an earlier process.
    fn start_all(self: &Arc<Self>) {
        let queued = self.table.lock().start();
        queued.iter().for_each(|channel| self.start_publishing(channel));
    }

    /// Stops publishing. Remaining notices are left to the next process.
    fn stop(&self) {
        self.table.lock().stop();
    }

    async fn settled(&self) {
        loop {
            let settled = self.settled.notified();
            if self.table.lock().has_no_task() {
                return;
            }
            settled.await;
        }
    }

    /// Returns all remaining notices, those of each channel oldest first.
    fn snapshot(&self) -> Vec<StoredNotice> {
        let table = self.table.lock();
        let all = table.all().map(|(channel, notice)| StoredNotice {
            channel: channel.as_str().to_owned(),
            has_left: notice.kind == ContentKind::Left,
            session: notice.session.bytes(),
            user: notice.user.as_deref().map(ToOwned::to_owned),
        });
        all.collect()
    }

    /// The inverse of [`Self::snapshot`]. Returns `false` if the notice does not fit.
    fn restore(&self, channel: &ChannelName, stored: &StoredNotice) -> bool {
        let notice = Notice {
            kind: if stored.has_left { ContentKind::Left } else { ContentKind::Joined },
            session: SessionId::from_bytes(stored.session),
            user: stored.user.as_deref().map(Into::into),
        };
        let existing = self.logs.channels.get(channel.as_str());
        let mut guard = existing.and_then(|existing| self.logs.channels.acquire_existing(existing).ok());
        let added = self.table.lock().add(channel, notice, &mut guard);
        added.is_ok()
    }
}

impl JoinLeave {
    /// Creates an empty set of queues, which does not publish yet.
    pub(super) fn new(
        joins_per_minute: u32,
        logs: SessionLogs,
        timeouts: Arc<Timeouts>,
        metrics: Arc<Metrics>,
        executor: Arc<dyn Executor>,
    ) -> Self {
        Self(logs.channels.namespaces().any_join_leave().then(|| {
            let table = Mutex::new(NoticeTable::new(JoinRates::new(joins_per_minute)));
            let settled = Notify::new();
            Arc::new(Notices { table, logs, timeouts, metrics, executor, settled })
        }))
    }

    /// Returns the queues, if subscribers of the channel are notified of joins and leaves.
    fn of(&self, channel: &ChannelName) -> Option<&Arc<Notices>> {
        let notices = self.0.as_ref()?;
        let rules = notices.logs.channels.namespaces().rules_of(channel.as_str());
        // Subscribing to a pattern does not count as joining a channel.
        let is_published = rules.join_leave && !channel.is_direct() && !channel.is_pattern();
        is_published.then_some(notices)
    }

    /// Queues a notice that the session has subscribed. `address` is `None` if the backend subscribes a session that
    /// has no connection. The caller holds the session's lock, and calls [`Self::publish`] after releasing it.
    pub(super) fn enqueue_join(
        &self,
        session: &SessionCell,
        state: &SessionState,
        address: Option<IpAddr>,
        channel: &ChannelName,
    ) {
        let owner = || match (state.identity.shared_user(), address) {
            (Some(user), _) => QuotaOwner::User(user),
            (None, Some(address)) => QuotaOwner::new(None, address),
            (None, None) => QuotaOwner::Operator,
        };
        self.enqueue_join_of(session, state, owner, channel);
    }

    /// Like [`Self::enqueue_join`], with the owner to whom the join counts.
    pub(super) fn enqueue_join_of(
        &self,
        session: &SessionCell,
        state: &SessionState,
        owner: impl FnOnce() -> QuotaOwner,
        channel: &ChannelName,
    ) {
        let Some(notices) = self.of(channel) else { return };
        let Some((_, SubscribedChannel { channel, key })) = state.find(channel.as_str()) else { return };
        let is_listed = notices.enqueue_join(session, owner(), state.identity.shared_user(), channel);
        channel.set_listed(*key, is_listed);
    }

    /// Queues a notice that the session has unsubscribed. The caller holds the session's lock, and calls
    /// [`Self::publish`] after releasing it.
    pub(crate) fn enqueue_leave(
        &self,
        session: &SessionCell,
        identity: &Identity,
        subscription: &SubscribedChannel,
    ) {
        if let Some(notices) = self.of(subscription.channel.name()) {
            notices.enqueue_leave(session.id(), identity.shared_user(), subscription);
        }
    }

    /// Publishes the channel's queued notices.
    pub(super) fn publish(&self, channel: &ChannelName) {
        if let Some(notices) = self.of(channel) {
            notices.start_publishing(channel);
        }
    }

    #[cfg(test)]
    pub(super) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Starts publishing notices, beginning with those left by an earlier process. The engine must be ready.
    pub(crate) fn start(&self) {
        if let Some(notices) = &self.0 {
            notices.start_all();
        }
    }

    /// Stops publishing notices. The remaining ones are left to the next process.
    pub(crate) fn stop(&self) {
        if let Some(notices) = &self.0 {
            notices.stop();
        }
    }

    /// Waits until no notice is being published, because all have been published or publishing was
    /// [stopped](Self::stop).
    pub(crate) async fn settled(&self) {
        if let Some(notices) = &self.0 {
            notices.settled().await;
        }
    }

    /// Returns the notices that were not published.
    pub(crate) fn snapshot(&self) -> Vec<StoredNotice> {
        self.0.as_ref().map_or_else(Vec::new, |notices| notices.snapshot())
    }

    /// Number of joins that are held back.
    #[cfg(feature = "simulation")]
    pub(crate) fn held(&self) -> usize {
        self.0.as_ref().map_or(0, |notices| notices.table.lock().held())
    }

    /// Restores a notice left by an earlier process. The notice is dropped if its namespace no longer has
    /// `join_leave`.
    ///
    /// # Errors
    /// Returns [`NotRestored`] if the channel name is invalid or the queue is full.
    pub(crate) fn restore(&self, stored: &StoredNotice) -> Result<(), NotRestored> {
        let name = ChannelName::for_publish(&stored.channel, usize::MAX);
        let name =
            name.map_err(|_| NotRestored::Contradiction("a join or leave notice without a channel"))?;
        let is_restored = self.of(&name).is_none_or(|notices| notices.restore(&name, stored));
        is_restored
            .then_some(())
            .ok_or(NotRestored::Contradiction("more join or leave notices than fit into the queue"))
    }
}
