use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// What a browser calls itself by, because it was told to.
pub(crate) type BrowserId = [u8; 16];

/// How many requests each browser has held. A browser opens a few connections to one server: pages that all poll leave none for
/// anything else.
#[derive(Debug)]
pub(crate) struct Browsers {
    most: usize,
    held: Mutex<HashMap<BrowserId, usize>>,
}

/// A request of a browser that is held.
#[derive(Debug)]
pub(crate) struct BrowserPoll {
    browsers: Arc<Browsers>,
    browser: BrowserId,
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

    /// Counts one more request; `None`, if this browser has too many.
    pub(crate) fn hold(self: &Arc<Self>, browser: BrowserId) -> Option<BrowserPoll> {
        let mut held = self.held.lock();
        let count = held.entry(browser).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(BrowserPoll { browsers: Arc::clone(self), browser })
    }
}

impl Drop for BrowserPoll {
    fn drop(&mut self) {
        let mut held = self.browsers.held.lock();
        if let Some(count) = held.get_mut(&self.browser) {
            *count -= 1;
            if *count == 0 {
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
        let first = browsers.hold(one).expect("the first");
        let second = browsers.hold(one).expect("the second");
        assert!(browsers.hold(one).is_none());
        assert!(browsers.hold(other).is_some());
        drop(first);
        assert!(browsers.hold(one).is_some());
        drop(second);
        assert!(browsers.held.lock().is_empty(), "nothing is kept of a browser that has none");
    }
}
