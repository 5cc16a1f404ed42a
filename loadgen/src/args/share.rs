//! The share of a load that one thread or one process generates.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use super::load::Load;

pub(crate) const MAX_SHARES: u32 = 64;

/// Share `index` of `count`: every `count`-th connection, starting with number `index`, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) index: u32,
    pub(crate) count: u32,
}

impl Share {
    pub(crate) fn all(count: u32) -> Vec<Self> {
        (0..count).map(|index| Self { index, count }).collect()
    }

    /// Returns this share of a load. Connection i is due at the same time as in the whole, and all shares end
    /// together.
    pub(crate) fn of(self, whole: &Load) -> Load {
        let Self { index, count } = self;
        let connections = (whole.connections.saturating_sub(index)).div_ceil(count);
        let due = |number: u32| f64::from(number) / whole.rate.max(f64::MIN_POSITIVE);
        let last_of_all = due(whole.connections.saturating_sub(1));
        let last_of_share = due(index + connections.saturating_sub(1) * count);
        let rest = Duration::from_secs_f64((last_of_all - last_of_share).max(0.0));
        if count == 1 {
            return whole.clone();
        }
        Load {
            connections,
            rate: whole.rate / f64::from(count),
            first_due: whole.first_due + Duration::from_secs_f64(due(index)),
            duration: whole.duration + rest,
            ..whole.clone()
        }
    }

    /// Returns the range of the source addresses, numbered from 0, that only this share uses. `of` are the
    /// addresses of the whole.
    pub(crate) fn addresses(self, of: Range<u8>) -> Range<u8> {
        let length = u32::from(of.end - of.start);
        let bound = |index: u32| of.start + u8::try_from(index * length / self.count).unwrap_or(u8::MAX);
        bound(self.index)..bound(self.index + 1)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers =
            text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) if index < count && count <= MAX_SHARES => Ok(Self { index, count }),
            _ => Err(format!("must be INDEX/COUNT with at most {MAX_SHARES} parts, like 0/4")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::tests::scenario;

    #[test]
    fn shares_are_the_whole() {
        let options = scenario("hold ws://h/ws --connections 10 --rate 5 --duration 2s");
        let whole = options.expect("the arguments are valid").load();
        for count in [1, 3, 4] {
            let shares: Vec<_> = Share::all(count).iter().map(|share| share.of(&whole)).collect();
            assert_eq!(shares.iter().map(|share| share.connections).sum::<u32>(), 10);
            for (share, index) in shares.iter().zip(0..) {
                let due = |number: u32| share.first_due.as_secs_f64() + f64::from(number) / share.rate;
                assert!((due(1) - f64::from(index + count) / 5.0).abs() < 1e-6, "{share:?}");
                let end = due(share.connections - 1) + share.duration.as_secs_f64();
                assert!((end - (9.0 / 5.0 + 2.0)).abs() < 1e-6, "all shares end together: {share:?}");
            }
            let addresses: Vec<_> =
                Share::all(count).iter().flat_map(|share| share.addresses(10..250)).collect();
            assert_eq!(addresses, (10..250).collect::<Vec<_>>());
        }
    }
}
