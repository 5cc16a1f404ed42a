//! Resends entries that the client may not have received, as messages or as gaps.

use super::Outbox;
use super::ring::EntryKind;
use super::subscription::Subscription;
use super::turn::{LogBounds, TurnOutcome};

/// How to resend entries that the client may not have received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResendMode {
    /// As messages.
    Messages,
    /// As gaps, because the client must not receive duplicates.
    Gaps,
    /// As gaps, which are held until there is something new to send, or the client's request must be answered.
    HeldGaps,
}

impl<C> Outbox<C> {
    /// Whether the next message was sent before and must be read from its log again.
    #[must_use]
    pub fn needs_log(&self) -> bool {
        let next = self.ring.get(self.sent + 1).filter(|_| {
            self.next_notice().is_none()
                && self.next_pending_gap().is_none()
                && self.resend_mode == ResendMode::Messages
        });
        next.is_some_and(|entry| matches!(entry.kind(), EntryKind::Message))
    }

    /// Whether all entries to resend were sent as gaps or are held, and nothing new was sent since.
    pub(super) fn has_sent_only_gaps(&self) -> bool {
        self.resend_mode != ResendMode::Messages && self.next_turn().is_none()
    }

    /// Lets held gaps be sent, because there is a new notice, or the client's request must be answered.
    pub fn release_gaps(&mut self) {
        if self.resend_mode == ResendMode::HeldGaps {
            self.resend_mode = ResendMode::Gaps;
        }
    }

    pub(super) fn take_pending_gap(&mut self, slot: u32) -> TurnOutcome {
        self.remove_pending_gap(slot);
        let (seq, range) = self
            .get(slot)
            .and_then(Subscription::evicted_gap)
            .expect("a gap is pending only while its subscription exists and has lost entries");
        self.sent = seq;
        self.skip_to_ring();
        TurnOutcome::Gap { seq, range }
    }

    /// Continues with the oldest entry of the ring once no gap is pending.
    pub(super) fn skip_to_ring(&mut self) {
        if self.next_pending_gap().is_none() {
            self.sent = self.sent.max(self.ring.dropped());
        }
    }

    /// Resends entries from the ring. Consecutive messages of one channel are sent together.
    pub(super) fn take_resend(&mut self, log: LogBounds, at_most: usize) -> TurnOutcome {
        let seq = self.sent + 1;
        let (entry, in_run) =
            self.ring.rest_of_run(seq).expect("the ring holds everything up to its last seq");
        match entry.kind() {
            EntryKind::Gap(range) => {
                self.sent = seq;
                TurnOutcome::Gap { seq, range }
            }
            EntryKind::Message if entry.offset >= log.first && self.resend_mode == ResendMode::Messages => {
                let count = usize::try_from(in_run).unwrap_or(usize::MAX).min(at_most);
                self.sent += count as u64;
                // Only sending new messages can make the subscription catch up.
                TurnOutcome::Messages { seq, offset: entry.offset, count, caught_up: false }
            }
            EntryKind::Message => {
                let missing_count = match self.resend_mode {
                    ResendMode::Messages => in_run.min(log.first - entry.offset),
                    ResendMode::Gaps | ResendMode::HeldGaps => in_run,
                };
                self.sent += missing_count;
                TurnOutcome::Gap {
                    seq: self.sent,
                    range: Some((entry.offset, entry.offset + missing_count - 1)),
                }
            }
        }
    }
}
