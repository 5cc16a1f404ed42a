use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use encke_core::Timestamp;
use encke_core::frame::Fragments;
use encke_timeouts::Sleep;

use super::protocol::{End, Handled};
use crate::admission::PartialMessage;
use crate::client::{Attachment, PartialMessageSender};

/// Maximum number of bytes read at a time, before other tasks run.
pub(super) const BYTES_PER_POLL: u32 = 64 * 1024;

/// Input that has been read but not handled. It owns memory only while there is such input.
#[derive(Debug, Default)]
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
        Self { unhandled, ..Self::default() }
    }

    /// Renews the budget of input that may be handled before other tasks run.
    pub(super) fn refill(&mut self, inputs: u16) {
        (self.bytes_left, self.inputs_left) = (BYTES_PER_POLL, inputs);
    }

    /// Uses up the budget for this many more bytes.
    pub(super) fn use_up(&mut self, bytes: usize) {
        self.bytes_left = self.bytes_left.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
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

    /// Returns how many bytes may be read now, if at most `max_unhandled` may be kept.
    pub(super) fn room(&self, max_unhandled: usize) -> usize {
        let kept = self.unhandled.as_ref().map_or(0, |unhandled| unhandled.bytes.len());
        max_unhandled.saturating_sub(kept).min(self.bytes_left as usize)
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

    /// Passes the input and then `read`, which has arrived since, to `handle`, piece by piece. Ends with the
    /// input, with the budget, with the connection, or when `handle` returns `None` because the rest must wait.
    pub(super) fn handle(
        &mut self,
        read: &mut [u8],
        mut handle: impl FnMut(&mut [u8], &mut Fragments) -> Option<Handled>,
    ) -> Option<End> {
        let (mut kept, mut fragments) = match &mut self.unhandled {
            Some(unhandled) => (mem::take(&mut unhandled.bytes), mem::take(&mut unhandled.fragments)),
            None => Default::default(),
        };
        let is_kept = !kept.is_empty();
        if is_kept {
            append(&mut kept, read);
        }
        let bytes = if is_kept { &mut kept[..] } else { &mut *read };
        let (mut at, mut is_ready, mut end) = (0, true, None);
        while at < bytes.len() && self.inputs_left > 0 && is_ready && end.is_none() {
            let Some(handled) = handle(&mut bytes[at..], &mut fragments) else { break };
            (at, is_ready, end) = (at + handled.bytes, handled.bytes > 0, handled.end);
            self.inputs_left -= u16::from(is_ready);
        }
        if is_kept {
            kept.drain(..at);
            if at > 0 {
                kept.shrink_to_fit();
            }
        } else {
            kept = read[at..].to_vec();
        }
        if kept.is_empty() && fragments.is_empty() {
            self.unhandled = None;
        } else {
            let unhandled = self.unhandled.get_or_insert_default();
            unhandled.is_ready = is_ready && !kept.is_empty();
            (unhandled.bytes, unhandled.fragments) = (kept, fragments);
        }
        end
    }

    /// Accounts for the memory of the input.
    pub(super) fn account(&mut self, attachment: &Attachment) {
        if let Some(UnhandledInput { bytes, fragments, account, .. }) = self.unhandled.as_deref_mut() {
            attachment.account_partial_message(account, bytes.capacity() + fragments.capacity());
        }
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
