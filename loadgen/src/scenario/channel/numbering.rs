//! Checks that the seqs of a session are consecutive.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scenario) struct Numbering {
    last: u64,
    /// Whether the last seq was a gap's. A gap may stand for several seqs, including those of other channels,
    /// so the next seq may be higher than expected.
    after_gap: bool,
}

impl Numbering {
    /// Creates an instance that expects the seq after this one.
    pub(in crate::scenario) fn after(seq: u64) -> Self {
        Self { last: seq, after_gap: false }
    }

    /// Returns whether a message may have this seq: it must be the next one. Numbering continues from this
    /// seq even if it is wrong.
    pub(in crate::scenario) fn message(&mut self, seq: u64) -> bool {
        let follows = if self.after_gap { seq > self.last } else { seq.checked_sub(1) == Some(self.last) };
        *self = Self::after(seq);
        follows
    }

    /// Returns whether a gap may have this seq: it must be higher than the last one. Numbering continues from
    /// this seq even if it is wrong.
    pub(in crate::scenario) fn gap(&mut self, seq: u64) -> bool {
        let follows = seq > self.last;
        *self = Self { last: seq, after_gap: true };
        follows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_consecutive_seqs() {
        let mut numbering = Numbering::after(7);
        let follow = [8, 9, 9, 10, 12, 13, 5].map(|seq| numbering.message(seq));
        assert_eq!(follow, [true, true, false, true, false, true, false]);
    }

    #[test]
    fn a_gap_may_skip_seqs_and_never_goes_back() {
        let mut numbering = Numbering::after(7);
        assert!(numbering.gap(20) && numbering.message(25) && !numbering.message(27));
        assert!(!numbering.gap(27) && numbering.gap(28));
    }
}
