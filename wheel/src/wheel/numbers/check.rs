use super::*;

impl<const WORDS: usize> Numbers<WORDS> {
    /// Panics unless everything that must hold does, and just these numbers are taken.
    pub(in crate::wheel) fn check(&self, is_taken: impl Fn(u32) -> bool) {
        let mut empty = 0;
        for (at, page) in self.pages.iter().enumerate() {
            let first = at * Self::PAGE;
            let taken = (first..first + Self::PAGE)
                .filter(|number| {
                    let number = u32::try_from(*number).expect("a number");
                    let (_, word, bit) = Self::split(number);
                    let taken = page.free[word] & bit == 0;
                    assert_eq!(taken, is_taken(number), "number {number}");
                    taken
                })
                .count();
            assert_eq!(page.taken as usize, taken, "page {at}");
            for (word, free) in page.free.iter().enumerate() {
                assert_eq!(page.words >> word & 1 == 1, *free != 0, "page {at}, word {word}");
            }
            assert!(page.there || taken == 0, "page {at}");
            empty += usize::from(page.there && taken == 0);
            let room = self.room.pages[at / BITS] >> (at % BITS) & 1 == 1;
            assert_eq!(room, page.words != 0, "page {at}");
            assert!(!room || at >= self.lowest, "page {at} is below the lowest");
            assert!(!room || self.room.words[at / BITS / BITS] >> (at / BITS % BITS) & 1 == 1);
        }
        assert_eq!(self.empty, empty, "empty pages");
        assert!(empty <= 1);
    }
}
