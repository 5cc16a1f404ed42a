use super::*;

impl<T> Timers<T> {
    /// Panics unless everything that must hold does, and these are all that are scheduled.
    pub(in crate::wheel) fn check(&self, scheduled: impl Iterator<Item = (u32, Position)>) {
        let mut count = 0;
        for (index, position) in scheduled {
            count += 1;
            assert_eq!(self.node(index).position, Some(position), "timer {index}");
        }
        assert_eq!(self.len, count, "every timer is in a slot");
        let nodes = || self.pages.iter().filter_map(|page| page.nodes.as_deref()).flatten();
        assert_eq!(nodes().filter(|node| node.position.is_some()).count(), count, "and nothing else");
        for page in &self.pages {
            assert_eq!(page.nodes.is_some(), page.values.is_some());
        }
        // What is retired is never free.
        self.numbers.check(|number| {
            let (at, place) = split(number);
            let node = self.pages.get(at).and_then(|page| Some(&page.nodes.as_deref()?[place]));
            node.is_some_and(|node| node.position.is_some() || node.generation == 0)
        });
    }

    /// Makes a scheduled timer's generation the last.
    pub(in crate::wheel) fn last_generation(&mut self, key: TimerKey) -> TimerKey {
        self.node_mut(key.index).generation = u32::MAX;
        self.key(key.index)
    }

    /// How many pages have memory.
    pub(in crate::wheel) fn pages(&self) -> usize {
        self.pages.iter().filter(|page| page.nodes.is_some()).count()
    }
}
