use super::*;

impl<T, const K: usize, L: Layout> Owners<T, K, L> {
    /// Panics unless everything that must hold does.
    pub(in crate::wheel) fn check(&self) {
        let records = || self.pool.pages().flat_map(PageOf::records);
        assert_eq!(records().filter(|record| record.generation % 2 == 1).count(), self.len);
        for record in records().filter(|record| record.generation % 2 == 0) {
            assert!(record.states.iter().all(|state| !state.is_armed()), "a free record has armed timers");
        }
        self.pool.check(|index| {
            let (page, place) = self.pool.at(index);
            let record = page.0.record(place);
            // What is retired is never free.
            record.generation % 2 == 1 || record.generation == 0
        });
    }

    /// How many timers have an entry that counts.
    pub(in crate::wheel) fn standing(&self) -> usize {
        self.pool.pages().map(PageOf::entries).sum()
    }

    /// How many timers are armed.
    pub(in crate::wheel) fn armed(&self) -> usize {
        let states = self.pool.pages().flat_map(PageOf::records).flat_map(|record| record.states);
        states.filter(|state| state.is_armed()).count()
    }

    /// The deadline of an entry's timer, if that is armed.
    pub(in crate::wheel) fn deadline_of(&self, entry: u32) -> Option<Tick> {
        let (index, which) = split::<K>(entry);
        let (page, place) = self.pool.at(index);
        let record = page.0.record(place);
        record.states[which].is_armed().then_some(record.deadlines[which])
    }

    /// Makes an owner's generation the last.
    pub(in crate::wheel) fn last_generation(&mut self, key: TimerKey) -> TimerKey {
        let (page, place) = self.pool.at_mut(key.index);
        page.0.both_mut(place).0.generation = u32::MAX;
        TimerKey { generation: NonZeroU32::MAX, ..key }
    }

    /// How many pages there are.
    pub(in crate::wheel) fn pages(&self) -> usize {
        self.pool.pages().count()
    }
}
