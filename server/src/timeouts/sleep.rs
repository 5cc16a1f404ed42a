use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use encke_core::Timestamp;

use super::arming::Wish;
use super::sleepers::SleeperId;
use super::{Timeouts, TimerCell, TimerName};

/// A future that is ready once the server's time has reached an instant; never before, and exact to the tick.
///
/// It is armed when first polled, and disarmed when dropped.
#[derive(Debug)]
pub(crate) struct Sleep {
    timeouts: Arc<Timeouts>,
    deadline: Timestamp,
    armed: Option<(SleeperId, Arc<TimerCell>)>,
}

impl Timeouts {
    /// Sleeps until `deadline`.
    pub(crate) fn sleep_until(self: &Arc<Self>, deadline: Timestamp) -> Sleep {
        Sleep { timeouts: Arc::clone(self), deadline, armed: None }
    }

    /// Sleeps for `duration` from now.
    pub(crate) fn sleep(self: &Arc<Self>, duration: Duration) -> Sleep {
        self.sleep_until(self.clock().now() + duration)
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.timeouts.clock().now() >= this.deadline {
            return Poll::Ready(());
        }
        match &this.armed {
            Some((id, _)) => this.timeouts.sleepers.refresh(*id, context.waker()),
            None => {
                let id = this.timeouts.sleepers.add(context.waker());
                let cell = Arc::new(TimerCell::new(TimerName::Sleep(id)));
                this.timeouts.arm(&cell, Wish::exact(this.deadline.as_nanos()));
                this.armed = Some((id, cell));
            }
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some((id, cell)) = self.armed.take() {
            self.timeouts.arm(&cell, Wish::NONE);
            self.timeouts.sleepers.remove(id);
        }
    }
}
