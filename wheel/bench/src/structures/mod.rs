//! The structures to be measured: the schemes of this crate, and the common alternatives from other crates.
//!
//! [`Structure`] is their common interface. [`schemes`] enumerates the schemes, for benchmarks that need the
//! trait [`TimerQueue`](encke_wheel::TimerQueue).

mod delay_queue;
mod hash_wheel;
pub mod reusable;
mod scheme;

pub(crate) use delay_queue::TokioDelayQueue;
pub(crate) use hash_wheel::HashWheel;
pub use scheme::{BenchScheme, SchemeStructure, SchemeVisitor, schemes};

/// A structure whose timers carry a number. Time starts at tick 0.
pub trait Structure: Sized {
    const NAME: &'static str;

    /// Sizes beyond which an operation takes too long, because its time is proportional to the number of
    /// timers.
    const LIMITS: Limits = Limits::NONE;

    type Key: Copy;

    /// Creates an empty structure at tick 0. No deadline will be more than `reach` ticks ahead.
    fn new(reach: u64) -> Self;

    fn schedule(&mut self, deadline: u64, value: u64) -> Self::Key;

    fn reschedule(&mut self, key: Self::Key, deadline: u64) -> bool;

    fn cancel(&mut self, key: Self::Key) -> bool;

    fn expire_next(&mut self, tick: u64) -> Option<ExpiredTimer>;

    /// Returns how many ticks late a timer may expire if it is scheduled `ahead` ticks ahead.
    fn precision(&self, _ahead: u64) -> u64 {
        0
    }
}

#[derive(Clone, Copy, Debug)]
pub struct ExpiredTimer {
    /// Deadline of the timer, or the tick at which it expired if the structure does not report deadlines.
    pub tick: u64,
    pub value: u64,
}

/// Maximum number of timers for which each kind of measurement is practical.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Limit for setting, moving and cancelling.
    pub change: u32,
    /// Limit for advancing time with random deadlines.
    pub expire: u32,
    /// Limit for advancing time with the few durations that sessions use.
    pub sessions: u32,
}

impl Limits {
    pub const NONE: Limits = Limits { change: u32::MAX, expire: u32::MAX, sessions: u32::MAX };
}

pub trait StructureVisitor {
    fn visit<S: Structure>(&mut self);
}

pub fn structures(visitor: &mut impl StructureVisitor) {
    struct Schemes<'a, V>(&'a mut V);
    impl<V: StructureVisitor> SchemeVisitor<u64> for Schemes<'_, V> {
        fn visit<Q: BenchScheme<u64>>(&mut self) {
            self.0.visit::<SchemeStructure<Q>>();
        }
    }
    schemes(&mut Schemes(visitor));
    visitor.visit::<TokioDelayQueue>();
    visitor.visit::<HashWheel>();
}
