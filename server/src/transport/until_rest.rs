use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::Socket;
use super::metered::Metered;
use crate::rest::Pace;
use crate::timeouts::Sleep;

/// Waits for a connection to be silent for long enough to go to rest.
#[derive(Debug, Default)]
pub(super) struct UntilRest(Option<Box<Sleep>>);

impl UntilRest {
    /// Ready when the client has said nothing for the whole of a delay: that is found at the end of it, so the silence may have been
    /// longer. `spoke` notes whether it did; an answer to a ping does not count, nor what was sent, since both are done at rest, too.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        socket: &Metered<impl Socket>,
        after: Duration,
        pace: &mut Pace,
        spoke: &mut bool,
    ) -> Poll<()> {
        loop {
            let delay = pace.delay(after);
            if delay.is_zero() {
                return Poll::Ready(());
            }
            let wait = self.0.get_or_insert_with(|| {
                *spoke = false;
                Box::new(socket.sleep_until(socket.now() + delay))
            });
            ready!(Pin::new(wait).poll(context));
            self.0 = None;
            if !*spoke {
                return Poll::Ready(());
            }
            pace.spoke(after);
        }
    }
}
