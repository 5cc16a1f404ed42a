use std::sync::OnceLock;

/// So many are made at a time: few enough that a chunk of which little is used is no waste to speak of, and enough that the table of chunks is small.
const CHUNK: usize = 512;

/// However many are asked for, there is room for so many: the table of chunks is there from the beginning, and takes 4 MiB for these. That many sessions
/// take some 50 GB.
const MOST: usize = 1 << 27;

/// An array that grows and never moves: what is in it is found by two reads, while others make more of it.
#[derive(Debug)]
pub(crate) struct Chunks<T>(Box<[OnceLock<Box<[T; CHUNK]>>]>);

impl<T> Chunks<T> {
    /// Nothing yet, and room for `limit`, rounded up, or for [`MOST`].
    pub(crate) fn new(limit: usize) -> Self {
        let chunks = limit.min(MOST).div_ceil(CHUNK);
        Self((0..chunks).map(|_| OnceLock::new()).collect())
    }

    /// For how many there is room.
    pub(super) fn slots(&self) -> u32 {
        u32::try_from(self.0.len() * CHUNK).expect("at most as many as there are indices")
    }

    /// What is at this index, if that is made.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let index = index as usize;
        Some(&self.0.get(index / CHUNK)?.get()?[index % CHUNK])
    }

    /// The same; if it is not made, its chunk is made now. The index is below [`Self::slots`].
    pub(crate) fn get_or_make(&self, index: u32, make: impl Fn(u32) -> T) -> &T {
        let index = index as usize;
        let first = index - index % CHUNK;
        let chunk = self.0[index / CHUNK].get_or_init(|| {
            let numbers = (first..first + CHUNK).map(|number| u32::try_from(number).expect("an index"));
            let made: Box<[T]> = numbers.map(make).collect();
            made.try_into().unwrap_or_else(|_| unreachable!("there are as many as asked for"))
        });
        &chunk[index % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_as_many_as_asked_for_and_no_table_without_bounds() {
        for (limit, slots) in [(0, 0), (1, CHUNK), (CHUNK, CHUNK), (CHUNK + 1, 2 * CHUNK), (usize::MAX, MOST)]
        {
            let chunks = Chunks::new(limit);
            assert_eq!(chunks.slots() as usize, slots, "{limit}");
            if let Some(last) = chunks.slots().checked_sub(1) {
                assert_eq!(*chunks.get_or_make(last, |index| index), last);
                assert!(chunks.get(last + 1).is_none());
            }
        }
        assert!(size_of_val(&*Chunks::<u32>::new(usize::MAX).0) <= 4 << 20);
    }
}
