use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// When a request arrived, relative to others. A client that has given up on a request may have sent a newer
/// one, which the server may handle first.
///
/// The upper 40 bits are the time at which the kernel received the request, in milliseconds since boot. The
/// lower 24 bits are a sequence number, which decides between requests of about the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrival(u64);

/// Numbers requests in the order in which the server notices them.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(AtomicU32);

const NUMBER_BITS: u32 = 24;

/// Times that differ by at most this count as the same. The kernel records times in ticks of at most 10 ms, and
/// a time may be wrong by one tick.
const TOLERANCE_MS: u64 = 11;

impl Arrivals {
    /// Returns the arrival of a request that the kernel received at this time. All calls must use the same
    /// monotonic clock.
    pub(crate) fn next(&self, received: Duration) -> Arrival {
        let number = self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        #[expect(clippy::cast_possible_truncation, reason = "40 bits last for 34 years")]
        let millis = received.as_millis() as u64;
        Arrival((millis << NUMBER_BITS) | (u64::from(number) % (1 << NUMBER_BITS)))
    }
}

impl Arrival {
    pub(crate) fn precedes(self, later: Self) -> bool {
        let [time, time_of_later] = [self, later].map(|arrival| arrival.0 >> NUMBER_BITS);
        if time.abs_diff(time_of_later) > TOLERANCE_MS {
            return time < time_of_later;
        }
        // Numbers wrap around, so only their distance counts.
        (later.0.wrapping_sub(self.0) << (u64::BITS - NUMBER_BITS)).cast_signed() > 0
    }

    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_ordered_by_time_then_by_number() {
        let arrivals = Arrivals(AtomicU32::new(u32::MAX - 1));
        let noticed = |millis| arrivals.next(Duration::from_millis(millis));
        // The requests are noticed in this order. Between the first two, the sequence number wraps around.
        for (times, is_in_order) in [
            ([1_000, 1_000], true),
            ([1_000, 1_010], true),
            ([1_000, 990], true),
            ([1_000, 9_000], true),
            ([1_000, 988], false),
            ([1 << 39, 0], false),
        ] {
            let [first, second] = times.map(noticed);
            assert_eq!(
                (first.precedes(second), second.precedes(first)),
                (is_in_order, !is_in_order),
                "{times:?}"
            );
            assert!(!first.precedes(first));
        }
    }
}
