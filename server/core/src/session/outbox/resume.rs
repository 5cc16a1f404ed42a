//! The position of an outbox when a new connection begins.

use super::resend::ResendMode;
use super::{Outbox, WhenFull};

/// Position of a client in the stream.
#[derive(Clone, Copy, Debug)]
pub struct ClientPosition {
    /// Seq of the last message that the client has received.
    pub seq: u64,
    /// Lowest seq to which the client may go back. Entries up to it are no longer needed.
    pub confirmed: u64,
}

impl<C> Outbox<C> {
    /// Prepares the outbox for a new connection whose client has everything up to `seq`. If the client does
    /// not report a seq, the last acknowledgement is used instead.
    ///
    /// `seq` must be at most [`Outbox::seq`].
    pub fn resume(&mut self, seq: Option<u64>, when_full: WhenFull) {
        let seq = seq.unwrap_or(self.acknowledged);
        self.continue_after(ClientPosition { seq, confirmed: seq }, when_full);
        self.requeue_notices_after(seq);
    }

    /// Like [`Self::resume`], but for a client that may go back to its previous position: entries after
    /// [`ClientPosition::confirmed`] are kept until the ring needs the space. `was_answered` states whether
    /// the client's last request was answered. If it was, and the client has everything that was sent, the
    /// client also has the notices. If they were sent again, a client that polls while there are no new
    /// messages would receive the same notices each time.
    pub fn resume_keeping(&mut self, position: ClientPosition, was_answered: bool) {
        let seq = position.seq;
        let was_answered = was_answered && seq >= self.sent;
        self.continue_after(position, WhenFull::Stop);
        if !was_answered {
            self.requeue_notices_after(seq);
        }
        if self.needs_acknowledgement() {
            self.acknowledge(seq);
        }
    }

    /// Prepares the outbox for a new connection whose client has everything acknowledged, and possibly more.
    /// To avoid duplicates, everything sent since then is reported as gaps. `was_answered` states whether the
    /// client's last request was answered. `polls_again` states whether the connection is a poll that follows
    /// another one: if that one has sent the same gaps, they wait for the next message, the next notice or the end
    /// of the hold. A client whose answers are all lost would otherwise receive them in an endless loop.
    pub fn resume_with_gaps(&mut self, when_full: WhenFull, was_answered: bool, polls_again: bool) {
        let holds_gaps = polls_again && !was_answered && self.has_sent_only_gaps();
        let seq = self.acknowledged;
        self.continue_after(ClientPosition { seq, confirmed: seq }, when_full);
        if !was_answered {
            self.requeue_notices_after(seq);
        }
        self.resend_mode = if holds_gaps { ResendMode::HeldGaps } else { ResendMode::Gaps };
    }

    fn continue_after(&mut self, ClientPosition { seq, confirmed }: ClientPosition, when_full: WhenFull) {
        let seq = seq.min(self.seq());
        self.when_full = when_full;
        self.resend_mode = ResendMode::Messages;
        self.catching_up = true;
        self.sent = seq;
        self.clear_pending_gaps();
        if seq >= self.ring.dropped() {
            // The client has everything that has already left the ring.
            self.acknowledge(confirmed.max(self.ring.dropped()));
            return;
        }
        // The client has lost acknowledged messages.
        self.acknowledged = seq;
        self.queue_gaps_after(seq);
        self.report_gaps_of_ended(seq);
    }

    /// Queues gaps for everything after `seq` that has left the ring. They are sent before the ring's
    /// entries.
    pub(super) fn queue_gaps_after(&mut self, seq: u64) {
        // Give each gap the seq of the last entry that its subscription lost from the ring. A client that
        // disconnects after the first of two gaps, and resumes with its seq, still receives the second.
        let mut gaps: Vec<(u64, u32)> = self
            .existing()
            .filter_map(|(slot, subscription)| Some((subscription.gap_seq_after(seq)?, slot)))
            .collect();
        gaps.sort_unstable();
        if !gaps.is_empty() {
            self.queue_gaps(gaps.into_iter().map(|(_, slot)| slot));
        }
        self.skip_to_ring();
    }
}
