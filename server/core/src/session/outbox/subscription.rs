use super::ring::{Entry, What};

/// One session's place in one channel.
#[derive(Debug)]
pub(super) struct Subscription<C> {
    pub(super) channel: C,
    /// The cursor at the beginning: nothing up to here was ever owed.
    begun: u64,
    /// The last offset that was sent, or told to be missing.
    pub(super) cursor: u64,
    /// How far the entries go that have left the ring, acknowledged or not.
    forgotten: Option<Forgotten>,
    /// Entries in the ring.
    pub(super) remembered: u32,
    /// A gap of unknown length is to be told before anything else.
    pub(super) gap: bool,
    /// A gap of unknown length has left the ring.
    forgot_gap: bool,
    /// It is in the queue of those whose log may have something new.
    pub(super) ready: bool,
    /// Not unsubscribed.
    pub(super) live: bool,
}

#[derive(Clone, Copy, Debug)]
struct Forgotten {
    seq: u64,
    offset: u64,
}

impl<C> Subscription<C> {
    pub(super) fn new(channel: C, cursor: u64, gap: bool) -> Self {
        Self {
            channel,
            begun: cursor,
            cursor,
            forgotten: None,
            remembered: 0,
            gap,
            forgot_gap: false,
            ready: false,
            live: true,
        }
    }

    pub(super) fn forget(&mut self, seq: u64, entry: Entry) {
        self.remembered -= 1;
        self.forgotten = Some(Forgotten { seq, offset: entry.last_offset() });
        self.forgot_gap |= matches!(entry.what(), What::Gap(None));
    }

    /// For a client that has everything up to `seq`: the seq of a gap that it is owed, since what it should get cannot
    /// be told any more.
    ///
    /// What it has unsubscribed from, it is not owed.
    pub(super) fn owes_since(&self, seq: u64) -> Option<u64> {
        self.forgotten.map(|forgotten| forgotten.seq).filter(|forgotten| self.live && *forgotten > seq)
    }

    /// The seq and the range of that gap. The range may say too much: only how far it goes was remembered.
    pub(super) fn owed(&self) -> Option<(u64, Option<(u64, u64)>)> {
        let Forgotten { seq, offset } = self.forgotten?;
        Some((seq, (!self.forgot_gap).then_some((self.begun + 1, offset))))
    }
}
