//! Notices of joins and leaves that wait to be published, by channel.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use encke_broker::channel::{ChannelGuard, ChannelName};
use encke_core::Timestamp;
use encke_core::message::{Content, ContentKind};
use tokio::sync::Notify;

use super::held_joins::{HeldCounts, HeldJoins, JoinRates, PendingJoin};
use crate::session::id::SessionId;
use crate::session::session_ref::SessionRef;

/// Maximum number of queued notices of all channels, without the joins that are held back. Notices accumulate only
/// while the engine is slow or unreachable. Additional ones are dropped and counted.
pub(super) const MAX_QUEUED: usize = 65_536;

/// Notice that a session has joined or left.
#[derive(Clone, Debug)]
pub(super) struct Notice {
    pub(super) kind: ContentKind,
    pub(super) session: SessionId,
    pub(super) user: Option<Arc<str>>,
}

/// The error when too many notices are queued, or too many joins are held back.
#[derive(Debug)]
pub(super) struct QueueFull;

/// Outcome of [`NoticeTable::next`].
pub(super) enum NextNotice {
    Publish(Notice),
    /// The join of this session is due. It must be [released](NoticeTable::release) under the session's lock.
    Release(SessionId, SessionRef),
    /// All joins are held back until this time, unless the queue changes.
    WaitUntil(Timestamp, Arc<Notify>),
    None,
}

/// Notices of one channel.
#[derive(Default)]
pub(super) struct NoticeQueue {
    /// Notices to publish, oldest first.
    notices: VecDeque<Notice>,
    /// Joins that are held back. Each follows all other notices of its session.
    held: HeldJoins,
    /// Whether a task is publishing these notices.
    has_task: bool,
    /// Wakes the task while it waits for the first join that is held back.
    changed: Arc<Notify>,
    /// Keeps the channel alive until the queue is empty.
    _guard: Option<ChannelGuard<SessionRef>>,
}

pub(super) struct NoticeTable {
    /// Queues by channel. Each has notices, or a task that will remove it.
    queues: HashMap<ChannelName, NoticeQueue>,
    /// Number of notices in all queues, without the joins that are held back.
    queued: usize,
    held: HeldCounts,
    rates: JoinRates,
    running_tasks: usize,
    /// Whether notices are published. False until the engine knows which logs it restores, and again once the
    /// remaining notices are left to the next process.
    is_running: bool,
}

impl NoticeTable {
    pub(super) fn new(rates: JoinRates) -> Self {
        Self {
            queues: HashMap::new(),
            queued: 0,
            held: HeldCounts::default(),
            rates,
            running_tasks: 0,
            is_running: false,
        }
    }

    /// Adds a join. Returns whether it is announced without being held back. Takes `guard` if the channel has no queue
    /// yet; otherwise the caller drops it after releasing this lock.
    pub(super) fn add_join(
        &mut self,
        channel: &ChannelName,
        join: PendingJoin,
        now: Timestamp,
        guard: &mut Option<ChannelGuard<SessionRef>>,
    ) -> Result<bool, QueueFull> {
        let Some(due) = self.rates.count(channel, &join.owner, now) else {
            return self.add(channel, join.notice, guard).map(|()| true);
        };
        if !self.held.add(&join.owner) {
            self.rates.refund(channel, &join.owner);
            return Err(QueueFull);
        }
        let queue = self.queue(channel, guard);
        queue.held.insert(due, join);
        queue.changed.notify_one();
        Ok(false)
    }

    /// Removes the session's join if it is held back: the session leaves before it is announced.
    pub(super) fn cancel_join(&mut self, channel: &ChannelName, session: SessionId) {
        let Some(queue) = self.queues.get_mut(channel) else { return };
        let Some((due, join)) = queue.held.remove(session) else { return };
        queue.held.advance_last(&join.owner, due);
        // Wake the task, which may have nothing left to do.
        queue.changed.notify_one();
        self.held.remove(&join.owner);
        self.rates.refund(channel, &join.owner);
    }

    /// Adds a notice that is not held back.
    pub(super) fn add(
        &mut self,
        channel: &ChannelName,
        notice: Notice,
        guard: &mut Option<ChannelGuard<SessionRef>>,
    ) -> Result<(), QueueFull> {
        if self.queued >= MAX_QUEUED {
            return Err(QueueFull);
        }
        let queue = self.queue(channel, guard);
        queue.notices.push_back(notice);
        queue.changed.notify_one();
        self.queued += 1;
        Ok(())
    }

