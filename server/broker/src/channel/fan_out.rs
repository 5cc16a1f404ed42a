//! Notifies the subscribers of a channel of new messages.
//!
//! One sweep per channel goes through its subscribers and wakes the waiting ones in runs, so that a channel
//! with ten thousand subscribers delays neither pings nor other channels. A publish during the sweep starts
//! another pass. A subscriber is notified once, and again only after it has read to the end: a slow
//! subscriber is not notified repeatedly, no matter how much is published.
//!
//! The publisher starts the sweep and a task continues it. For a large audience there are as many tasks as
//! can run in parallel, which claim one run of subscribers after another ([`Sweep`](super::sweep::Sweep)).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use arrayvec::ArrayVec;
use encke_base::executor::{Executor, WorkSharing, yield_now};

use super::state::Channel;
use super::subscriber::Subscriber;
use super::subscribers::Notification;

/// Maximum number of subscribers to scan for waiting ones before the lock is released.
const MAX_EXAMINED: usize = 4096;

/// State shared by all sweeps.
#[derive(Debug)]
pub(super) struct FanOut<S: Subscriber> {
    /// Registry in which subscribers are looked up.
    pub(super) registry: Arc<S::Registry>,
    pub(super) executor: Arc<dyn Executor>,
    /// How the executor shares a sweep among tasks.
    sharing: WorkSharing,
}

/// Role in a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SweepRole {
    /// The publisher, which processes the first run.
    Publisher,
    /// A task, which processes runs until none are left.
    Task,
}

/// Result of a run.
enum SweepProgress {
    /// Nothing is left to claim.
    Done,
    /// More runs are left; the caller must start `missing` more tasks.
    More { missing: usize },
}

impl<S: Subscriber> FanOut<S> {
    pub(super) fn new(registry: Arc<S::Registry>, executor: Arc<dyn Executor>) -> Self {
        let sharing = executor.work_sharing();
        Self { registry, executor, sharing }
    }

    /// Wakes all waiting subscribers of a channel whose sweep the caller has just started. Returns quickly:
    /// tasks wake most of a large audience.
    pub(super) fn sweep(self: &Arc<Self>, channel: &Arc<Channel<S>>) {
        if let SweepProgress::More { missing } = channel.wake_some(self, SweepRole::Publisher) {
            self.start(missing, channel);
        }
    }

    fn start(self: &Arc<Self>, tasks: usize, channel: &Arc<Channel<S>>) {
        for _ in 0..tasks {
            let (fan_out, channel) = (Arc::clone(self), Arc::clone(channel));
            self.executor.spawn(Box::pin(async move {
                // Let the subscribers that were just woken run before the next ones are woken.
                yield_now().await;
                while let SweepProgress::More { missing } = channel.wake_some(&fan_out, SweepRole::Task) {
                    fan_out.start(missing, &channel);
                    yield_now().await;
                }
            }));
        }
    }
}

impl<S: Subscriber> Channel<S> {
    /// Processes one run of the sweep.
    fn wake_some(&self, FanOut { registry, sharing, .. }: &FanOut<S>, role: SweepRole) -> SweepProgress {
        let mut notifications = ArrayVec::<Notification<S>, { WorkSharing::MAX_BATCH }>::new();
        // Traced fan-outs that this run completes. They end when this function does.
        let _completed;
        let next = {
            let mut state = self.state.lock();
            let state = &mut *state;
            let subscribers = &mut state.subscribers;
            let has_more = state.sweep.claim(|mut at| {
                while notifications.len() < sharing.batch_size() {
                    let (next, notification) = subscribers.next_waiting(at, MAX_EXAMINED)?;
                    at = next;
                    let Some(notification) = notification else { break };
                    notifications.push(notification);
                }
                Some(at)
            });
            if has_more {
                SweepProgress::More { missing: state.sweep.join(sharing.task_count(subscribers.len())) }
            } else {
                if role == SweepRole::Task {
                    state.sweep.leave();
                }
                _completed = std::mem::take(&mut state.fan_outs);
                SweepProgress::Done
            }
        };
        // Notify the subscribers after the lock is released, because each subscriber has its own lock.
        let mut wakers = notifications
            .into_iter()
            .filter_map(|(subscriber, slot)| subscriber.notify_readable(registry, slot));
        // A panic in one session must not keep the others from being notified: nothing else would continue
        // this sweep or start another.
        while catch_unwind(AssertUnwindSafe(|| wakers.by_ref().for_each(Waker::wake))).is_err() {
            tracing::error!(channel = %self.name(), "panic while notifying a subscriber of new messages; the others are notified");
        }
        next
    }
}
