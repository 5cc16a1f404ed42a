use std::pin::Pin;
use std::task::{Context, Poll, ready};

use encke_core::Timestamp;
use encke_core::frame::Fragments;
use encke_timeouts::Sleep;

use crate::admission::PartialMessage;
use crate::client::{Attachment, PartialMessageSender};

/// Maximum number of bytes read at a time, before other tasks run.
pub(super) const BYTES_PER_POLL: u32 = 64 * 1024;

/// Input that has been read but not handled. It owns memory only while there is such input.
#[derive(Debug)]
pub(super) struct Inbox {
    /// How much more input may be handled before other tasks run.
    pub(super) bytes_left: u32,
    pub(super) inputs_left: u16,
    unhandled: Option<Box<UnhandledInput>>,
}

#[derive(Debug, Default)]
struct UnhandledInput {
    bytes: Vec<u8>,
    /// Whether `bytes` may contain a complete piece of input.
    is_ready: bool,
    fragments: Fragments,
    /// Set while input exceeds the rate limit.
    pause: Option<Sleep>,
    account: Option<PartialMessage<PartialMessageSender>>,
}

impl Inbox {
    /// Creates an inbox that contains input that was already read.
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        let unhandled = (!bytes.is_empty())
            .then(|| Box::new(UnhandledInput { bytes, is_ready: true, ..UnhandledInput::default() }));
        Self { bytes_left: 0, inputs_left: 0, unhandled }
    }

    /// Renews the budget of input that may be handled before other tasks run.
    pub(super) fn refill(&mut self, inputs: u16) {
        (self.bytes_left, self.inputs_left) = (BYTES_PER_POLL, inputs);
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.bytes_left == 0 || self.inputs_left == 0
    }

    /// Whether no input is left and the budget is not used up.
    pub(super) fn is_empty(&self) -> bool {
        self.unhandled.is_none() && !self.is_used_up()
    }

    /// Whether there may be a complete piece of input.
    pub(super) fn is_ready(&self) -> bool {
        self.unhandled.as_ref().is_some_and(|unhandled| unhandled.is_ready)
    }

    /// Whether input exceeds the rate limit.
    pub(super) fn is_paused(&self) -> bool {
        self.unhandled.as_ref().is_some_and(|unhandled| unhandled.pause.is_some())
    }

    pub(super) fn len(&self) -> usize {
        self.unhandled.as_ref().map_or(0, |unhandled| unhandled.bytes.len())
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.unhandled.map(|unhandled| unhandled.bytes).unwrap_or_default()
    }

    /// Waits until the rate limit admits more input.
    pub(super) fn poll_rate(
        &mut self,
        context: &mut Context<'_>,
        next_at: Timestamp,
        Attachment { mailbox, services, .. }: &Attachment,
    ) -> Poll<()> {
        let timeouts = &services.timeouts;
        // Read the clock only if input has exceeded the limit.
        if next_at > mailbox.received_at() && next_at > timeouts.clock().now() {
            let unhandled = self.unhandled.get_or_insert_default();
            let pause = unhandled.pause.get_or_insert_with(|| timeouts.sleep_until(next_at));
            ready!(Pin::new(pause).poll(context));
        }
        if let Some(unhandled) = &mut self.unhandled
            && unhandled.pause.take().is_some()
            && unhandled.bytes.is_empty()
            && unhandled.fragments.is_empty()
        {
            self.unhandled = None;
        }
        Poll::Ready(())
    }

    /// Removes the input, to handle it together with `read`, which has arrived since. Returns `None` if
    /// `read` is all there is.
    pub(super) fn take_with(&mut self, read: &[u8]) -> Option<Vec<u8>> {
        let unhandled = self.unhandled.as_mut().filter(|unhandled| !unhandled.bytes.is_empty())?;
        let mut bytes = std::mem::take(&mut unhandled.bytes);
        append(&mut bytes, read);
        Some(bytes)
    }

    /// Removes the fragments, to continue them.
    pub(super) fn take_fragments(&mut self) -> Fragments {
        self.unhandled.as_mut().map(|unhandled| std::mem::take(&mut unhandled.fragments)).unwrap_or_default()
    }

    /// Keeps input that was not handled. `is_ready` is whether it may contain a complete piece of input.
    pub(super) fn keep(
        &mut self,
        bytes: Vec<u8>,
        is_ready: bool,
        fragments: Fragments,
        attachment: &Attachment,
    ) {
        if bytes.is_empty() && fragments.is_empty() {
            self.unhandled = None;
            return;
        }
        let unhandled = self.unhandled.get_or_insert_default();
        unhandled.is_ready = is_ready && !bytes.is_empty();
        (unhandled.bytes, unhandled.fragments) = (bytes, fragments);
        attachment.account_partial_message(
            &mut unhandled.account,
            unhandled.bytes.capacity() + unhandled.fragments.capacity(),
        );
    }
}

/// Appends bytes. Reserves little more than necessary: a client may leave a message incomplete for a long
/// time, but a frame that arrives byte by byte must not be moved for each byte.
fn append(bytes: &mut Vec<u8>, more: &[u8]) {
    if !more.is_empty() {
        bytes.reserve_exact(more.len().max(bytes.len() / 8));
        bytes.extend_from_slice(more);
    }
}
