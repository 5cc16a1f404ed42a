use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// How long to leave an engine alone that has not done what it was asked: twice as long each time, up to a limit.
#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
}

impl Pauses {
    pub(crate) fn new() -> Self {
        Self { next: SHORTEST }
    }

    /// The next one.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = LONGEST.min(2 * pause);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_a_limit() {
        let mut pauses = Pauses::new();
        assert_eq!(
            [50, 100, 200, 400, 800, 1_000, 1_000].map(Duration::from_millis),
            [(); 7].map(|()| pauses.pause())
        );
    }
}
