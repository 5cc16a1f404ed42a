use super::*;
use alloc::collections::BTreeSet;

impl<T> Timers<T> {
    /// Panics unless everything that must hold does, and these are all that are scheduled.
    pub(in crate::wheel) fn check(&self, scheduled: impl Iterator<Item = (u32, Position)>) {
        let mut seen = BTreeSet::new();
        for (index, position) in scheduled {
            assert_eq!(self.node(index).position, Some(position), "timer {index}");
            assert!(seen.insert(index), "timer {index} stands at one place");
        }
        let count = seen.len();
        assert_eq!(self.len, count, "every timer is in a slot");
        let nodes = self.pool.pages().flat_map(|memory| &memory.nodes);
        assert_eq!(nodes.filter(|node| node.position.is_some()).count(), count, "and nothing else");
        self.pool.check(|index| {
            let node = self.pool.find(index).map(|(memory, place)| &memory.nodes[place]);
            // What is retired is never free.
            node.is_some_and(|node| node.position.is_some() || node.generation == 0)
        });
    }

    pub(in crate::wheel) fn stands_at(&self, index: u32, position: Position) -> bool {
        self.pool.find(index).is_some_and(|(memory, place)| memory.nodes[place].position == Some(position))
    }

    pub(in crate::wheel) fn deadline_at(&self, index: u32) -> Tick {
        self.node(index).deadline
    }

    fn node(&self, index: u32) -> &Node {
        let (memory, place) = self.pool.at(index);
        &memory.nodes[place]
    }

    /// Makes a scheduled timer's generation the last.
    pub(in crate::wheel) fn last_generation(&mut self, key: TimerKey) -> TimerKey {
        self.at(key.index).0.generation = u32::MAX;
        TimerKey { generation: NonZeroU32::MAX, ..key }
    }

    /// How many pages have memory.
    pub(in crate::wheel) fn pages(&self) -> usize {
        self.pool.pages().count()
    }
}
