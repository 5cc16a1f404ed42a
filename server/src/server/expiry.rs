//! Handling of expired timers, called by the workers.

use std::sync::Arc;
use std::task::Waker;

use encke_base::executor::Executor;
use encke_core::Timestamp;
use encke_timeouts::{ExpiryHandler, TimerOwner};

use crate::client::Services;

/// Finds the owner of an expired timer and makes that owner check its deadlines.
pub(crate) struct ExpiryDispatcher {
    pub(crate) services: Arc<Services>,
    pub(crate) executor: Arc<dyn Executor>,
}

impl ExpiryHandler for ExpiryDispatcher {
    fn handle_expiry(&self, owner: TimerOwner, wakers: &mut Vec<Waker>) {
        let Services { sessions, logs, reminders, metrics, .. } = &*self.services;
        match owner {
            TimerOwner::Session(key) => sessions.lifecycle.handle_timeout(key, wakers),
            TimerOwner::Sleep => metrics.timers.sleep_fired(),
            TimerOwner::Log(key) => {
                if let Some(channel) = logs.channels.find_by_timer(key) {
                    logs.channels.handle_timeout(&channel);
                    metrics.timers.log_fired();
                }
            }
            TimerOwner::Reminder(key) => {
                if let Some(lateness) = reminders.handle_timeout(key) {
                    metrics.timers.reminder_fired(lateness);
                }
            }
        }
    }

    /// Wakes tasks. Waking a task from outside the runtime takes the runtime's lock, and a system call if a
    /// worker is asleep. Therefore, to wake several tasks, this spawns a single task, which wakes them from
    /// within the runtime.
    fn wake(&self, wakers: Vec<Waker>) {
        if wakers.len() > 1 {
            self.executor.spawn(Box::pin(async { wakers.into_iter().for_each(Waker::wake) }));
        } else {
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    fn batch_received(&self, expired_at: Timestamp) {
        let now = self.services.timeouts.clock().now();
        self.services.metrics.timers.batch_received(now.since(expired_at));
    }
}
