//! Notices of joins and leaves that wait to be published, by channel.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use encke_broker::channel::{ChannelGuard, ChannelName};
use encke_core::Timestamp;
use encke_core::message::{Content, ContentKind};
use tokio::sync::Notify;

use crate::session::id::SessionId;
use crate::session::session_ref::SessionRef;

/// Maximum number of queued notices of all channels. Notices accumulate only while the engine is slow or
/// unreachable. Additional ones are dropped and counted.
pub(super) const MAX_QUEUED: usize = 65_536;

/// How long after a session's join to a channel its next join is held back. Meanwhile, only the latest state
/// counts. Otherwise, a session that joins and leaves repeatedly would flood the channel.
pub(super) const JOIN_INTERVAL: Duration = Duration::from_secs(1);

/// Notice that a session has joined or left.
#[derive(Clone, Debug)]
pub(super) struct Notice {
    pub(super) kind: ContentKind,
    pub(super) session: SessionId,
    pub(super) user: Option<Arc<str>>,
}

/// The error when [`MAX_QUEUED`] is reached.
#[derive(Debug)]
pub(super) struct QueueFull;

/// Outcome of [`NoticeTable::next`].
pub(super) enum NextNotice {
    Publish(Notice),
    /// All notices are held back until this time, unless the queue changes.
    WaitUntil(Timestamp, Arc<Notify>),
    None,
}

/// Notices of one channel.
#[derive(Default)]
pub(super) struct NoticeQueue {
    /// Notices to publish, oldest first.
    notices: VecDeque<Notice>,
    /// Notices that are held back until a time, by session. Each follows all other notices of its session.
    held: HashMap<SessionId, (Timestamp, Notice)>,
    /// Whether a task is publishing these notices.
    has_task: bool,
    /// Wakes the task while it waits for the first notice that is held back.
    changed: Arc<Notify>,
    /// Keeps the channel alive until the queue is empty.
    _guard: Option<ChannelGuard<SessionRef>>,
}

#[derive(Default)]
pub(super) struct NoticeTable {
    /// Queues by channel. None of them is empty.
    queues: HashMap<ChannelName, NoticeQueue>,
    /// Number of notices in all queues.
    queued: usize,
    recent_joins: RecentJoins,
    running_tasks: usize,
    /// Whether notices are published. False until the engine knows which logs it restores, and again once the
    /// remaining notices are left to the next process.
    is_running: bool,
}

/// Joins that were queued for publishing less than [`JOIN_INTERVAL`] ago.
#[derive(Default)]
struct RecentJoins {
    by_session: HashMap<(ChannelName, SessionId), Timestamp>,
    /// Oldest first. Also contains the times that were replaced in `by_session`.
    by_age: VecDeque<(Timestamp, ChannelName, SessionId)>,
}

impl NoticeTable {
    /// Adds a notice. Takes `guard` if the channel has no queue yet. Otherwise the caller drops it after
    /// releasing this lock.
    pub(super) fn add(
        &mut self,
        channel: &ChannelName,
        notice: Notice,
        now: Timestamp,
        guard: &mut Option<ChannelGuard<SessionRef>>,
    ) -> Result<(), QueueFull> {
        self.recent_joins.expire(now);
        if let Some(queue) = self.queues.get_mut(channel) {
            if let Some((due, held)) = queue.held.get_mut(&notice.session)
                && *due > now
            {
                *held = notice;
                return Ok(());
            }
            queue.release(channel, notice.session, &mut self.recent_joins);
        }
        if self.queued >= MAX_QUEUED {
            return Err(QueueFull);
        }
        self.queued += 1;
        let queue = self
            .queues
            .entry(channel.clone())
            .or_insert_with(|| NoticeQueue { _guard: guard.take(), ..NoticeQueue::default() });
        let is_join = notice.kind == ContentKind::Joined;
        match self.recent_joins.at(channel, notice.session, now).filter(|_| is_join) {
            Some(at) => _ = queue.held.insert(notice.session, (at + JOIN_INTERVAL, notice)),
            None => {
                if is_join {
                    self.recent_joins.insert(now, channel, notice.session);
                }
                queue.notices.push_back(notice);
            }
        }
        queue.changed.notify_one();
        Ok(())
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
            if queue.notices.is_empty() {
                for session in queue.due(now) {
                    queue.release(channel, session, &mut self.recent_joins);
                }
            }
            if let Some(oldest) = queue.notices.front() {
                return (NextNotice::Publish(oldest.clone()), None, false);
            }
            if let Some(due) = queue.held.values().map(|(due, _)| *due).min() {
                return (NextNotice::WaitUntil(due, Arc::clone(&queue.changed)), None, false);
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

    /// Returns all notices, those of each session oldest first.
    pub(super) fn all(&self) -> impl Iterator<Item = (&ChannelName, &Notice)> {
        self.queues.iter().flat_map(|(channel, queue)| {
            let held = queue.held.values().map(|(_, notice)| notice);
            queue.notices.iter().chain(held).map(move |notice| (channel, notice))
        })
    }
}

impl NoticeQueue {
    /// Returns the sessions whose notices are no longer held back.
    fn due(&self, now: Timestamp) -> Vec<SessionId> {
        let due = self.held.iter().filter(|(_, (due, _))| *due <= now);
        due.map(|(session, _)| *session).collect()
    }

    /// Moves the notice of a session that is held back, if there is one, to those to publish.
    fn release(&mut self, channel: &ChannelName, session: SessionId, recent_joins: &mut RecentJoins) {
        if let Some((due, notice)) = self.held.remove(&session) {
            self.notices.push_back(notice);
            recent_joins.insert(due, channel, session);
        }
    }
}

impl RecentJoins {
    fn at(&self, channel: &ChannelName, session: SessionId, now: Timestamp) -> Option<Timestamp> {
        let at = self.by_session.get(&(channel.clone(), session)).copied();
        at.filter(|at| *at + JOIN_INTERVAL > now)
    }

    fn insert(&mut self, at: Timestamp, channel: &ChannelName, session: SessionId) {
        if self.by_age.len() < MAX_QUEUED {
            self.by_session.insert((channel.clone(), session), at);
            self.by_age.push_back((at, channel.clone(), session));
        }
    }

    fn expire(&mut self, now: Timestamp) {
        while self.by_age.front().is_some_and(|(at, ..)| *at + JOIN_INTERVAL <= now)
            && let Some((at, channel, session)) = self.by_age.pop_front()
        {
            let key = (channel, session);
            if self.by_session.get(&key) == Some(&at) {
                self.by_session.remove(&key);
            }
        }
    }
}

impl Notice {
    pub(super) fn content(&self) -> Content<'static> {
        Content::join_or_leave(self.kind, &self.session.to_string(), self.user.as_deref())
    }
}
