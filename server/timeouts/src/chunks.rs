use std::sync::OnceLock;

/// Number of elements allocated at a time: small enough that a sparsely used chunk wastes little, and large
/// enough that the table of chunks is small.
const CHUNK_LEN: usize = 512;

/// Upper bound on the capacity, regardless of the requested limit. The table of chunks is allocated up front,
/// and takes 4 MiB at this capacity. That many sessions would take about 50 GB.
const MAX_SLOTS: usize = 1 << 27;

/// A growing array whose elements never move. Reading an element takes two loads, even while other threads
/// grow the array. Sessions and their timers are in two arrays with the same capacity and the same indices.
#[derive(Debug)]
pub struct Chunks<T>(Box<[OnceLock<Box<[T; CHUNK_LEN]>>]>);

impl<T> Chunks<T> {
    /// Creates an empty array with a capacity of `limit`, rounded up to whole chunks and capped at
    /// 2^27.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let chunks = limit.min(MAX_SLOTS).div_ceil(CHUNK_LEN);
        Self((0..chunks).map(|_| OnceLock::new()).collect())
    }

    /// Number of elements that the array can hold.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        u32::try_from(self.0.len() * CHUNK_LEN).expect("MAX_SLOTS fits into u32")
    }

    /// Returns the element at this index, if its chunk is allocated.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        let index = index as usize;
        Some(&self.0.get(index / CHUNK_LEN)?.get()?[index % CHUNK_LEN])
    }

    /// Returns the element at this index, allocating its chunk if needed. The index must be less than
    /// [`Self::capacity`].
    pub fn get_or_init(&self, index: u32, make: impl Fn(u32) -> T) -> &T {
        let index = index as usize;
        let first = index - index % CHUNK_LEN;
        let chunk = self.0[index / CHUNK_LEN].get_or_init(|| {
            let numbers = (first..first + CHUNK_LEN)
                .map(|number| u32::try_from(number).expect("the capacity fits into u32"));
            let made: Box<[T]> = numbers.map(make).collect();
            made.try_into().unwrap_or_else(|_| unreachable!("the iterator yields CHUNK_LEN elements"))
        });
        &chunk[index % CHUNK_LEN]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_rounded_up_and_bounded() {
        for (limit, slots) in [
            (0, 0),
            (1, CHUNK_LEN),
            (CHUNK_LEN, CHUNK_LEN),
            (CHUNK_LEN + 1, 2 * CHUNK_LEN),
            (usize::MAX, MAX_SLOTS),
        ] {
            let chunks = Chunks::new(limit);
            assert_eq!(chunks.capacity() as usize, slots, "{limit}");
            if let Some(last) = chunks.capacity().checked_sub(1) {
                assert_eq!(*chunks.get_or_init(last, |index| index), last);
                assert!(chunks.get(last + 1).is_none());
            }
        }
        assert!(size_of_val(&*Chunks::<u32>::new(usize::MAX).0) <= 4 << 20);
    }
}
