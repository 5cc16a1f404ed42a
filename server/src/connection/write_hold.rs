use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use encke_core::session::ConnectionInput;
use encke_timeouts::Sleep;

use super::Socket;
use super::counted_socket::CountedSocket;
use super::progress::{Checkpoint, TooSlow};
use crate::client::Attachment;

/// Whether a write is blocked because the kernel accepts no more bytes. While it is, nothing is read from the
/// peer, so that output does not pile up.
#[derive(Debug, Default)]
pub(super) struct WriteHold(Option<Box<StalledWrite>>);

#[derive(Debug)]
struct StalledWrite {
    /// Time of the next progress check.
    timeout: Sleep,
    checkpoint: Checkpoint,
}

impl WriteHold {
    pub(super) fn is_held(&self) -> bool {
        self.0.is_some()
    }

    /// Must be called when the kernel accepts no bytes. Wakes the task for the next progress check.
    ///
    /// # Errors
    /// [`TooSlow`] if the peer has read too little for too long.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        socket: &CountedSocket<impl Socket>,
        attachment: &Attachment,
    ) -> Result<(), TooSlow> {
        let timeouts = &attachment.services.timeouts;
        let settings = &attachment.services.settings;
        let held = self.0.get_or_insert_with(|| {
            attachment.notify_session(ConnectionInput::WriteHeld);
            let checkpoint = Checkpoint::new(timeouts.clock().now(), socket);
            Box::new(StalledWrite {
                timeout: timeouts.sleep_until(checkpoint.at + settings.write_timeout),
                checkpoint,
            })
        });
        while Pin::new(&mut held.timeout).poll(context).is_ready() {
            held.checkpoint.advance(timeouts.clock().now(), socket, settings)?;
            held.timeout = timeouts.sleep_until(held.checkpoint.at + settings.write_timeout);
        }
        Ok(())
    }

    /// Must be called when the kernel has accepted everything.
    pub(super) fn release(&mut self, attachment: &Attachment) {
        if self.0.take().is_some() {
            attachment.notify_session(ConnectionInput::WriteResumed);
        }
    }
}
