//! Fair eviction from a limited resource: when the limit is exceeded, the owner with the most items loses its
//! oldest item.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::owner::QuotaOwner;

/// Items by owner. Each item is numbered when inserted, so a lower number means an older item.
#[derive(Debug)]
pub struct FairEviction<T> {
    items: HashMap<QuotaOwner, BTreeMap<u64, T>>,
    /// Owners by eviction rank.
    ranking: BTreeSet<(usize, QuotaOwner)>,
    next: u64,
}

impl<T> Default for FairEviction<T> {
    fn default() -> Self {
        Self { items: HashMap::new(), ranking: BTreeSet::new(), next: 0 }
    }
}

impl<T> FairEviction<T> {
    /// Adds an item and returns its number.
    pub fn insert(&mut self, owner: &QuotaOwner, item: T) -> u64 {
        let number = self.next;
        self.next += 1;
        let held = self.items.entry(owner.clone()).or_default();
        held.insert(number, item);
        let count = held.len();
        self.recount(owner, count - 1, count);
        number
    }

    /// Removes an item. Returns `None` if it was already removed or evicted.
    pub fn remove(&mut self, owner: &QuotaOwner, number: u64) -> Option<T> {
        let held = self.items.get_mut(owner)?;
        let item = held.remove(&number)?;
        let count = held.len();
        if count == 0 {
            self.items.remove(owner);
        }
        self.recount(owner, count + 1, count);
        Some(item)
    }

    /// Returns the oldest item of the owner with the most items, which is the next to be
    /// [evicted](Self::evict).
    pub fn next_victim(&self) -> Option<&T> {
        let (_, owner) = self.ranking.last()?;
        self.items.get(owner)?.first_key_value().map(|(_, item)| item)
    }

    /// Removes and returns the oldest item of the owner with the most items.
    pub fn evict(&mut self) -> Option<T> {
        let (_, owner) = self.ranking.last()?.clone();
        self.evict_from(&owner)
    }

    /// Removes and returns this owner's oldest item.
    pub fn evict_from(&mut self, owner: &QuotaOwner) -> Option<T> {
        let oldest = *self.items.get(owner)?.first_key_value()?.0;
        self.remove(owner, oldest)
    }

    fn recount(&mut self, owner: &QuotaOwner, before: usize, after: usize) {
        self.ranking.remove(&(owner.eviction_rank(before), owner.clone()));
        if after > 0 {
            self.ranking.insert((owner.eviction_rank(after), owner.clone()));
        }
    }
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
        // Both owners have two items now.
        let one_each = [items.evict(), items.evict()];
        assert!(one_each.contains(&Some(1)) && one_each.contains(&Some(3)), "{one_each:?}");
        let rest = [items.evict(), items.evict()];
        assert!(rest.contains(&Some(4)) && rest.contains(&Some(5)), "{rest:?}");
        assert_eq!(items.evict(), None);
        assert!(items.items.is_empty() && items.ranking.is_empty());
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
