//! Record of the messages that one subscriber received.

use std::ops::Range;

/// How a message arrived at one subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scenario) enum Arrival {
    InOrder,
    /// Arrived for the first time, but after a later one.
    Misordered,
    Duplicated,
}

/// The messages that have arrived: everything below `next`, except the messages in `missing`, which is
/// usually empty.
#[derive(Debug, Default)]
pub(in crate::scenario) struct Ledger {
    next: u32,
    missing: Vec<Range<u32>>,
}

impl Ledger {
    pub(in crate::scenario) fn take(&mut self, number: u32) -> Arrival {
        if number >= self.next {
            if number > self.next {
                self.missing.push(self.next..number);
            }
            self.next = number + 1;
            return Arrival::InOrder;
        }
        let Some(index) = self.missing.iter().position(|range| range.contains(&number)) else {
            return Arrival::Duplicated;
        };
        let Range { start, end } = self.missing.swap_remove(index);
        let around = [start..number, number + 1..end];
        self.missing.extend(around.into_iter().filter(|range| !range.is_empty()));
        Arrival::Misordered
    }
}

#[cfg(test)]
mod tests {
    use Arrival::{Duplicated, InOrder, Misordered};
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Compares the ledger with a plain list of everything that has arrived.
    #[test]
    fn agrees_with_a_list_of_all_arrivals() {
        let mut rng = SmallRng::seed_from_u64(1);
        let (mut ledger, mut had) = (Ledger::default(), Vec::<u32>::new());
        for _ in 0..2000 {
            let number = rng.random_range(0..300);
            let expected = match had.iter().max() {
                _ if had.contains(&number) => Duplicated,
                Some(highest) if *highest > number => Misordered,
                _ => InOrder,
            };
            assert_eq!(ledger.take(number), expected, "{number} after {had:?}");
            had.push(number);
        }
    }
}
