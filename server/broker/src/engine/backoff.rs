use std::time::Duration;

const MIN_DELAY: Duration = Duration::from_millis(50);
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Delays between retries of an engine request. Each delay is twice as long as the previous one, up to a
/// limit.
#[derive(Debug)]
pub struct RetryBackoff {
    next: Duration,
}

impl RetryBackoff {
    pub fn new() -> Self {
        Self { next: MIN_DELAY }
    }

    pub fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = MAX_DELAY.min(2 * delay);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_up_to_a_limit() {
        let mut backoff = RetryBackoff::new();
        assert_eq!(
            [50, 100, 200, 400, 800, 1_000, 1_000].map(Duration::from_millis),
            [(); 7].map(|()| backoff.next_delay())
        );
    }
}
