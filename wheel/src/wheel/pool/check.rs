use super::*;
use alloc::vec;

impl<P: Page> Pool<P> {
    /// Panics unless everything that must hold does, and just these indices are in use.
    pub(in crate::wheel) fn check(&self, in_use: impl Fn(u32) -> bool) {
        let mut empty = 0;
        for (at, held) in self.pages.iter().enumerate() {
            let told = self.room.pages[at / BITS] >> (at % BITS) & 1 == 1;
            let room = held.page.is_none() || !is_full(held);
            assert!(told || !(room || at == self.lowest), "page {at} has room");
            assert!(!room || at >= self.lowest, "page {at} has room, below {}", self.lowest);
            assert!(!told || self.room.words[at / BITS / BITS] >> (at / BITS % BITS) & 1 == 1);
            let mut free = vec![held.page.is_none(); P::LEN];
            if let Some(page) = &held.page {
                let mut place = held.first_free;
                while usize::from(place) < P::LEN {
                    let seen = std::mem::replace(&mut free[usize::from(place)], true);
                    assert!(!seen, "what is free is in a circle");
                    place = page.next_free(usize::from(place));
                }
                empty += usize::from(held.in_use == 0);
            }
            for (place, free) in free.iter().enumerate() {
                assert_eq!(*free, !in_use(index::<P>(at, place)), "page {at}, place {place}");
            }
            assert_eq!(usize::from(held.in_use), free.iter().filter(|free| !**free).count());
        }
        assert_eq!(self.held, self.pages().count(), "pages");
        assert_eq!(self.empty, empty, "empty pages");
        assert!(empty <= SPARE);
    }

    /// Every page that is there.
    pub(in crate::wheel) fn pages(&self) -> impl Iterator<Item = &P> {
        self.pages.iter().filter_map(|held| held.page.as_deref())
    }
}
