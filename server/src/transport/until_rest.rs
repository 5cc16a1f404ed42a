use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use encke_core::Timestamp;

use super::Socket;
use super::metered::Metered;
use crate::rest::Pace;
use crate::timeouts::Sleep;

/// Waits for a connection to be silent for long enough to go to rest.
#[derive(Debug, Default)]
pub(super) struct UntilRest(Option<Box<Wait>>);

#[derive(Debug)]
struct Wait {
    over: Sleep,
    /// When something was last received before it began.
    received_at: Timestamp,
}

impl UntilRest {
    /// Ready when nothing was received for the whole of a delay: that is found at the end of it, so the silence may have been longer.
    /// What was sent does not count, since that is done at rest, too.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        socket: &Metered<impl Socket>,
        after: Duration,
        pace: &mut Pace,
    ) -> Poll<()> {
        loop {
            let delay = pace.delay(after);
            if delay.is_zero() {
                return Poll::Ready(());
            }
            let wait = self.0.get_or_insert_with(|| {
                let over = socket.sleep_until(socket.now() + delay);
                Box::new(Wait { over, received_at: socket.received_at() })
            });
            ready!(Pin::new(&mut wait.over).poll(context));
            let was_silent = wait.received_at == socket.received_at();
            self.0 = None;
            if was_silent {
                return Poll::Ready(());
            }
            pace.spoke(after);
        }
    }
}
