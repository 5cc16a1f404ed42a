use std::time::Duration;

use crate::entropy::Entropy;

const MIN_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Exponential backoff with jitter for failed requests. The upper bound doubles each time, up to a limit; a
/// pause is a random value between half the bound and the bound. This spreads the retries of clients that
/// failed together.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
}

impl Backoff {
    pub fn new() -> Self {
        Self { next: MIN_PAUSE }
    }

    pub fn pause(&mut self, entropy: &Entropy) -> Duration {
        let bound = self.next;
        self.next = (2 * bound).min(MAX_PAUSE);
        let millis = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(entropy.number_in(millis / 2..millis + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_doubles_up_to_a_limit_and_is_at_least_half_of_its_bound() {
        let (mut backoff, entropy) = (Backoff::new(), Entropy::system());
        for most_ms in [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            let pause = backoff.pause(&entropy).as_millis();
            assert!((most_ms / 2..=most_ms).contains(&pause), "{pause} of {most_ms}");
        }
    }
}
