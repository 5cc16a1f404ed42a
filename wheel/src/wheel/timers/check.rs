use super::*;

impl<T> Timers<T> {
    /// Panics unless everything that must hold does, and these are all that are scheduled.
    pub(in crate::wheel) fn check(&self, scheduled: impl Iterator<Item = (u32, Position)>) {
        let mut count = 0;
        for (index, position) in scheduled {
            count += 1;
            let (at, place) = split(index);
            let memory = self.pages[at].memory.as_deref().expect("it is scheduled");
            assert_eq!(memory.nodes[place].position, Some(position), "timer {index}");
        }
        assert_eq!(self.len, count, "every timer is in a slot");
        let nodes =
            || self.pages.iter().filter_map(|page| page.memory.as_deref()).flat_map(|memory| &memory.nodes);
        assert_eq!(nodes().filter(|node| node.position.is_some()).count(), count, "and nothing else");
        // What is retired is never free.
        self.numbers.check(|number| {
            let (at, place) = split(number);
            let node = self.pages.get(at).and_then(|page| Some(&page.memory.as_deref()?.nodes[place]));
            node.is_some_and(|node| node.position.is_some() || node.generation == 0)
        });
    }

    /// Makes a scheduled timer's generation the last.
    pub(in crate::wheel) fn last_generation(&mut self, key: TimerKey) -> TimerKey {
        self.at(key.index).0.generation = u32::MAX;
        TimerKey { generation: NonZeroU32::MAX, ..key }
    }

    pub(in crate::wheel) fn deadline_at(&self, index: u32) -> Tick {
        let (at, place) = split(index);
        self.pages[at].memory.as_deref().expect("it is scheduled").nodes[place].deadline
    }

    /// How many pages have memory.
    pub(in crate::wheel) fn pages(&self) -> usize {
        self.pages.iter().filter(|page| page.memory.is_some()).count()
    }
}
