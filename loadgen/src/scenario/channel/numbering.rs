//! Whether the seqs of a session follow one another.

/// How far a session has come by its seqs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbering {
    last: u64,
    /// A gap may stand for more than one seq, those of other channels too: what follows it may lie further on.
    after_gap: bool,
}

impl Numbering {
    /// The next seq is the one after this.
    pub(super) fn after(seq: u64) -> Self {
        Self { last: seq, after_gap: false }
    }

    /// Whether a message may have this seq: the next one. It is the last from now on in either case.
    pub(super) fn message(&mut self, seq: u64) -> bool {
        let follows = if self.after_gap { seq > self.last } else { seq.checked_sub(1) == Some(self.last) };
        *self = Self::after(seq);
        follows
    }

    /// Whether a gap may have this seq: a higher one.
    pub(super) fn gap(&mut self, seq: u64) -> bool {
        let follows = seq > self.last;
        *self = Self { last: seq, after_gap: true };
        follows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_one_seq_after_the_other() {
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
