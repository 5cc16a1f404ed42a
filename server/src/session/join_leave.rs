//! Joins and leaves of a channel's followers, as messages of the channel, where its namespace says so (`join_leave`).
//!
//! What there is to tell is queued under the session's lock, together with the change that it tells of: so what is told of one session on one channel is
//! in its order, whichever threads act. One task for each channel that has a queue publishes it, the next message once the one before is in the log; an engine that
//! cannot be reached is asked again. Where no namespace says so, there is none of this.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use encke_core::message::{Content, Kind};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Channel;
use super::cell::{SessionCell, SessionRef};
use super::id::SessionId;
use super::record::StoredTelling;
use super::sessions::{Logs, Sessions};
use super::snapshot::NotRestored;
use crate::admission::Holder;
use crate::auth::Identity;
use crate::channel::{ChannelName, Hold};
use crate::engine::{EngineError, Pauses};
use crate::executor::{Executor, yield_now};
use crate::metrics::Metrics;
use crate::timeouts::Timeouts;

/// What waits to be told, on all channels together. It waits only for an engine that is slow or cannot be reached. More is lost, and counted.
pub(super) const MOST_WAITING: usize = 65_536;

/// What is told of one session.
#[derive(Clone, Debug)]
struct Telling {
    kind: Kind,
    session: SessionId,
    user: Option<Arc<str>>,
}

/// What is to be told on one channel, the oldest first.
struct Queue {
    tellings: VecDeque<Telling>,
    /// A task publishes it.
    has_task: bool,
    /// The channel stays as it is until all is told.
    _hold: Option<Hold<SessionRef>>,
}

/// What the lock guards.
#[derive(Default)]
struct Table {
    /// None of them is empty.
    queues: HashMap<ChannelName, Queue>,
    /// All that is in them.
    waiting: usize,
    /// Tasks.
    under_way: usize,
    /// The engine may be asked: not before it knows what it goes on with, nor once the rest is for the next process.
    is_running: bool,
}

/// What is to be told on all channels.
pub(super) struct JoinLeave {
    /// Locked for one look-up, last of all locks.
    table: Mutex<Table>,
    logs: Logs,
    timeouts: Arc<Timeouts>,
    metrics: Arc<Metrics>,
    executor: Arc<dyn Executor>,
    /// No task is under way any more.
    settled: Notify,
}

impl JoinLeave {
    /// Nothing is told yet.
    pub(super) fn new(
        logs: Logs,
        timeouts: Arc<Timeouts>,
        metrics: Arc<Metrics>,
        executor: Arc<dyn Executor>,
    ) -> Self {
        Self { table: Mutex::default(), logs, timeouts, metrics, executor, settled: Notify::new() }
    }

    /// To be told once [`Self::begin`] is called for the channel, without a lock. The session's lock is held, so that this is in the order of what it does.
    fn note(&self, kind: Kind, session: SessionId, identity: &Identity, channel: &Arc<Channel>) {
        let telling = Telling { kind, session, user: identity.shared_user() };
        let mut hold = self.logs.channels.hold_open(Arc::clone(channel)).ok();
        let added = self.table.lock().add(channel.name(), telling, &mut hold);
        if let Err(Full) = added {
            self.metrics.channels.untold();
        }
    }

    /// Has a task publish what is to be told on the channel.
    fn begin(self: &Arc<Self>, channel: &ChannelName) {
        let needs_task = self.table.lock().needs_task(channel);
        if needs_task {
            self.executor.spawn(Box::pin(Arc::clone(self).publish_all(channel.clone())));
        }
    }

