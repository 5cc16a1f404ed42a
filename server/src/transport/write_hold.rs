use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use encke_core::session::ConnectionInput;

use super::Socket;
use super::metered::Metered;
use crate::client::Attachment;
use crate::timeouts::Sleep;

/// Whether writing is held because the peer does not read, and until when that may last. Meanwhile nothing is read from
/// the peer, so that replies do not pile up.
#[derive(Debug, Default)]
pub(super) struct WriteHold(Option<Pin<Box<Sleep>>>);

/// The peer has not read for `write_timeout`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overdue;

impl WriteHold {
    /// Whether writing is held now.
    pub(super) fn is_held(&self) -> bool {
        self.0.is_some()
    }

    /// The kernel takes nothing now. The task is woken when that has lasted too long.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        socket: &mut Metered<impl Socket>,
        attachment: &Attachment,
    ) -> Result<(), Overdue> {
        let timeouts = &attachment.context.timeouts;
        let write_timeout = attachment.context.settings.write_timeout;
        if self.0.is_none() {
            socket.hold();
            self.0 = Some(Box::pin(timeouts.sleep(write_timeout)));
            attachment.tell(ConnectionInput::WriteHeld);
        }
        while let Some(timeout) = &mut self.0
            && timeout.as_mut().poll(context).is_ready()
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
