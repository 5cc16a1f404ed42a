use super::*;

impl<T, const K: usize, L: ValueLayout> OwnerMemory<T, K, L> {
    pub(in crate::wheel) fn check(&self) {
        let records = || self.pool.pages().flat_map(OwnerPage::records);
        assert_eq!(records().filter(|record| record.generation % 2 == 1).count(), self.len);
        for record in records().filter(|record| record.generation % 2 == 0) {
            assert!(record.states.iter().all(|state| !state.is_armed()), "a free record has armed timers");
        }
        self.pool.check(|index| {
            let (page, offset) = self.pool.at(index);
            let record = page.0.record(offset);
            // A retired record counts as in use, because it is never free again.
            record.generation % 2 == 1 || record.generation == 0
        });
    }

    pub(in crate::wheel) fn timers_with_entry(&self) -> usize {
        self.pool.pages().map(OwnerPage::valid_entries).sum()
    }

    pub(in crate::wheel) fn armed(&self) -> usize {
        let states = self.pool.pages().flat_map(OwnerPage::records).flat_map(|record| record.states);
        states.filter(|state| state.is_armed()).count()
    }

    pub(in crate::wheel) fn deadline_of(&self, entry: u32) -> Option<Tick> {
        let (index, timer) = split::<K>(entry);
        let (page, offset) = self.pool.at(index);
        let record = page.0.record(offset);
        record.states[timer].is_armed().then_some(record.deadlines[timer])
    }

    pub(in crate::wheel) fn last_generation(&mut self, key: TimerKey) -> TimerKey {
        let (page, offset) = self.pool.at_mut(key.index);
        page.0.record_and_value_mut(offset).0.generation = u32::MAX;
        TimerKey { generation: NonZeroU32::MAX, ..key }
    }

    pub(in crate::wheel) fn pages(&self) -> usize {
        self.pool.pages().count()
    }
}
