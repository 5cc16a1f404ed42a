//! Where an outbox goes on for a new connection.

use super::{Outbox, WhenFull};

impl<C> Outbox<C> {
    /// A new connection, whose client has everything up to `seq`; if it does not say, up to the last acknowledgement.
    ///
    /// `seq` must be at most [`Outbox::seq`].
    pub fn resume(&mut self, seq: Option<u64>, when_full: WhenFull) {
        let seq = seq.unwrap_or(self.acknowledged);
        self.go_on_after(seq, seq, when_full);
        self.tell_again_after(seq);
    }

    /// The same for a client that may yet come back to where it was before: of what it has, what came after `confirmed` is
    /// forgotten only when the ring needs the room. `has_heard` is whether its last request was answered: if it has all that was sent, it has
    /// what was told, too. (It asks again and again, with nothing new in between, and must not be told again each time.)
    pub fn resume_keeping(&mut self, seq: u64, confirmed: u64, has_heard: bool) {
        let has_heard = has_heard && seq >= self.sent;
        self.go_on_after(seq, confirmed, WhenFull::Stop);
        if !has_heard {
            self.tell_again_after(seq);
        }
        if self.needs_acknowledgement() {
            self.acknowledge(seq);
        }
    }

    /// A new connection, whose client has what was acknowledged and does not say what more. So that nothing comes twice, what
    /// was sent since is told as gaps. `has_heard` is whether its last request was answered.
    pub fn resume_with_gaps(&mut self, when_full: WhenFull, has_heard: bool) {
        let seq = self.acknowledged;
        self.go_on_after(seq, seq, when_full);
        if !has_heard {
            self.tell_again_after(seq);
        }
        self.tells_gaps = true;
    }

    fn go_on_after(&mut self, seq: u64, confirmed: u64, when_full: WhenFull) {
        let seq = seq.min(self.seq());
        self.when_full = when_full;
        self.tells_gaps = false;
        self.sent = seq;
        self.clear_pending_gaps();
        if seq >= self.ring.dropped() {
            // What is dropped already, the client has.
            self.acknowledge(confirmed.max(self.ring.dropped()));
            return;
        }
        // The client has lost what was acknowledged.
        self.acknowledged = seq;
        self.gaps_pending_after(seq);
        self.tell_what_others_sent(seq);
    }

    /// What has left the ring after `seq` is told before what is in the ring.
    pub(super) fn gaps_pending_after(&mut self, seq: u64) {
        // Each gap has the seq of the last entry that its subscription lost from the ring. So a client that is cut between
        // two gaps, and resumes with the seq of the first, still gets the second.
        let mut gaps: Vec<(u64, u32)> = self
            .existing()
            .filter_map(|(slot, subscription)| Some((subscription.gap_needed_after(seq)?, slot)))
            .collect();
        gaps.sort_unstable();
        if !gaps.is_empty() {
            self.await_gaps(gaps.into_iter().map(|(_, slot)| slot));
        }
        self.skip_to_ring();
    }
}
