use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashTable;
use parking_lot::Mutex;

use super::cell::{Cells, SessionCell, SessionHandle};
use super::id::SessionId;

const SHARDS: usize = 16;

/// Sessions looked up at a time.
const PAGE: usize = 1024;

/// The only table of sessions, by id. Each that is in it is held.
///
/// It knows where sessions are, no more: their ids are read there. So it takes some ten bytes for each. Ids are random, and are their own hashes.
/// Each shard is locked for one look-up.
#[derive(Debug)]
pub(crate) struct Registry {
    cells: Arc<Cells>,
    shards: [Mutex<HashTable<u32>>; SHARDS],
    len: AtomicUsize,
    limit: usize,
}

/// The limit of sessions is reached (`limits.max_sessions`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManySessions;

impl Registry {
    /// A table for at most `limit` sessions.
    #[must_use]
    pub(super) fn new(limit: usize, cells: Arc<Cells>) -> Self {
        Self { cells, shards: Default::default(), len: AtomicUsize::new(0), limit }
    }

    /// Adds a session, which the caller holds.
    ///
    /// # Errors
    /// [`TooManySessions`], and nothing changes.
    pub(super) fn insert(&self, session: &SessionCell) -> Result<(), TooManySessions> {
        if self.len.fetch_add(1, Ordering::Relaxed) >= self.limit {
            self.len.fetch_sub(1, Ordering::Relaxed);
            return Err(TooManySessions);
        }
        let id = session.id();
        let mut shard = self.shard(id).lock();
        debug_assert!(shard.find(hash(id), self.is(id)).is_none(), "128 random bits do not come twice");
        self.cells.keep(session);
        session.list(true);
        shard.insert_unique(hash(id), session.reference().index(), self.hash_of());
        Ok(())
    }

    /// The session with this id.
    #[must_use]
    pub(crate) fn get(&self, id: SessionId) -> Option<SessionHandle> {
        let shard = self.shard(id).lock();
        let index = shard.find(hash(id), self.is(id))?;
        Some(self.cells.hold(self.cells.kept(*index)))
    }

    /// Removes a session, which the caller holds. Harmless if it is not there.
    pub(super) fn remove(&self, session: &SessionCell) {
        let id = session.id();
        let mut shard = self.shard(id).lock();
        let Ok(entry) = shard.find_entry(hash(id), self.is(id)) else { return };
        entry.remove();
        session.list(false);
        if shard.len() < shard.capacity() / 4 {
            // A crowd that has left must not keep its memory.
            let twice = 2 * shard.len();
            shard.shrink_to(twice, self.hash_of());
        }
        self.len.fetch_sub(1, Ordering::Relaxed);
        drop(shard);
        self.cells.let_go(session);
    }

    /// How many there are.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// All sessions, some at a time. Nothing is locked in between.
    pub(crate) fn pages(&self) -> impl Iterator<Item = Vec<SessionHandle>> {
        let mut next = Some(0);
        std::iter::from_fn(move || {
            let (page, after) = self.page(next?, PAGE);
            next = after;
            Some(page)
        })
    }

    /// The sessions in the slots from `from` on, at most `limit` of them, and where the next page begins. A session stays in its slot, so each
    /// that is there all along is on one page.
    #[must_use]
    pub(crate) fn page(&self, from: u32, limit: usize) -> (Vec<SessionHandle>, Option<u32>) {
        let listed = self.cells.from(from).filter(|session| session.is_listed());
        let page: Vec<_> = listed.take(limit).map(|session| self.cells.hold(&session)).collect();
        let last = (page.len() == limit).then(|| page.last()).flatten();
        let next = last.map(|last| last.reference().index() + 1);
        (page, next)
    }

    fn shard(&self, id: SessionId) -> &Mutex<HashTable<u32>> {
        &self.shards[usize::from(id.first_byte() >> 4)]
    }

    fn is(&self, id: SessionId) -> impl Fn(&u32) -> bool {
        move |index| self.cells.kept(*index).id() == id
    }

    fn hash_of(&self) -> impl Fn(&u32) -> u64 {
        |index| hash(self.cells.kept(*index).id())
    }
}

/// Apart from the bits that choose the shard.
#[expect(clippy::cast_possible_truncation, reason = "half of it is enough")]
fn hash(id: SessionId) -> u64 {
    id.number() as u64
}
