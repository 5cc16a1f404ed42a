use std::collections::HashMap;
use std::sync::Arc;

use encke_base::locks::Mutex;

/// Id that the server has assigned to a browser.
pub(crate) type BrowserId = [u8; 16];

/// Limits how many sessions of a browser may have a poll held. A browser opens only a few connections to a
/// server: if all its pages poll, no connection is left for other requests.
#[derive(Debug)]
pub(crate) struct Browsers {
    limit: usize,
    /// Sessions with held polls. A session appears twice while a new poll replaces one that is being
    /// answered.
    held_polls: Mutex<HashMap<BrowserId, Vec<SessionKey>>>,
}

type SessionKey = u128;

/// A held poll of a browser, counted until dropped.
#[derive(Debug)]
pub(crate) struct BrowserPoll {
    browsers: Arc<Browsers>,
    browser: BrowserId,
    session: SessionKey,
}

impl Browsers {
    /// Allows `most` sessions per browser to have a poll held.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { limit: most, held_polls: Mutex::default() })
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.limit < usize::MAX
    }

    /// Counts another poll. Returns `None` if too many other sessions of this browser have polls held.
    pub(crate) fn try_acquire(self: &Arc<Self>, browser: BrowserId, session: u128) -> Option<BrowserPoll> {
        let mut held = self.held_polls.lock();
        let sessions = held.entry(browser).or_default();
        if sessions.len() >= self.limit && !sessions.contains(&session) {
            return None;
        }
        sessions.push(session);
        Some(BrowserPoll { browsers: Arc::clone(self), browser, session })
    }
}

impl Drop for BrowserPoll {
    fn drop(&mut self) {
        let mut held = self.browsers.held_polls.lock();
        if let Some(sessions) = held.get_mut(&self.browser) {
            if let Some(index) = sessions.iter().position(|session| *session == self.session) {
                sessions.swap_remove(index);
            }
            if sessions.is_empty() {
                held.remove(&self.browser);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_polls_are_limited_per_browser() {
        let browsers = Browsers::new(2);
        let (one, other) = ([1; 16], [2; 16]);
        let first = browsers.try_acquire(one, 1).expect("the first");
        let second = browsers.try_acquire(one, 2).expect("the second");
        assert!(browsers.try_acquire(one, 3).is_none());
        assert!(browsers.try_acquire(one, 2).is_some(), "it already has a poll held");
        assert!(browsers.try_acquire(other, 3).is_some());
        drop(first);
        assert!(browsers.try_acquire(one, 3).is_some());
        drop(second);
        assert!(browsers.held_polls.lock().is_empty(), "browsers without polls are removed");
    }
}
