use alloc::vec::Vec;

/// Bitmap of the pages with a free entry. It may include full pages: these are only removed when a search
/// finds them, because the last entry of a page is often allocated and freed in turn. A second level has one
/// bit per 64 pages.
#[derive(Debug)]
pub(super) struct PageBitmap {
    pages: Vec<u64>,
    words: Vec<u64>,
}

const BITS: usize = u64::BITS as usize;

impl PageBitmap {
    pub(super) const fn new() -> Self {
        PageBitmap { pages: Vec::new(), words: Vec::new() }
    }

    pub(super) fn insert(&mut self, page: usize) {
        set(&mut self.pages, page);
        set(&mut self.words, page / BITS);
    }

    pub(super) fn remove(&mut self, page: usize) {
        let word = page / BITS;
        self.pages[word] &= !(1 << (page % BITS));
        if self.pages[word] == 0 {
            self.words[word / BITS] &= !(1 << (word % BITS));
        }
    }

    /// Returns the lowest page in the bitmap. Reads one word per 4096 pages.
    pub(super) fn lowest(&self) -> Option<usize> {
        let (at, word) = self.words.iter().enumerate().find(|(_, word)| **word != 0)?;
        let word = at * BITS + word.trailing_zeros() as usize;
        Some(word * BITS + self.pages[word].trailing_zeros() as usize)
    }

    /// Returns whether a page is in the bitmap, and panics if the second level hides it.
    #[cfg(test)]
    pub(super) fn check(&self, page: usize) -> bool {
        let word = page / BITS;
        let is_in = self.pages[word] >> (page % BITS) & 1 == 1;
        assert!(!is_in || self.words[word / BITS] >> (word % BITS) & 1 == 1);
        is_in
    }
}

fn set(words: &mut Vec<u64>, bit: usize) {
    let word = bit / BITS;
    if word >= words.len() {
        words.resize(word + 1, 0);
    }
    words[word] |= 1 << (bit % BITS);
}
