use std::sync::atomic::{AtomicU32, Ordering};

/// Number of a request in the order of arrival. A client that has given up on a request may have sent a newer
/// one, which the server may handle first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrival(u32);

/// Assigns arrival numbers.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(AtomicU32);

/// How many requests earlier a request can have arrived that is handled late. Numbers wrap around: one
/// that is further behind belongs to a newer request.
const MAX_OVERTAKEN: u32 = 1 << 16;

impl Arrivals {
    pub(crate) fn next(&self) -> Arrival {
        Arrival(self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }
}

impl Arrival {
    pub(crate) fn precedes(self, later: Self) -> bool {
        (1..=MAX_OVERTAKEN).contains(&later.0.wrapping_sub(self.0))
    }

    pub(crate) fn to_bits(self) -> u32 {
        self.0
    }

    pub(crate) fn from_bits(number: u32) -> Self {
        Self(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_ordered_across_the_wrap() {
        let arrivals = Arrivals(AtomicU32::new(u32::MAX - 1));
        let [first, second, third] = [(); 3].map(|()| arrivals.next());
        assert!(first.precedes(second) && first.precedes(third) && second.precedes(third));
        assert!(!second.precedes(first) && !third.precedes(first) && !first.precedes(first));
        assert!(!Arrival(1).precedes(Arrival(1 << 31)), "billions of requests have arrived in the meantime");
    }
}