    async fn publish_all(self: Arc<Self>, channel: ChannelName) {
        let mut pauses = Pauses::new();
        while let Some(telling) = self.oldest(&channel) {
            let answer = {
                let content = telling.content();
                self.logs.engine.append(&channel, &Holder::Operator, &content, None)
            };
            match answer.await {
                Ok(_) => self.is_over(&channel),
                Err(EngineError::Draining) => self.close(),
                Err(error @ EngineError::TooManyChannels(_)) => {
                    let session = telling.session;
                    tracing::warn!(%session, %channel, %error, "a join or a leave is not told");
                    self.metrics.channels.untold();
                    self.is_over(&channel);
                }
                // What was done after all is told twice, which changes nothing.
                Err(EngineError::Unavailable | EngineError::OutcomeUnknown | EngineError::Overloaded) => {
                    self.timeouts.sleep(pauses.pause()).await;
                    continue;
                }
            }
            pauses = Pauses::new();
            yield_now().await;
        }
    }

    /// What is to be told next. Nothing, if the task of the channel is over.
    fn oldest(&self, channel: &ChannelName) -> Option<Telling> {
        let (ended, is_settled) = {
            let mut table = self.table.lock();
            let is_running = table.is_running;
            let queue = table.queues.get_mut(channel)?;
            if let Some(oldest) = queue.tellings.front().filter(|_| is_running) {
                return Some(oldest.clone());
            }
            queue.has_task = false;
            let is_empty = queue.tellings.is_empty();
            let ended = if is_empty { table.queues.remove(channel) } else { None };
            table.under_way -= 1;
            (ended, table.under_way == 0)
        };
        // Its hold has locks of its own.
        drop(ended);
        if is_settled {
            self.settled.notify_waiters();
        }
        None
    }

    /// The oldest has been told, or never will be.
    fn is_over(&self, channel: &ChannelName) {
        let mut table = self.table.lock();
        let oldest = table.queues.get_mut(channel).and_then(|queue| queue.tellings.pop_front());
        table.waiting -= usize::from(oldest.is_some());
    }

    /// The engine may be asked from here on: also what an earlier process has left is told.
    fn begin_all(self: &Arc<Self>) {
        let waiting: Vec<ChannelName> = {
            let mut table = self.table.lock();
            table.is_running = true;
            table.queues.keys().cloned().collect()
        };
        waiting.iter().for_each(|channel| self.begin(channel));
    }

    /// What is not told yet is for the next process.
    fn close(&self) {
        self.table.lock().is_running = false;
    }

    async fn settled(&self) {
        loop {
            let settled = self.settled.notified();
            if self.table.lock().under_way == 0 {
                return;
            }
            settled.await;
        }
    }

    /// What is not told yet: of each channel, the oldest first.
    fn records(&self) -> Vec<StoredTelling> {
        let table = self.table.lock();
        let all = table.queues.iter().flat_map(|(channel, queue)| {
            queue.tellings.iter().map(|telling| StoredTelling {
                channel: channel.as_str().to_owned(),
                has_left: telling.kind == Kind::Left,
                session: telling.session.bytes(),
                user: telling.user.as_deref().map(ToOwned::to_owned),
            })
        });
        all.collect()
    }

    /// The reverse of [`Self::records`]. Fails if there is no room.
    fn restore(&self, channel: &ChannelName, stored: &StoredTelling) -> bool {
        let telling = Telling {
            kind: if stored.has_left { Kind::Left } else { Kind::Joined },
            session: SessionId::of_bytes(stored.session),
            user: stored.user.as_deref().map(Into::into),
        };
        // Its log goes on, whether or not it is held: it has messages.
        self.table.lock().add(channel, telling, &mut None).is_ok()
    }
}

impl Sessions {
    /// Whether followers of the channel are told of joins and leaves.
    fn tells(&self, channel: &ChannelName) -> Option<&Arc<JoinLeave>> {
        let join_leave = self.join_leave.as_ref()?;
        let rules = self.logs.channels.namespaces().rules_of(channel.as_str());
        // Who follows a pattern has not come to a channel.
        let is_told = rules.join_leave && !channel.is_direct() && !channel.is_pattern();
        is_told.then_some(join_leave)
    }

