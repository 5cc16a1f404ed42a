//! The server's locks. [`level`] defines the order in which a thread may take them.
//!
//! A thread that holds a lock may only take locks of inner levels. Builds with debug assertions check this
//! for every lock taken, whether or not another thread is waiting, and panic otherwise. In other builds, the
//! types are parking_lot's with an empty marker.

#![expect(clippy::disallowed_types, reason = "these are the types to use instead")]

mod held;
pub mod level;

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use held::Held;
use level::{Leaf, Level, LockLevel};

/// A mutex with a level.
#[derive(Debug)]
pub struct Mutex<T, L = Leaf> {
    lock: parking_lot::Mutex<T>,
    level: PhantomData<L>,
}

/// A read-write lock with a level.
#[derive(Debug)]
pub struct RwLock<T, L = Leaf> {
    lock: parking_lot::RwLock<T>,
    level: PhantomData<L>,
}

/// A guard of parking_lot's, and the record that this thread holds the lock.
#[derive(Debug)]
#[must_use = "the lock is released when its guard is dropped"]
pub struct Guard<G> {
    guard: G,
    held: Held,
}

pub type MutexGuard<'a, T> = Guard<parking_lot::MutexGuard<'a, T>>;
pub type MappedMutexGuard<'a, T> = Guard<parking_lot::MappedMutexGuard<'a, T>>;
type ReadGuard<'a, T> = Guard<parking_lot::RwLockReadGuard<'a, T>>;
type WriteGuard<'a, T> = Guard<parking_lot::RwLockWriteGuard<'a, T>>;

impl<T, L: LockLevel> Mutex<T, L> {
    pub const fn new(value: T) -> Self {
        Self { lock: parking_lot::Mutex::new(value), level: PhantomData }
    }

    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = Held::new(L::LEVEL, Level::lt);
        Guard { guard: self.lock.lock(), held }
    }

    /// Locks the mutex, although the thread may hold others of the same level. All threads must take these in
    /// the same order, which is not checked.
    #[inline]
    #[track_caller]
    pub fn lock_another(&self) -> MutexGuard<'_, T> {
        let held = Held::new(L::LEVEL, Level::le);
        Guard { guard: self.lock.lock(), held }
    }

    #[cfg(feature = "otlp")]
    pub fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut()
    }
}

impl<T, L: LockLevel> RwLock<T, L> {
    pub const fn new(value: T) -> Self {
        Self { lock: parking_lot::RwLock::new(value), level: PhantomData }
    }

    #[inline]
    #[track_caller]
    pub fn read(&self) -> ReadGuard<'_, T> {
        let held = Held::new(L::LEVEL, Level::lt);
        Guard { guard: self.lock.read(), held }
    }

    #[inline]
    #[track_caller]
    pub fn write(&self) -> WriteGuard<'_, T> {
        let held = Held::new(L::LEVEL, Level::lt);
        Guard { guard: self.lock.write(), held }
    }
}

impl<T: Default, L: LockLevel> Default for Mutex<T, L> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: Default, L: LockLevel> Default for RwLock<T, L> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<'a, T> MutexGuard<'a, T> {
    /// Narrows the guard to a part of the data.
    #[inline]
    pub fn map<U>(self, part: impl FnOnce(&mut T) -> &mut U) -> MappedMutexGuard<'a, U> {
        Guard { guard: parking_lot::MutexGuard::map(self.guard, part), held: self.held }
    }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Returns the panic message of `take`.
    fn refused<G>(take: impl FnOnce() -> G) -> String {
        let payload = catch_unwind(AssertUnwindSafe(take)).err().expect("a panic");
        *payload.downcast::<String>().expect("a formatted message")
    }

    #[test]
    fn wrong_order_panics_with_both_levels() {
        let table = RwLock::<(), level::Table>::default();
        let [one, two] = [(); 2].map(|()| Mutex::<(), level::Session>::default());
        let leaf = <Mutex<()>>::default();

        let outer = table.read();
        let inner = one.lock();
        drop(outer);
        let message = refused(|| table.write());
        assert!(
            message.starts_with("takes Table while holding Session, taken at server/base/src/locks"),
            "{message}"
        );
        let message = refused(|| two.lock());
        assert!(message.starts_with("takes Session while holding Session"), "{message}");
        drop((two.lock_another(), leaf.lock()));

        let innermost = leaf.lock();
        drop(inner);
        let message = refused(|| one.lock_another());
        assert!(message.starts_with("takes Session while holding Leaf"), "{message}");
        drop(innermost);
        drop(table.write());
    }
}
