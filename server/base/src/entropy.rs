//! The source of all random numbers. No other module generates random numbers.

use std::ops::Range;
#[cfg(feature = "simulation")]
use std::sync::Arc;

use rand::RngExt;
#[cfg(feature = "simulation")]
use rand::SeedableRng;
#[cfg(feature = "simulation")]
use rand::rngs::StdRng;

#[cfg(feature = "simulation")]
use crate::locks::Mutex;

/// Random number generator: the system's, or a seeded one in a simulation. Clones share their state.
#[derive(Clone, Debug)]
pub struct Entropy {
    #[cfg(feature = "simulation")]
    seeded: Option<Arc<Mutex<StdRng>>>,
}

impl Entropy {
    /// Returns the system's generator. It is cryptographically secure, as required for session secrets.
    pub fn system() -> Self {
        Self {
            #[cfg(feature = "simulation")]
            seeded: None,
        }
    }

    /// Returns a deterministic generator with this seed.
    #[cfg(feature = "simulation")]
    pub fn seeded(seed: u64) -> Self {
        Self { seeded: Some(Arc::new(Mutex::new(StdRng::seed_from_u64(seed)))) }
    }

    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        #[cfg(feature = "simulation")]
        if let Some(seeded) = &self.seeded {
            return seeded.lock().random();
        }
        rand::rng().random()
    }

    /// Returns a uniformly distributed random number.
    pub fn number(&self) -> u32 {
        u32::from_ne_bytes(self.bytes())
    }

    /// Returns a uniformly distributed random number in `range`.
    pub fn number_in(&self, range: Range<u64>) -> u64 {
        #[cfg(feature = "simulation")]
        if let Some(seeded) = &self.seeded {
            return seeded.lock().random_range(range);
        }
        rand::rng().random_range(range)
    }
}

#[cfg(all(test, feature = "simulation"))]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let numbers = |seed| {
            let entropy = Entropy::seeded(seed);
            let clone = entropy.clone();
            (entropy.bytes::<16>(), clone.number(), entropy.number_in(0..1_000_000))
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }
}
