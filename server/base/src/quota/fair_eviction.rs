//! Fair eviction from a limited resource: when the limit is exceeded, the owner with the most items loses its
//! oldest item.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::owner::QuotaOwner;

/// Items by owner. Each item is numbered when inserted, so a lower number means an older item.
#[derive(Debug)]
pub struct FairEviction<T> {
    items: HashMap<QuotaOwner, BTreeMap<u64, T>>,
    /// Owners by eviction rank.
    ranking: BTreeMap<EvictionRank, QuotaOwner>,
    next: u64,
}

/// Number of an owner's items, and the number of its oldest one. Among owners with equally many items, the one
/// with the oldest item loses it: with any other rule, a crowd could choose its addresses so that only the
/// newest item is ever considered.
type EvictionRank = (usize, Reverse<u64>);

impl<T> Default for FairEviction<T> {
    fn default() -> Self {
        Self { items: HashMap::new(), ranking: BTreeMap::new(), next: 0 }
    }
}

impl<T> FairEviction<T> {
    /// Adds an item and returns its number.
    pub fn insert(&mut self, owner: &QuotaOwner, item: T) -> u64 {
        let number = self.next;
        self.next += 1;
        self.change(owner, |held| _ = held.insert(number, item));
        number
    }

    /// Removes an item. Returns `None` if it was already removed or evicted.
    pub fn remove(&mut self, owner: &QuotaOwner, number: u64) -> Option<T> {
        self.change(owner, |held| held.remove(&number))
    }

    /// Returns the oldest item of the owner with the most items, which is the next to be
    /// [evicted](Self::evict).
    pub fn next_victim(&self) -> Option<&T> {
        let (_, owner) = self.ranking.last_key_value()?;
        self.oldest_of(owner)
    }

    /// Returns this owner's oldest item.
    pub fn oldest_of(&self, owner: &QuotaOwner) -> Option<&T> {
        self.items.get(owner)?.first_key_value().map(|(_, item)| item)
    }

    /// Removes and returns the oldest item of the owner with the most items.
    pub fn evict(&mut self) -> Option<T> {
        let owner = self.ranking.last_key_value()?.1.clone();
        self.evict_from(&owner)
    }

    /// Removes and returns this owner's oldest item.
    pub fn evict_from(&mut self, owner: &QuotaOwner) -> Option<T> {
        let oldest = *self.items.get(owner)?.first_key_value()?.0;
        self.remove(owner, oldest)
    }

    /// Changes an owner's items, and its place in the ranking.
    fn change<R>(&mut self, owner: &QuotaOwner, change: impl FnOnce(&mut BTreeMap<u64, T>) -> R) -> R {
        let held = self.items.entry(owner.clone()).or_default();
        if let Some(rank) = rank(owner, held) {
            self.ranking.remove(&rank);
        }
        let result = change(held);
        match rank(owner, held) {
            Some(rank) => _ = self.ranking.insert(rank, owner.clone()),
            None => _ = self.items.remove(owner),
        }
        result
    }
}

/// Returns the rank of an owner, or `None` if it has no items.
fn rank<T>(owner: &QuotaOwner, items: &BTreeMap<u64, T>) -> Option<EvictionRank> {
    let oldest = *items.first_key_value()?.0;
    Some((owner.eviction_rank(items.len()), Reverse(oldest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> QuotaOwner {
        QuotaOwner::new(None, [10, 0, 0, last].into())
    }

    #[test]
    fn the_owner_with_the_most_loses_its_oldest() {
        let mut items = FairEviction::default();
        let user = QuotaOwner::new(Some("alice".into()), [10, 0, 0, 1].into());
        items.insert(&user, 1);
        for item in 2..=4 {
            items.insert(&address(1), item);
        }
        items.insert(&user, 5);
        assert_eq!(items.evict(), Some(2));
        // Both owners have two items now, so the order depends on the age of the oldest.
        let rest: Vec<_> = std::iter::from_fn(|| items.evict()).collect();
        assert_eq!(rest, [1, 3, 4, 5]);
        assert!(items.items.is_empty() && items.ranking.is_empty());
    }

    #[test]
    fn among_equals_the_oldest_item_is_evicted() {
        for addresses in [[1, 2, 3, 4], [4, 3, 2, 1], [2, 4, 1, 3]] {
            let mut items = FairEviction::default();
            addresses.iter().for_each(|last| _ = items.insert(&address(*last), *last));
            let order: Vec<_> = std::iter::from_fn(|| items.evict()).collect();
            assert_eq!(order, addresses);
        }
    }

    #[test]
    fn removed_items_are_not_evicted() {
        let mut items = FairEviction::default();
        let numbers: Vec<_> = (0..3).map(|item| items.insert(&address(1), item)).collect();
        assert_eq!(items.remove(&address(1), numbers[0]), Some(0));
        assert_eq!(items.remove(&address(1), numbers[0]), None);
        assert_eq!(items.remove(&address(2), numbers[1]), None);
        assert_eq!(items.evict(), Some(1));
    }

    #[test]
    fn the_operator_is_evicted_last() {
        let mut items = FairEviction::default();
        (0..3).for_each(|item| _ = items.insert(&QuotaOwner::Operator, item));
        items.insert(&address(1), 3);
        let taken: Vec<_> = std::iter::from_fn(|| items.evict()).collect();
        assert_eq!(taken, [3, 0, 1, 2]);
        assert!(items.ranking.is_empty());
    }
}
