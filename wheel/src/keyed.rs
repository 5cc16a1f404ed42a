//! Timers under names of the caller's own.

use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};

use crate::{BeyondHorizon, Expire, Expired, Tick, TimerKey, TimerQueue, Work};

/// Any [`TimerQueue`] whose timers are started and stopped by an id that the caller has already, instead of a key that it
/// would have to keep: the RequestId of Varghese & Lauck's START_TIMER, found in a hash table as by A. Costello's
/// implementation for BSD (1995), and the timerId of Timer Lawn. Needs the feature `std`.
///
/// An id names one timer at a time. The queue carries the id beside the value, so that what expires can be forgotten:
/// there are always as many ids as timers.
///
/// ```
/// use encke_wheel::{Expire, Keyed, Tick, TimingWheel, Work};
///
/// let mut timers = Keyed::new(TimingWheel::new(Tick(0)));
/// assert_eq!(timers.start("session 7", Tick(100), "ping"), Ok(None));
/// assert_eq!(timers.restart("session 7", Tick(200)), Ok(true));
/// assert_eq!(timers.start("session 7", Tick(300), "expire"), Ok(Some("ping")), "in its place");
///
/// let Expire::Due(expired) = timers.expire_next(Tick(300), &mut Work::new(10)) else { panic!("it is due") };
/// assert_eq!(expired.value, ("session 7", "expire"));
/// assert_eq!(timers.stop("session 7"), None);
/// ```
pub struct Keyed<K, Q, S = RandomState> {
    queue: Q,
    /// The key of every timer in the queue.
    keys: HashMap<K, TimerKey, S>,
}

impl<K, Q> Keyed<K, Q> {
    /// Names for the timers of `queue`, which has none yet.
    #[must_use]
    pub fn new(queue: Q) -> Self {
        Keyed { queue, keys: HashMap::new() }
    }
}

impl<K, Q, S> Keyed<K, Q, S> {
    /// Like [`new`](Keyed::new), with ids hashed by `hasher`.
    #[must_use]
    pub fn with_hasher(queue: Q, hasher: S) -> Self {
        Keyed { queue, keys: HashMap::with_hasher(hasher) }
    }

    /// The queue below.
    #[must_use]
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    /// How many timers run.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no timer runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

impl<K: Hash + Eq, Q, S: BuildHasher> Keyed<K, Q, S> {
    /// Starts a timer. If one runs under this id, the new one takes its place, and the old value is returned.
    ///
    /// # Errors
    ///
    /// [`BeyondHorizon`], with the value, as from [`TimerQueue::schedule`]. A timer that runs under this id goes on.
    ///
    /// # Panics
    ///
    /// If the queue is full: there has to be room for one timer more, even if it takes the place of another.
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

    /// Gives a timer another deadline. Returns `false` if none runs under this id.
    ///
    /// # Errors
    ///
    /// [`BeyondHorizon`], as from [`TimerQueue::reschedule`]. The timer goes on as it was.
    pub fn restart<V, I>(&mut self, id: &I, deadline: Tick) -> Result<bool, BeyondHorizon<()>>
    where
        K: Borrow<I>,
        I: Hash + Eq + ?Sized,
        Q: TimerQueue<(K, V)>,
    {
        let Some(&key) = self.keys.get(id) else { return Ok(false) };
        self.queue.reschedule(key, deadline)
    }

    /// Stops a timer. Returns `None` if none runs under this id.
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

    /// When a timer is due, as it was started.
    pub fn deadline<V, I>(&self, id: &I) -> Option<Tick>
    where
        K: Borrow<I>,
        I: Hash + Eq + ?Sized,
        Q: TimerQueue<(K, V)>,
    {
        self.queue.deadline(*self.keys.get(id)?)
    }

    /// The value of a timer.
    pub fn get<V, I>(&self, id: &I) -> Option<&V>
    where
        K: Borrow<I>,
        I: Hash + Eq + ?Sized,
        Q: TimerQueue<(K, V)>,
    {
        self.queue.get(*self.keys.get(id)?).map(|(_, value)| value)
    }

    /// See [`TimerQueue::expire_next`]. What comes out has its id beside the value, and can be started anew at once.
    pub fn expire_next<V>(&mut self, now: Tick, work: &mut Work) -> Expire<(K, V)>
    where
        Q: TimerQueue<(K, V)>,
    {
        let outcome = self.queue.expire_next(now, work);
        if let Expire::Due(Expired { value: (id, _), .. }) = &outcome {
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
