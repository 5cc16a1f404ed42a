use std::time::Duration;

use crate::entropy::Entropy;

const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// How long to wait after a request that was not accepted: twice as long each time, up to a limit, and of that a random part from half on, so that those who
/// have failed together do not come back together.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { next: SHORTEST }
    }

    pub(crate) fn pause(&mut self, entropy: &Entropy) -> Duration {
        let most = self.next;
        self.next = (2 * most).min(LONGEST);
        let millis = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(entropy.number_in(millis / 2..millis + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_a_limit_and_is_at_least_half_of_that() {
        let (mut backoff, entropy) = (Backoff::new(), Entropy::system());
        for most_ms in [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            let pause = backoff.pause(&entropy).as_millis();
            assert!((most_ms / 2..=most_ms).contains(&pause), "{pause} of {most_ms}");
        }
    }
}
