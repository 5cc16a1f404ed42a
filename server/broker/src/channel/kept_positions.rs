//! Positions of removed channels. A channel that is created again continues at its position, so that a client
//! that has missed nothing receives no gap.

use std::collections::{BTreeMap, HashMap};

use data_encoding::BASE64URL_NOPAD;
use encke_base::locks::Mutex;
use ring::digest::{SHA256, digest};

use super::epoch::LogEpoch;
use super::record::PositionRecord;

/// The last positions of the channels that were removed most recently.
#[derive(Debug)]
pub(super) struct KeptPositions {
    limit: usize,
    logs: Mutex<Logs>,
}

#[derive(Debug, Default)]
struct Logs {
    /// Positions by the hash of the channel's name, which is the same in the next process.
    positions: HashMap<u64, Position>,
    /// Hashes by number, oldest first.
    by_age: BTreeMap<u64, u64>,
    next: u64,
}

#[derive(Debug)]
struct Position {
    number: u64,
    epoch: [u8; 8],
    last: u64,
}

impl KeptPositions {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, logs: Mutex::default() }
    }

    /// Keeps the position of a channel that is being removed, unless its epoch has an unknown format.
    pub(super) fn keep(&self, name: &str, epoch: &str, last: u64) {
        self.keep_hashed(hash(name), epoch, last);
    }

    fn keep_hashed(&self, key: u64, epoch: &str, last: u64) {
        let decoded =
            BASE64URL_NOPAD.decode(epoch.as_bytes()).ok().and_then(|id| <[u8; 8]>::try_from(id).ok());
        let Some(epoch) = decoded.filter(|_| self.limit > 0) else { return };
        let logs = &mut *self.logs.lock();
        let number = logs.next;
        logs.next += 1;
        if let Some(replaced) = logs.positions.insert(key, Position { number, epoch, last }) {
            logs.by_age.remove(&replaced.number);
        }
        logs.by_age.insert(number, key);
        if logs.by_age.len() > self.limit
            && let Some((_, oldest)) = logs.by_age.pop_first()
        {
            logs.positions.remove(&oldest);
        }
    }

    /// Returns the position at which a channel continues, if it is known.
    pub(super) fn take(&self, name: &str) -> Option<LogEpoch> {
        if self.limit == 0 {
            return None;
        }
        let key = hash(name);
        let Position { epoch, last, .. } = {
            let logs = &mut *self.logs.lock();
            let position = logs.positions.remove(&key)?;
            logs.by_age.remove(&position.number);
            position
        };
        Some(LogEpoch { last, ..LogEpoch::with_id(BASE64URL_NOPAD.encode(&epoch).into()) })
    }

    pub(super) fn len(&self) -> usize {
        self.logs.lock().positions.len()
    }

    /// Returns the records for a snapshot, oldest first.
    pub(super) fn records(&self) -> Vec<PositionRecord> {
        let logs = self.logs.lock();
        let record = |name_hash: &u64| {
            let Position { epoch, last, .. } = logs.positions.get(name_hash)?;
            Some(PositionRecord { name_hash: *name_hash, epoch: BASE64URL_NOPAD.encode(epoch), last: *last })
        };
        logs.by_age.values().filter_map(record).collect()
    }

    /// Restores a position, as the most recent one.
    pub(super) fn restore(&self, PositionRecord { name_hash, epoch, last }: &PositionRecord) {
        self.keep_hashed(*name_hash, epoch, *last);
    }
}

/// Returns the first bytes of the SHA-256 of a channel's name.
fn hash(name: &str) -> u64 {
    let digest = digest(&SHA256, name.as_bytes());
    let (first, _) = digest.as_ref().split_first_chunk().expect("a digest has 32 bytes");
    u64::from_be_bytes(*first)
}

#[cfg(test)]
mod tests {
    use encke_base::entropy::Entropy;

    use super::super::epoch::new_epoch;
    use super::*;

    #[test]
    fn the_latest_positions_are_kept() {
        let positions = KeptPositions::new(2);
        let epochs: Vec<_> = (0..4).map(|_| new_epoch(&Entropy::system())).collect();
        let take = |name: &str| positions.take(name).map(|log| (log.id.to_string(), log.last));
        positions.keep("a", &epochs[0], 1);
        positions.keep("b", &epochs[1], 2);
        positions.keep("a", &epochs[2], 3);
        positions.keep("c", &epochs[3], 4);
        assert_eq!(take("b"), None, "the oldest");
        assert_eq!(take("a"), Some((epochs[2].clone(), 3)));
        assert_eq!(take("a"), None, "the channel exists");
        assert_eq!(take("c"), Some((epochs[3].clone(), 4)));
        positions.keep("a", "another format", 1);
        positions.keep("b", "0123456789!", 1);
        assert!(take("a").is_none() && take("b").is_none());
        let logs = positions.logs.lock();
        assert!(logs.positions.is_empty() && logs.by_age.is_empty());
    }

    #[test]
    fn the_order_of_restored_positions_is_unchanged() {
        let (before, after) = (KeptPositions::new(3), KeptPositions::new(2));
        let epoch = new_epoch(&Entropy::system());
        for (last, name) in (1..).zip(["a", "b", "c", "a"]) {
            before.keep(name, &epoch, last);
        }
        let records = before.records();
        assert_eq!(records.iter().map(|record| record.last).collect::<Vec<_>>(), [2, 3, 4]);
        records.iter().for_each(|record| after.restore(record));
        assert_eq!(after.records(), records[1..], "the new limit applies");
        let log = after.take("a").expect("the most recent one");
        assert_eq!((&*log.id, log.last), (&*epoch, 4));
    }
}
