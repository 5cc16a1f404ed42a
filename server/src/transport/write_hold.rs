use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use encke_core::session::ConnectionInput;

use super::Socket;
use super::metered::Metered;
use super::progress::{Checkpoint, TooSlow};
use crate::client::Attachment;
use crate::timeouts::Sleep;

/// Whether writing is held because the kernel takes nothing more. Meanwhile nothing is read from the peer, so that replies do
/// not pile up.
#[derive(Debug, Default)]
pub(super) struct WriteHold(Option<Box<Held>>);

#[derive(Debug)]
struct Held {
    /// When the peer is judged next.
    timeout: Sleep,
    checkpoint: Checkpoint,
}

impl WriteHold {
    pub(super) fn is_held(&self) -> bool {
        self.0.is_some()
    }

    /// The kernel takes nothing now. The task is woken when the peer has read too little for too long.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        socket: &Metered<impl Socket>,
        attachment: &Attachment,
    ) -> Result<(), TooSlow> {
        let timeouts = &attachment.context.timeouts;
        let settings = &attachment.context.settings;
        let held = self.0.get_or_insert_with(|| {
            attachment.tell(ConnectionInput::WriteHeld);
            let checkpoint = Checkpoint::new(timeouts.clock().now(), socket);
            Box::new(Held {
                timeout: timeouts.sleep_until(checkpoint.at + settings.write_timeout),
                checkpoint,
            })
        });
        while Pin::new(&mut held.timeout).poll(context).is_ready() {
            held.checkpoint.advance(timeouts.clock().now(), socket)?;
            held.timeout = timeouts.sleep_until(held.checkpoint.at + settings.write_timeout);
        }
        Ok(())
    }

    /// The kernel has taken everything.
    pub(super) fn release(&mut self, attachment: &Attachment) {
        if self.0.take().is_some() {
            attachment.tell(ConnectionInput::WriteResumed);
        }
    }
}