    fn queue(
        &mut self,
        channel: &ChannelName,
        guard: &mut Option<ChannelGuard<SessionRef>>,
    ) -> &mut NoticeQueue {
        let new = || NoticeQueue { _guard: guard.take(), ..NoticeQueue::default() };
        self.queues.entry(channel.clone()).or_insert_with(new)
    }

    /// Announces the session's held join, which is due, unless the limit delays it further. Returns whether
    /// the join is announced. The caller holds the session's lock, and lists the session as present from then
    /// on.
    pub(super) fn release(&mut self, channel: &ChannelName, session: SessionId) -> bool {
        let Some(queue) = self.queues.get_mut(channel) else { return false };
        let Some((due, join)) = queue.held.remove(session) else { return false };
        if let Some(due) = self.rates.recheck_due(channel, &join.owner, due) {
            queue.held.insert(due, join);
            return false;
        }
        self.held.remove(&join.owner);
        self.add(channel, join.notice, &mut None).is_ok()
    }

    /// Whether the channel has notices but no task. If so, the caller must start the task.
    pub(super) fn needs_task(&mut self, channel: &ChannelName) -> bool {
        let Self { queues, running_tasks, is_running, .. } = self;
        let Some(queue) = queues.get_mut(channel).filter(|queue| *is_running && !queue.has_task) else {
            return false;
        };
        queue.has_task = true;
        *running_tasks += 1;
        true
    }

    /// Returns what the channel's task must do next. If that is nothing, records that the task has ended. Also
    /// returns the queue if it is empty, and whether no task is left.
    pub(super) fn next(
        &mut self,
        channel: &ChannelName,
        now: Timestamp,
    ) -> (NextNotice, Option<NoticeQueue>, bool) {
        let Some(queue) = self.queues.get_mut(channel) else { return (NextNotice::None, None, false) };
        if self.is_running {
            if let Some(oldest) = queue.notices.front() {
                return (NextNotice::Publish(oldest.clone()), None, false);
            }
            if let Some((due, join)) = queue.held.first() {
                let next = if due <= now {
                    NextNotice::Release(join.notice.session, join.session)
                } else {
                    NextNotice::WaitUntil(due, Arc::clone(&queue.changed))
                };
                return (next, None, false);
            }
        }
        queue.has_task = false;
        let is_empty = queue.notices.is_empty() && queue.held.is_empty();
        let removed = if is_empty { self.queues.remove(channel) } else { None };
        self.running_tasks -= 1;
        (NextNotice::None, removed, self.running_tasks == 0)
    }

    /// Removes the oldest notice of a channel.
    pub(super) fn remove_oldest(&mut self, channel: &ChannelName) {
        let oldest = self.queues.get_mut(channel).and_then(|queue| queue.notices.pop_front());
        self.queued -= usize::from(oldest.is_some());
    }

    /// Allows tasks to run. Returns the channels that need one.
    pub(super) fn start(&mut self) -> Vec<ChannelName> {
        self.is_running = true;
        self.queues.keys().cloned().collect()
    }

    /// Ends all tasks. Remaining notices are left to the next process.
    pub(super) fn stop(&mut self) {
        self.is_running = false;
        self.queues.values().for_each(|queue| queue.changed.notify_one());
    }

    pub(super) fn has_no_task(&self) -> bool {
        self.running_tasks == 0
    }

    /// Number of joins that are held back.
    #[cfg(feature = "simulation")]
    pub(super) fn held(&self) -> usize {
        self.held.total()
    }

    /// Returns all notices, those of each session oldest first. Joins that are held back belong to the records of
    /// their sessions.
    pub(super) fn all(&self) -> impl Iterator<Item = (&ChannelName, &Notice)> {
        self.queues
            .iter()
            .flat_map(|(channel, queue)| queue.notices.iter().map(move |notice| (channel, notice)))
    }
}

impl Notice {
    pub(super) fn content(&self) -> Content<'static> {
        Content::join_or_leave(self.kind, &self.session.to_string(), self.user.as_deref())
    }
}
