//! Messages that a client knows about, by number: those received, and those reported as missing.

use std::collections::BTreeSet;

use crate::truth::LogTruth;

#[derive(Clone, Debug, Default)]
pub(super) struct KnownMessages {
    received: BTreeSet<u64>,
    pub(super) reported: BTreeSet<u64>,
    /// Bit set of the logs ever subscribed to.
    ever_subscribed: u16,
    /// Whether messages that the simulation never observed were reported as missing. They cannot be
    /// identified in other logs.
    pub(super) is_blind: bool,
}

impl KnownMessages {
    /// Records that the client receives a message. Returns whether it is new.
    pub(super) fn receive(&mut self, number: u64) -> bool {
        self.received.insert(number)
    }

    /// Records that the messages in a range of an epoch were reported as missing. The epoch may have ended:
    /// overlapping logs may still contain the messages.
    pub(super) fn report(&mut self, log: &LogTruth, epoch: &str, range: (u64, u64)) {
        let (numbers, may_lack) = log.numbers(epoch, range);
        self.reported.extend(numbers);
        self.is_blind |= may_lack;
    }

    pub(super) fn has_received(&self, number: u64) -> bool {
        self.received.contains(&number)
    }

    /// Whether the client has received the message, or knows that it is missing.
    pub(super) fn contains(&self, number: u64) -> bool {
        self.has_received(number) || self.reported.contains(&number)
    }

    /// Returns whether the client knows the message at this offset of a log's current epoch. A message that
    /// is no longer recorded counts as known.
    pub(super) fn covers(&self, log: &LogTruth, offset: u64) -> bool {
        log.message(offset).is_none_or(|number| self.contains(number))
    }

    /// Like [`Self::covers`], for a log's epoch that may have ended.
    pub(super) fn covers_in(&self, log: &LogTruth, epoch: &str, offset: u64) -> bool {
        log.message_of(epoch, offset).is_none_or(|number| self.contains(number))
    }

    pub(super) fn subscribe(&mut self, log: usize) {
        self.ever_subscribed |= 1 << log;
    }

    pub(super) fn has_subscribed(&self, log: usize) -> bool {
        self.ever_subscribed & 1 << log != 0
    }
}
