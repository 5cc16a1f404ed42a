//! Timers identified by the caller's own ids.

use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};

use crate::{BeyondHorizon, Expired, Expiry, Tick, TimerKey, TimerQueue, WorkBudget};

/// Wraps any [`TimerQueue`] so that timers are started and stopped by an id that the caller already has,
/// instead of by a key that it would have to store. Such ids are the RequestId of Varghese & Lauck's
/// START_TIMER, looked up in a hash table as in A. Costello's implementation for BSD (1995), and the timerId
/// of Timer Lawn. Requires the feature `std`.
///
/// An id identifies one timer at a time. The queue stores the id next to the value, so that an expiring timer
/// removes its id: there are always as many ids as timers.
///
/// ```
/// use encke_wheel::{Expiry, Keyed, Tick, TimingWheel, WorkBudget};
///
/// let mut timers = Keyed::new(TimingWheel::new(Tick(0)));
/// assert_eq!(timers.start("session 7", Tick(100), "ping"), Ok(None));
/// assert_eq!(timers.restart("session 7", Tick(200)), Ok(true));
/// assert_eq!(timers.start("session 7", Tick(300), "expire"), Ok(Some("ping")), "replaced");
///
/// let Expiry::Due(expired) = timers.expire_next(Tick(300), &mut WorkBudget::new(10)) else { panic!("not due") };
/// assert_eq!(expired.value, ("session 7", "expire"));
/// assert_eq!(timers.stop("session 7"), None);
/// ```
pub struct Keyed<K, Q, S = RandomState> {
    queue: Q,
    /// Key of every timer in the queue.
    keys: HashMap<K, TimerKey, S>,
}

impl<K, Q> Keyed<K, Q> {
    /// Wraps `queue`, which must be empty.
    #[must_use]
    pub fn new(queue: Q) -> Self {
        Keyed { queue, keys: HashMap::new() }
    }
}

impl<K, Q, S> Keyed<K, Q, S> {
    /// Wraps `queue`, which must be empty, and hashes ids with `hasher`.
    #[must_use]
    pub fn with_hasher(queue: Q, hasher: S) -> Self {
        Keyed { queue, keys: HashMap::with_hasher(hasher) }
    }

    /// Returns the underlying queue.
    #[must_use]
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    /// Returns the number of running timers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns `true` if no timer is running.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

impl<K: Hash + Eq, Q, S: BuildHasher> Keyed<K, Q, S> {
    /// Starts a timer. If a timer with this id is already running, replaces it and returns the old value.
    ///
    /// # Errors
    ///
    /// Returns [`BeyondHorizon`] with the value under the same conditions as [`TimerQueue::schedule`]. A
    /// running timer with this id is not affected.
    ///
    /// # Panics
    ///
    /// Panics if the queue is full. There must be room for one more timer even if an existing one is
    /// replaced.
    pub fn start<V>(&mut self, id: K, deadline: Tick, value: V) -> Result<Option<V>, BeyondHorizon<V>>
    where
        K: Clone,
        Q: TimerQueue<(K, V)>,
    {
        let key = match self.queue.schedule(deadline, (id.clone(), value)) {
            Ok(key) => key,
            Err(BeyondHorizon { value: (_, value), last }) => return Err(BeyondHorizon { value, last }),
        };
        match self.keys.entry(id) {
            Entry::Occupied(mut running) => {
                let old = running.insert(key);
                let (_, value) = self.queue.cancel(old).expect("every id has a timer");
                Ok(Some(value))
            }
            Entry::Vacant(vacant) => {
                vacant.insert(key);
                Ok(None)
            }
        }
    }

    /// Changes the deadline of a timer. Returns `false` if no timer with this id is running.
    ///
    /// # Errors
    ///
    /// Returns [`BeyondHorizon`] under the same conditions as [`TimerQueue::reschedule`]. The timer keeps its
    /// deadline.
    pub fn restart<V, I>(&mut self, id: &I, deadline: Tick) -> Result<bool, BeyondHorizon<()>>
    where
        K: Borrow<I>,
        I: Hash + Eq + ?Sized,
        Q: TimerQueue<(K, V)>,
    {
        let Some(&key) = self.keys.get(id) else { return Ok(false) };
        self.queue.reschedule(key, deadline)
    }

    /// Stops a timer and returns its value, or `None` if no timer with this id is running.
    pub fn stop<V, I>(&mut self, id: &I) -> Option<V>
    where
        K: Borrow<I>,
        I: Hash + Eq + ?Sized,
        Q: TimerQueue<(K, V)>,
    {
        let key = self.keys.remove(id)?;
        let (_, value) = self.queue.cancel(key).expect("every id has a timer");
        Some(value)
    }

    /// Returns the deadline with which a timer was started.
    pub fn deadline<V, I>(&self, id: &I) -> Option<Tick>
    where
        K: Borrow<I>,
        I: Hash + Eq + ?Sized,
        Q: TimerQueue<(K, V)>,
    {
        self.queue.deadline(*self.keys.get(id)?)
    }

    /// Returns a reference to the value of a timer.
    pub fn get<V, I>(&self, id: &I) -> Option<&V>
    where
        K: Borrow<I>,
        I: Hash + Eq + ?Sized,
        Q: TimerQueue<(K, V)>,
    {
        self.queue.get(*self.keys.get(id)?).map(|(_, value)| value)
    }

    /// Works like [`TimerQueue::expire_next`]. The expired value is accompanied by its id, which can be
    /// reused immediately.
    pub fn expire_next<V>(&mut self, now: Tick, work: &mut WorkBudget) -> Expiry<(K, V)>
    where
        Q: TimerQueue<(K, V)>,
    {
        let outcome = self.queue.expire_next(now, work);
        if let Expiry::Due(Expired { value: (id, _), .. }) = &outcome {
            self.keys.remove(id).expect("every timer has an id");
        }
        outcome
    }

    /// See [`TimerQueue::next_wakeup`].
    pub fn next_wakeup<V>(&self, at_most: Tick) -> Option<Tick>
    where
        Q: TimerQueue<(K, V)>,
    {
        self.queue.next_wakeup(at_most)
    }
}

impl<K, Q: fmt::Debug, S> fmt::Debug for Keyed<K, Q, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed").field("queue", &self.queue).finish_non_exhaustive()
    }
}
