use super::*;
use alloc::vec;

impl<P: Page> Pool<P> {
    /// Panics unless everything that must hold does, and just these indices are in use.
    pub(in crate::wheel) fn check(&self, in_use: impl Fn(u32) -> bool) {
        let mut empty = 0;
        for (at, state) in self.states.iter().enumerate() {
            let room = !state.is_there || !is_full::<P>(state);
            let told = self.room.check(at);
            assert!(told || !(room || at == self.lowest), "page {at} has room");
            assert!(!room || at >= self.lowest, "page {at} has room, below {}", self.lowest);
            if !state.is_there {
                continue;
            }
            let (page, _) = self.at(index::<P>(at, 0));
            let (mut free, mut place) = (vec![false; P::LEN], state.first_free);
            while usize::from(place) < P::LEN {
                let seen = std::mem::replace(&mut free[usize::from(place)], true);
                assert!(!seen, "what is free is in a circle");
                place = page.next_free(usize::from(place));
            }
            empty += usize::from(state.in_use == 0);
            for (place, free) in free.iter().enumerate() {
                assert_eq!(*free, !in_use(index::<P>(at, place)), "page {at}, place {place}");
            }
            assert_eq!(usize::from(state.in_use), free.iter().filter(|free| !**free).count());
        }
        assert_eq!(self.held, self.pages().count(), "pages");
        assert_eq!(self.empty, empty, "empty pages");
        assert!(empty <= SPARE);
    }

    /// Every page that is there.
    pub(in crate::wheel) fn pages(&self) -> impl Iterator<Item = &P> {
        let there = self.states.iter().enumerate().filter(|(_, state)| state.is_there);
        there.map(|(at, _)| self.at(index::<P>(at, 0)).0)
    }
}

struct Small([u16; 2]);

impl Page for Small {
    const LEN: usize = 2;

    fn bring(_: u32) -> Box<Self> {
        Box::new(Small([1, 2]))
    }

    fn next_free(&self, place: usize) -> u16 {
        self.0[place]
    }

    fn set_next_free(&mut self, place: usize, next: u16) {
        self.0[place] = next;
    }

    fn is_retired(&self, _: usize) -> bool {
        false
    }

    fn generation(&self) -> u32 {
        1
    }
}

#[test]
fn at_its_limit_it_panics_and_goes_on() {
    let mut pool = Pool::<Small>::new();
    for _ in 0..4 {
        pool.take(4);
    }
    for given_back in [3, 0, 2, 1] {
        let beyond = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pool.take(4).0));
        assert!(beyond.is_err(), "it is full");
        pool.check(|_| true);
        pool.give_back(given_back, |_, _| (), |_| ());
        pool.check(|index| index != given_back);
        assert_eq!(pool.take(4).0, given_back);
    }
}
