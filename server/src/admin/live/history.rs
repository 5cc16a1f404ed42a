use std::collections::VecDeque;

use bytes::Bytes;

/// Number of samples in the history, which covers 15 minutes. Samples take about 2 KB each, 2 MB in total;
/// with every label in use and long numbers, at most 7 MB, plus 50 KB per webhook.
pub(super) const MAX_SAMPLES: usize = 900;

/// The latest samples, numbered in the order in which they were taken.
#[derive(Debug, Default)]
pub(super) struct History {
    samples: VecDeque<Bytes>,
    /// Number of the next sample, which is also the number of samples taken so far.
    pub(super) next: u64,
}

impl History {
    pub(super) fn push(&mut self, sample: Bytes) {
        if self.samples.len() == MAX_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        self.next += 1;
    }

    /// Returns the first available sample with this or a higher number, and its number.
    pub(super) fn first_from(&self, number: u64) -> Option<(u64, &Bytes)> {
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
        assert_eq!((history.next, history.first_from(0)), (0, None));
        let kept = MAX_SAMPLES as u64;
        for number in 0..3 * kept {
            history.push(sample(number));
            assert_eq!(history.next, number + 1);
            let oldest = (number + 1).saturating_sub(kept);
            for (asked, found) in [(0, oldest), (oldest, oldest), (number, number)] {
                assert_eq!(
                    history.first_from(asked),
                    Some((found, &sample(found))),
                    "{asked} after {number}"
                );
            }
            assert_eq!(history.first_from(number + 1), None);
            assert_eq!(history.first_from(u64::MAX), None);
        }
        assert_eq!(history.samples.len(), MAX_SAMPLES);
        assert!(history.samples.capacity() <= 2 * MAX_SAMPLES, "it does not grow");
    }
}
