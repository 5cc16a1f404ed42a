use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use encke_core::Timestamp;
use futures_util::future::{Either, select};

use super::arming::RequestedDeadline;
use super::waiting::poll_expiry;
use super::{Timeouts, TimerCell, TimerOwner};

/// A future that is ready once the server's time has reached an instant; never before, and exact to the tick.
///
/// It is armed when first polled, and disarmed when dropped.
#[derive(Debug)]
pub(crate) struct Sleep {
    timeouts: Arc<Timeouts>,
    deadline: Timestamp,
    /// Made by the first poll.
    timer: Option<Arc<TimerCell>>,
}

impl Timeouts {
    /// Sleeps until `deadline`.
    pub(crate) fn sleep_until(self: &Arc<Self>, deadline: Timestamp) -> Sleep {
        Sleep { timeouts: Arc::clone(self), deadline, timer: None }
    }

    /// Sleeps for `duration` from now.
    pub(crate) fn sleep(self: &Arc<Self>, duration: Duration) -> Sleep {
        self.sleep_until(self.clock().now() + duration)
    }

    /// What a future comes to, if it does within `duration` from now.
    pub(crate) fn within<F: Future>(
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
        let sleeper = timer.sleeper.as_deref().expect("a sleep's timer has a place for its task");
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
            // The wheel may hold the timer for a moment: it shall hold no task by it, and no socket.
            drop(timer.take_sleeper());
        }
    }
}
