use std::collections::VecDeque;

use bytes::Bytes;

/// Samples that are kept: a quarter of an hour. Of some 2 KB each they take 2 MB; with all labels in use, and long numbers, 7 MB at most, and 50 KB
/// more for each webhook.
pub(super) const KEPT: usize = 900;

/// The last samples, each with its number, in the order in which they were taken.
#[derive(Debug, Default)]
pub(super) struct History {
    samples: VecDeque<Bytes>,
    /// The number that the next sample will have: so many were there.
    next: u64,
}

impl History {
    pub(super) fn push(&mut self, sample: Bytes) {
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        self.next += 1;
    }

    /// The number that the next sample will have.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The first sample that is still there, and of this number or a later one; and its number.
    pub(super) fn from(&self, number: u64) -> Option<(u64, &Bytes)> {
        let oldest = self.next - self.samples.len() as u64;
        let number = number.max(oldest);
        let index = usize::try_from(number - oldest).ok()?;
        self.samples.get(index).map(|sample| (number, sample))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(number: u64) -> Bytes {
        Bytes::from(number.to_string())
    }

    #[test]
    fn samples_are_found_by_their_numbers_until_newer_ones_take_their_place() {
        let mut history = History::default();
        assert_eq!((history.next(), history.from(0)), (0, None));
        let kept = KEPT as u64;
        for number in 0..3 * kept {
            history.push(sample(number));
            assert_eq!(history.next(), number + 1);
            let oldest = (number + 1).saturating_sub(kept);
            for (asked, found) in [(0, oldest), (oldest, oldest), (number, number)] {
                assert_eq!(history.from(asked), Some((found, &sample(found))), "{asked} after {number}");
            }
            assert_eq!(history.from(number + 1), None);
            assert_eq!(history.from(u64::MAX), None);
        }
        assert_eq!(history.samples.len(), KEPT);
        assert!(history.samples.capacity() <= 2 * KEPT, "it does not grow");
    }
}
