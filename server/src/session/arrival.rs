use std::time::Duration;

/// When a request arrived, relative to others: the time at which the kernel received its first byte, in
/// nanoseconds since boot. A client that has given up on a request may have sent a newer one, which the server may
/// handle first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrival(u64);

impl Arrival {
    pub(crate) fn at(received: Duration) -> Self {
        Self(u64::try_from(received.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn precedes(self, later: Self) -> bool {
        self.0 < later.0
    }

    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}
