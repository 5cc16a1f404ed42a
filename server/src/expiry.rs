//! What a worker does with an expiry.

use std::sync::Arc;
use std::task::Waker;

use encke_core::Timestamp;

use crate::client::Context;
use crate::executor::Executor;
use crate::timeouts::{ActOnExpiry, TimerOwner};

/// Finds the owner of an expired timer and lets it look at its deadlines.
pub(crate) struct ExpiryHandler {
    pub(crate) context: Arc<Context>,
    pub(crate) executor: Arc<dyn Executor>,
}

impl ActOnExpiry for ExpiryHandler {
    fn act(&self, owner: TimerOwner, wakers: &mut Vec<Waker>) {
        let Context { sessions, logs, reminders, metrics, .. } = &*self.context;
        match owner {
            TimerOwner::Session(key) => sessions.handle_timeout(key, wakers),
            TimerOwner::Sleep => metrics.timers.sleep_fired(),
            TimerOwner::Log(key) => {
                if let Some(channel) = logs.channels.by_timer(key) {
                    logs.channels.handle_timeout(&channel);
                    metrics.timers.log_fired();
                }
            }
            TimerOwner::Reminder(key) => {
                if reminders.handle_timeout(key) {
                    metrics.timers.reminder_fired();
                }
            }
        }
    }

    /// Waking a task from outside the runtime costs a turn of its lock, and a system call while it sleeps. So one task
    /// enters the runtime and wakes the others from inside.
    fn wake(&self, wakers: Vec<Waker>) {
        if wakers.len() > 1 {
            self.executor.spawn(Box::pin(async { wakers.into_iter().for_each(Waker::wake) }));
        } else {
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    fn received(&self, expired_at: Timestamp) {
        let now = self.context.timeouts.clock().now();
        self.context.metrics.timers.batch_received(now.since(expired_at));
    }
}
