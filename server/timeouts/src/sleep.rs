use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use encke_core::Timestamp;
use futures_util::future::{Either, select};

use crate::arming::RequestedDeadline;
use crate::poll_expiry::poll_expiry;
use crate::timeouts::Timeouts;
use crate::timer_cell::TimerCell;
use crate::timer_owner::TimerOwner;

/// Future that completes once server time has reached its deadline, never earlier and exact to the tick.
///
/// The timer is armed by the first poll and disarmed on drop.
#[derive(Debug)]
pub struct Sleep {
    timeouts: Arc<Timeouts>,
    deadline: Timestamp,
    /// Created by the first poll.
    timer: Option<Arc<TimerCell>>,
}

impl Timeouts {
    /// Sleeps until server time has reached `deadline`.
    pub fn sleep_until(self: &Arc<Self>, deadline: Timestamp) -> Sleep {
        Sleep { timeouts: Arc::clone(self), deadline, timer: None }
    }

    /// Sleeps for `duration` of server time.
    pub fn sleep(self: &Arc<Self>, duration: Duration) -> Sleep {
        self.sleep_until(self.clock().now() + duration)
    }

    /// Runs a future for at most `duration`. Returns `None` if it has not completed by then.
    pub fn within<F: Future>(
        self: &Arc<Self>,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> + use<F> {
        let sleep = self.sleep(duration);
        async move {
            match select(pin!(future), sleep).await {
                Either::Left((output, _)) => Some(output),
                Either::Right(_) => None,
            }
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { timeouts, deadline, timer } = &mut *self;
        let is_new = timer.is_none();
        let timer = timer.get_or_insert_with(|| Arc::new(TimerCell::new(TimerOwner::Sleep)));
        let sleeper = timer.sleeper.as_deref().expect("set for the owner `Sleep`");
        let poll = poll_expiry(sleeper, context.waker(), || timeouts.clock().now() >= *deadline);
        if is_new && poll.is_pending() {
            timeouts.arm(&*timer, RequestedDeadline::exact(deadline.as_nanos()));
        }
        poll
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            self.timeouts.arm(&timer, RequestedDeadline::NONE);
            // The wheel may keep the timer a little longer, but it must not keep the task alive, nor a socket
            // that the task owns.
            drop(timer.take_sleeper());
        }
    }
}
