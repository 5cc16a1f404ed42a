use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use encke_base::locks::{Mutex, level};
use hashbrown::HashTable;

use super::cell::{Cells, SessionCell, SessionHandle};
use crate::session::id::SessionId;

const SHARDS: usize = 16;

/// Number of sessions per page of [`Registry::pages`].
const PAGE: usize = 1024;

/// The table of all sessions, by id. It keeps its sessions alive.
///
/// An entry is only the index of the session's slot, from which the id is read: about ten bytes per session.
/// Ids are random and serve as their own hashes. A shard is locked for one lookup at a time.
#[derive(Debug)]
pub(crate) struct Registry {
    cells: Arc<Cells>,
    shards: [Mutex<HashTable<u32>, level::Table>; SHARDS],
    len: AtomicUsize,
    limit: usize,
}

/// The error when the limit on sessions is reached (`limits.max_sessions`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManySessions;

impl Registry {
    /// Creates a table for at most `limit` sessions.
    #[must_use]
    pub(crate) fn new(limit: usize, cells: Arc<Cells>) -> Self {
        Self { cells, shards: Default::default(), len: AtomicUsize::new(0), limit }
    }

    /// Adds a session. The caller has a handle to it.
    ///
    /// # Errors
    /// Returns [`TooManySessions`] if the limit is reached. Nothing changes in that case.
    pub(crate) fn insert(&self, session: &SessionCell) -> Result<(), TooManySessions> {
        if self.len.fetch_add(1, Ordering::Relaxed) >= self.limit {
            self.len.fetch_sub(1, Ordering::Relaxed);
            return Err(TooManySessions);
        }
        let id = session.id();
        let mut shard = self.shard(id).lock();
        debug_assert!(shard.find(hash(id), self.is(id)).is_none(), "random ids are unique");
        self.cells.retain(session);
        session.set_listed(true);
        shard.insert_unique(hash(id), session.reference().slot(), self.hash_of());
        Ok(())
    }

    /// Returns the session with this id.
    #[must_use]
    pub(crate) fn get(&self, id: SessionId) -> Option<SessionHandle> {
        let shard = self.shard(id).lock();
        let index = shard.find(hash(id), self.is(id))?;
        Some(self.cells.guard(self.cells.retained(*index)))
    }

    /// Removes a session. The caller has a handle to it. Has no effect if the session is not in the table.
    pub(crate) fn remove(&self, session: &SessionCell) {
        let id = session.id();
        let mut shard = self.shard(id).lock();
        let Ok(entry) = shard.find_entry(hash(id), self.is(id)) else { return };
        entry.remove();
        session.set_listed(false);
        if shard.len() < shard.capacity() / 4 {
            // Release memory when the number of sessions has dropped sharply.
            let twice = 2 * shard.len();
            shard.shrink_to(twice, self.hash_of());
        }
        self.len.fetch_sub(1, Ordering::Relaxed);
        drop(shard);
        self.cells.release(session);
    }

    /// Number of sessions.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Iterates over all sessions, in pages. No lock is held between pages.
    pub(crate) fn pages(&self) -> impl Iterator<Item = Vec<SessionHandle>> {
        let mut next = Some(0);
        std::iter::from_fn(move || {
            let (page, after) = self.page(next?, PAGE);
            next = after;
            Some(page)
        })
    }

    /// Returns the first `limit` sessions in slot `from` and above, and the slot at which the next page
    /// begins. A session never changes its slot, so a session that exists throughout is on exactly one page.
    #[must_use]
    pub(crate) fn page(&self, from: u32, limit: usize) -> (Vec<SessionHandle>, Option<u32>) {
        let listed = self.cells.iter_from(from).filter(|session| session.is_listed());
        let page: Vec<_> = listed.take(limit).map(|session| self.cells.guard(&session)).collect();
        let last = (page.len() == limit).then(|| page.last()).flatten();
        let next = last.map(|last| last.reference().slot() + 1);
        (page, next)
    }

    fn shard(&self, id: SessionId) -> &Mutex<HashTable<u32>, level::Table> {
        &self.shards[usize::from(id.first_byte() >> 4)]
    }

    fn is(&self, id: SessionId) -> impl Fn(&u32) -> bool {
        move |index| self.cells.retained(*index).id() == id
    }

    fn hash_of(&self) -> impl Fn(&u32) -> u64 {
        |index| hash(self.cells.retained(*index).id())
    }
}

/// Hash of an id, independent of the bits that select the shard.
#[expect(clippy::cast_possible_truncation, reason = "half of it is enough")]
fn hash(id: SessionId) -> u64 {
    id.number() as u64
}
