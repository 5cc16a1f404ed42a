//! What a worker does with an expiry.

use std::sync::Arc;
use std::task::Waker;

use encke_core::Timestamp;

use crate::client::Context;
use crate::executor::Executor;
use crate::timeouts::{ActOnExpiry, TimerCell, TimerName};

/// Finds the owner of an expired timer and lets it look at its deadlines.
pub(crate) struct ExpiryHandler {
    pub(crate) context: Arc<Context>,
    pub(crate) executor: Arc<dyn Executor>,
}

impl ActOnExpiry for ExpiryHandler {
    fn act(&self, cell: &TimerCell, wakers: &mut Vec<Waker>) {
        let Context { sessions, channels, timeouts, metrics, .. } = &*self.context;
        match &cell.name {
            TimerName::Session(session) => {
                if let Some(session) = session.upgrade() {
                    sessions.handle_timeout(&session, wakers);
                }
            }
            TimerName::Sleep(id) => {
                wakers.extend(timeouts.take_sleeper(*id));
                metrics.sleep_fired();
            }
            TimerName::Log(channel) => {
                if let Some(channel) = channel.upgrade() {
                    channels.handle_timeout(&channel);
                    metrics.log_fired();
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

    fn taken_up(&self, expired_at: Timestamp) {
        let now = self.context.timeouts.clock().now();
        self.context.metrics.batch_taken_up(now.since(expired_at));
    }
}
