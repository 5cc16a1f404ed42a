//! Everything that can be measured: the schemes of this crate, and the crates that people would use instead.
//!
//! [`Structure`] is what they all can do, and [`schemes`] names the schemes for those benchmarks that need
//! [`TimerQueue`](encke_wheel::TimerQueue) itself.

mod delay_queue;
mod hash_wheel;
mod scheme;
pub(crate) mod standing;

pub(crate) use delay_queue::TokioDelayQueue;
pub(crate) use hash_wheel::HashWheel;
pub(crate) use scheme::{Own, Scheme, SchemeVisitor, schemes};

/// Timers that carry a number, from tick 0 on.
pub(crate) trait Structure: Sized {
    const NAME: &'static str;

    /// How many timers are too many, because one operation takes time in proportion to them.
    const LIMITS: Limits = Limits::NONE;

    type Key: Copy;

    /// Empty, at tick 0. No deadline will be further ahead than `reach`.
    fn new(reach: u64) -> Self;

    fn schedule(&mut self, deadline: u64, value: u64) -> Self::Key;

    fn reschedule(&mut self, key: Self::Key, deadline: u64) -> bool;

    fn cancel(&mut self, key: Self::Key) -> bool;

    /// Drives time towards `tick`: the first timer that comes out on the way.
    fn expire_next(&mut self, tick: u64) -> Option<Due>;

    /// How many ticks late a timer that far ahead may come out.
    fn precision(&self, _ahead: u64) -> u64 {
        0
    }
}

/// A timer that came out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    /// Its deadline, or where the structure does not tell, the tick at which it came out.
    pub(crate) tick: u64,
    pub(crate) value: u64,
}

/// With how many timers a benchmark still makes sense.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// To set, move and cancel.
    pub(crate) change: u32,
    /// To drive through time, with deadlines at random.
    pub(crate) expire: u32,
    /// To drive through time, with the few lengths of time that sessions have.
    pub(crate) sessions: u32,
}

impl Limits {
    pub(crate) const NONE: Limits = Limits { change: u32::MAX, expire: u32::MAX, sessions: u32::MAX };
}

/// Does something with the type of each structure.
pub(crate) trait Visitor {
    fn visit<S: Structure>(&mut self);
}

/// All structures, ours first.
pub(crate) fn structures(visitor: &mut impl Visitor) {
    struct Schemes<'a, V>(&'a mut V);
    impl<V: Visitor> SchemeVisitor<u64> for Schemes<'_, V> {
        fn visit<Q: Scheme<u64>>(&mut self) {
            self.0.visit::<Own<Q>>();
        }
    }
    schemes(&mut Schemes(visitor));
    visitor.visit::<TokioDelayQueue>();
    visitor.visit::<HashWheel>();
}
