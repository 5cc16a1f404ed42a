use super::*;
use alloc::vec;

impl<P: PoolPage> Pool<P> {
    /// Panics unless all invariants hold and the indices in use are those that satisfy `in_use`.
    pub(in crate::wheel) fn check(&self, in_use: impl Fn(u32) -> bool) {
        let mut empty = 0;
        for (at, state) in self.states.iter().enumerate() {
            let room = !state.is_allocated || !is_full::<P>(state);
            let is_indexed = self.room.check(at);
            assert!(is_indexed || !(room || at == self.lowest), "page {at} has room");
            assert!(!room || at >= self.lowest, "page {at} has room, below {}", self.lowest);
            if !state.is_allocated {
                continue;
            }
            let (page, _) = self.at(index::<P>(at, 0));
            let (mut free, mut offset) = (vec![false; P::LEN], state.first_free);
            while usize::from(offset) < P::LEN {
                let seen = std::mem::replace(&mut free[usize::from(offset)], true);
                assert!(!seen, "the free list has a cycle");
                offset = page.next_free(usize::from(offset));
            }
            empty += usize::from(state.in_use == 0);
            for (offset, free) in free.iter().enumerate() {
                assert_eq!(*free, !in_use(index::<P>(at, offset)), "page {at}, offset {offset}");
            }
            assert_eq!(usize::from(state.in_use), free.iter().filter(|free| !**free).count());
        }
        assert_eq!(self.allocated, self.pages().count(), "pages");
        assert_eq!(self.empty, empty, "empty pages");
        assert!(empty <= MAX_SPARE_PAGES);
    }

    pub(in crate::wheel) fn pages(&self) -> impl Iterator<Item = &P> {
        let there = self.states.iter().enumerate().filter(|(_, state)| state.is_allocated);
        there.map(|(at, _)| self.at(index::<P>(at, 0)).0)
    }
}

struct Small([u16; 2]);

impl PoolPage for Small {
    const LEN: usize = 2;

    fn new_free(_: u32) -> Box<Self> {
        Box::new(Small([1, 2]))
    }

    fn next_free(&self, offset: usize) -> u16 {
        self.0[offset]
    }

    fn set_next_free(&mut self, offset: usize, next: u16) {
        self.0[offset] = next;
    }

    fn is_retired(&self, _: usize) -> bool {
        false
    }

    fn generation(&self) -> u32 {
        1
    }
}

#[test]
fn allocating_beyond_the_limit_panics_and_leaves_the_pool_usable() {
    let mut pool = Pool::<Small>::new();
    for _ in 0..4 {
        pool.allocate(4);
    }
    for given_back in [3, 0, 2, 1] {
        let beyond = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pool.allocate(4).0));
        assert!(beyond.is_err(), "the pool is full");
        pool.check(|_| true);
        pool.free(given_back, |_, _| (), |_| ());
        pool.check(|index| index != given_back);
        assert_eq!(pool.allocate(4).0, given_back);
    }
}
