//! Which numbers are taken: the lowest free one is handed out first, so that the highest pages run empty.

#[cfg(test)]
mod check;

use alloc::vec::Vec;

const BITS: usize = u64::BITS as usize;

/// Numbers from 0, in pages of `64 * WORDS`, each of which is taken or free.
#[derive(Debug)]
pub(super) struct Numbers<const WORDS: usize> {
    pages: Vec<Page<WORDS>>,
    room: Room,
    /// The lowest page that may have a free number.
    lowest: usize,
    /// Pages that are there though nothing in them is taken.
    empty: usize,
}

/// The numbers of one page.
#[derive(Debug)]
struct Page<const WORDS: usize> {
    /// One bit a number, set if it is free.
    free: [u64; WORDS],
    /// One bit a word of `free`, set if it is not zero.
    words: u32,
    taken: u32,
    /// It has memory.
    there: bool,
}

impl<const WORDS: usize> Numbers<WORDS> {
    /// How many numbers a page has.
    pub(super) const PAGE: usize = WORDS * BITS;

    pub(super) const fn new() -> Self {
        const { assert!(WORDS <= 32 && WORDS.is_power_of_two()) }
        Numbers { pages: Vec::new(), room: Room::new(), lowest: 0, empty: 0 }
    }

    /// Takes the lowest free number of the lowest page that has one. Panics when all numbers below `limit` are taken.
    pub(super) fn take(&mut self, limit: u32) -> u32 {
        let at = match self.pages.get(self.lowest) {
            Some(page) if page.words != 0 => self.lowest,
            _ => self.next_page(),
        };
        let page = &mut self.pages[at];
        let word = page.words.trailing_zeros() as usize % WORDS;
        let bit = page.free[word].trailing_zeros();
        page.free[word] &= page.free[word] - 1;
        if page.free[word] == 0 {
            page.words &= page.words - 1;
            if page.words == 0 {
                self.room.remove(at);
            }
        }
        if page.taken == 0 {
            self.empty -= usize::from(page.there);
            page.there = true;
        }
        page.taken += 1;
        let number = at * Self::PAGE + word * BITS + bit as usize;
        u32::try_from(number)
            .ok()
            .filter(|number| *number < limit)
            .unwrap_or_else(|| panic!("at most {limit} at a time"))
    }

    #[cold]
    fn next_page(&mut self) -> usize {
        self.lowest = self.room.lowest().unwrap_or_else(|| {
            let words = u32::MAX >> (u32::BITS as usize - WORDS);
            self.pages.push(Page { free: [u64::MAX; WORDS], words, taken: 0, there: false });
            self.room.insert(self.pages.len() - 1);
            self.pages.len() - 1
        });
        self.lowest
    }

    /// Makes a number free that was taken. Returns its page if nothing in it is taken any more and its memory is to go. One
    /// such page may stay, so that a timer that comes and goes alone does not bring and take memory each time.
    pub(super) fn give_back(&mut self, number: u32) -> Option<usize> {
        let (at, word, bit) = Self::split(number);
        let page = &mut self.pages[at];
        assert!(page.free[word] & bit == 0, "only what was taken is given back");
        page.free[word] |= bit;
        if page.words == 0 {
            self.room.insert(at);
        }
        page.words |= 1 << word;
        page.taken -= 1;
        self.lowest = self.lowest.min(at);
        if page.taken > 0 {
            return None;
        }
        if self.empty == 0 {
            self.empty = 1;
            return None;
        }
        page.there = false;
        Some(at)
    }

    /// Where a number is: the page, the word, and the bit in it.
    fn split(number: u32) -> (usize, usize, u64) {
        let number = number as usize;
        (number / Self::PAGE, number / BITS % WORDS, 1 << (number % BITS))
    }
}

/// The pages with a free number: a bit each, and a bit for each 64 of those.
#[derive(Debug)]
struct Room {
    pages: Vec<u64>,
    words: Vec<u64>,
}

impl Room {
    const fn new() -> Self {
        Room { pages: Vec::new(), words: Vec::new() }
    }

    fn insert(&mut self, page: usize) {
        set(&mut self.pages, page);
        set(&mut self.words, page / BITS);
    }

    fn remove(&mut self, page: usize) {
        let word = page / BITS;
        self.pages[word] &= !(1 << (page % BITS));
        if self.pages[word] == 0 {
            self.words[word / BITS] &= !(1 << (word % BITS));
        }
    }

    /// Reads one word for every 4096 pages until it finds one.
    fn lowest(&self) -> Option<usize> {
        let (at, word) = self.words.iter().enumerate().find(|(_, word)| **word != 0)?;
        let word = at * BITS + word.trailing_zeros() as usize;
        Some(word * BITS + self.pages[word].trailing_zeros() as usize)
    }
}

fn set(words: &mut Vec<u64>, bit: usize) {
    let word = bit / BITS;
    if word >= words.len() {
        words.resize(word + 1, 0);
    }
    words[word] |= 1 << (bit % BITS);
}