    /// The session follows the channel from now on. Its lock is held, and [`Self::tell`] comes after that.
    pub(super) fn note_joined(&self, session: &SessionCell, identity: &Identity, channel: &Arc<Channel>) {
        if let Some(join_leave) = self.tells(channel.name()) {
            join_leave.note(Kind::Joined, session.id(), identity, channel);
        }
    }

    /// The session no longer follows the channel. Its lock is held, and [`Self::tell`] comes after that.
    pub(super) fn note_left(&self, session: &SessionCell, identity: &Identity, channel: &Arc<Channel>) {
        if let Some(join_leave) = self.tells(channel.name()) {
            join_leave.note(Kind::Left, session.id(), identity, channel);
        }
    }

    /// What was noted of the channel is told.
    pub(super) fn tell(&self, channel: &ChannelName) {
        if let Some(join_leave) = self.tells(channel) {
            join_leave.begin(channel);
        }
    }

    /// The engine may be asked: from here on joins and leaves are told, first those that an earlier process has left.
    pub(crate) fn begin_telling(&self) {
        if let Some(join_leave) = &self.join_leave {
            join_leave.begin_all();
        }
    }

    /// What was not told yet is for the next process.
    pub(crate) fn stop_telling(&self) {
        if let Some(join_leave) = &self.join_leave {
            join_leave.close();
        }
    }

    /// Waits until joins and leaves have been told, as far as they are [told](Self::stop_telling) here.
    pub(crate) async fn all_told(&self) {
        if let Some(join_leave) = &self.join_leave {
            join_leave.settled().await;
        }
    }

    /// Writes down what was not told.
    pub(crate) fn snapshot_tellings(&self) -> Vec<StoredTelling> {
        self.join_leave.as_ref().map_or_else(Vec::new, |join_leave| join_leave.records())
    }

    /// Tells what an earlier process could not, if followers of the channel still are told such things.
    ///
    /// # Errors
    /// [`NotRestored`], and nothing is told.
    pub(crate) fn restore_telling(&self, stored: &StoredTelling) -> Result<(), NotRestored> {
        let name = ChannelName::to_publish(&stored.channel, usize::MAX);
        let name = name.map_err(|_| NotRestored::Contradiction("one that comes to no channel"))?;
        let Some(join_leave) = self.tells(&name) else { return Ok(()) };
        let is_kept = join_leave.restore(&name, stored);
        is_kept
            .then_some(())
            .ok_or(NotRestored::Contradiction("one that comes or goes, and too many of them"))
    }
}

/// [`MOST_WAITING`] is reached.
#[derive(Debug)]
struct Full;

impl Table {
    /// What holds the channel is let go by the caller, without this lock, if the channel has something to hold it already.
    fn add(
        &mut self,
        channel: &ChannelName,
        telling: Telling,
        hold: &mut Option<Hold<SessionRef>>,
    ) -> Result<(), Full> {
        if self.waiting >= MOST_WAITING {
            return Err(Full);
        }
        self.waiting += 1;
        if let Some(queue) = self.queues.get_mut(channel) {
            queue.tellings.push_back(telling);
        } else {
            let queue = Queue { tellings: [telling].into(), has_task: false, _hold: hold.take() };
            self.queues.insert(channel.clone(), queue);
        }
        Ok(())
    }

    /// Whether the channel has something to be told and no task yet. It has one from here on.
    fn needs_task(&mut self, channel: &ChannelName) -> bool {
        let Self { queues, under_way, is_running, .. } = self;
        let Some(queue) = queues.get_mut(channel).filter(|queue| *is_running && !queue.has_task) else {
            return false;
        };
        queue.has_task = true;
        *under_way += 1;
        true
    }
}

impl Telling {
    fn content(&self) -> Content<'static> {
        Content::of_follower(self.kind, &self.session.to_string(), self.user.as_deref())
    }
}
