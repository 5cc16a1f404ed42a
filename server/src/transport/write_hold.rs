use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use encke_core::session::ConnectionInput;

use super::attachment::Attachment;
use super::metered::Metered;
use super::socket::Socket;
use crate::timeouts::Sleep;

/// Whether the peer does not read, and until when it has. While it does not, nothing is read from it, so that replies do
/// not pile up.
#[derive(Debug, Default)]
pub(super) struct WriteHold(Option<Pin<Box<Sleep>>>);

/// The peer has not read for `write_timeout`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overdue;

impl WriteHold {
    /// Whether the peer does not read now.
    pub(super) fn is_held(&self) -> bool {
        self.0.is_some()
    }

    /// The kernel takes nothing now. The task is woken when that has lasted for too long.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        socket: &mut Metered<impl Socket>,
        attachment: &Attachment,
    ) -> Result<(), Overdue> {
        let timeouts = &attachment.shared.timeouts;
        let write_timeout = attachment.shared.config.write_timeout;
        if self.0.is_none() {
            socket.hold();
            self.0 = Some(Box::pin(timeouts.sleep(write_timeout)));
            attachment.tell(ConnectionInput::WriteHeld);
        }
        while let Some(patience) = &mut self.0
            && patience.as_mut().poll(context).is_ready()
        {
            let now = timeouts.clock().now();
            match socket.progress_at().map(|at| at + write_timeout) {
                Some(until) if until > now => self.0 = Some(Box::pin(timeouts.sleep_until(until))),
                _ => return Err(Overdue),
            }
        }
        Ok(())
    }

    /// The kernel has taken everything.
    pub(super) fn release(&mut self, socket: &mut Metered<impl Socket>, attachment: &Attachment) {
        if self.0.take().is_some() {
            socket.release();
            attachment.tell(ConnectionInput::WriteResumed);
        }
    }
}
