use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// What a browser calls itself by, because it was told to.
pub(crate) type BrowserId = [u8; 16];

/// How many sessions of each browser have a request held. A browser opens a few connections to one server: pages that all poll leave
/// none for anything else.
#[derive(Debug)]
pub(crate) struct Browsers {
    most: usize,
    /// A session twice, whose request has taken the place of another that is just being answered.
    held: Mutex<HashMap<BrowserId, Vec<SessionKey>>>,
}

/// What tells sessions apart.
type SessionKey = u128;

/// A request of a browser that is held.
#[derive(Debug)]
pub(crate) struct BrowserPoll {
    browsers: Arc<Browsers>,
    browser: BrowserId,
    session: SessionKey,
}

impl Browsers {
    /// Each may have so many.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, held: Mutex::default() })
    }

    /// Whether it matters which browser a request comes from.
    pub(crate) fn is_limited(&self) -> bool {
        self.most < usize::MAX
    }

    /// Counts one more request; `None`, if other sessions of this browser have too many.
    pub(crate) fn hold(self: &Arc<Self>, browser: BrowserId, session: u128) -> Option<BrowserPoll> {
        let mut held = self.held.lock();
        let sessions = held.entry(browser).or_default();
        if sessions.len() >= self.most && !sessions.contains(&session) {
            return None;
        }
        sessions.push(session);
        Some(BrowserPoll { browsers: Arc::clone(self), browser, session })
    }
}

impl Drop for BrowserPoll {
    fn drop(&mut self) {
        let mut held = self.browsers.held.lock();
        if let Some(sessions) = held.get_mut(&self.browser) {
            if let Some(place) = sessions.iter().position(|session| *session == self.session) {
                sessions.swap_remove(place);
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
    fn each_browser_may_have_so_many() {
        let browsers = Browsers::new(2);
        let (one, other) = ([1; 16], [2; 16]);
        let first = browsers.hold(one, 1).expect("the first");
        let second = browsers.hold(one, 2).expect("the second");
        assert!(browsers.hold(one, 3).is_none());
        assert!(browsers.hold(one, 2).is_some(), "it has one already");
        assert!(browsers.hold(other, 3).is_some());
        drop(first);
        assert!(browsers.hold(one, 3).is_some());
        drop(second);
        assert!(browsers.held.lock().is_empty(), "nothing is kept of a browser that has none");
    }
}
