use super::random::Random;

/// Maximum number of ticks that random deadlines are ahead.
pub const SPAN: u32 = 60_000;

/// First deadline of each timer, the deadline to which the timer is moved, and the order in which the timers
/// are visited.
#[derive(Debug)]
pub struct Deadlines {
    pub first: Vec<u32>,
    pub second: Vec<u32>,
    pub order: Vec<u32>,
}

impl Deadlines {
    pub fn random(timers: u32, seed: u64) -> Deadlines {
        let mut random = Random(seed);
        let mut deadlines = || (0..timers).map(|_| 1 + random.below(SPAN)).collect();
        Deadlines { first: deadlines(), second: deadlines(), order: random.permutation(timers) }
    }
}
