use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::cell::SessionCell;
use super::id::SessionId;

const SHARDS: usize = 16;

/// Sessions looked up at a time.
pub(super) const PAGE: usize = 1024;

/// The only table of sessions: by id and in the order of ids, so that a listing can be taken page by page.
///
/// Ids are random. A shard holds those with the same first four bits, so the shards are in order, too. Each is locked for
/// one look-up.
#[derive(Debug)]
pub(crate) struct Registry {
    shards: [Mutex<BTreeMap<SessionId, Arc<SessionCell>>>; SHARDS],
    len: AtomicUsize,
    limit: usize,
}

/// The limit of sessions is reached (`limits.max_sessions`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManySessions;

impl Registry {
    /// A table for at most `limit` sessions.
    #[must_use]
    pub(super) fn new(limit: usize) -> Self {
        Self { shards: Default::default(), len: AtomicUsize::new(0), limit }
    }

    /// Adds a session.
    ///
    /// # Errors
    /// [`TooManySessions`], and nothing changes.
    pub(super) fn insert(&self, session: Arc<SessionCell>) -> Result<(), TooManySessions> {
        if self.len.fetch_add(1, Ordering::Relaxed) >= self.limit {
            self.len.fetch_sub(1, Ordering::Relaxed);
            return Err(TooManySessions);
        }
        let before = self.shard(session.id()).lock().insert(session.id(), session);
        debug_assert!(before.is_none(), "128 random bits do not come twice");
        Ok(())
    }

    /// The session with this id.
    #[must_use]
    pub(crate) fn get(&self, id: SessionId) -> Option<Arc<SessionCell>> {
        self.shard(id).lock().get(&id).cloned()
    }

    /// Removes a session. Harmless if it is not there.
    pub(super) fn remove(&self, id: SessionId) {
        if self.shard(id).lock().remove(&id).is_some() {
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// How many there are.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// All sessions, some at a time, in the order of their ids. Nothing is locked in between.
    pub(crate) fn pages(&self) -> impl Iterator<Item = Vec<Arc<SessionCell>>> {
        let mut cursor = None;
        std::iter::from_fn(move || {
            let page = self.after(cursor, PAGE);
            cursor = Some(page.last()?.id());
            Some(page)
        })
    }

    /// The sessions after `cursor`, at most `limit` of them, in the order of their ids.
    #[must_use]
    pub(crate) fn after(&self, cursor: Option<SessionId>, limit: usize) -> Vec<Arc<SessionCell>> {
        let mut page = Vec::new();
        let first = cursor.map_or(0, shard_of);
        let range = (cursor.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        for shard in &self.shards[first..] {
            let shard = shard.lock();
            page.extend(shard.range(range).map(|(_, session)| Arc::clone(session)).take(limit - page.len()));
            if page.len() == limit {
                break;
            }
        }
        page
    }

    fn shard(&self, id: SessionId) -> &Mutex<BTreeMap<SessionId, Arc<SessionCell>>> {
        &self.shards[shard_of(id)]
    }
}

fn shard_of(id: SessionId) -> usize {
    usize::from(id.first_byte() >> 4)
}
