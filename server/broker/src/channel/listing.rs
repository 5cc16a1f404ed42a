//! Lists channels by name.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::channels::Channels;
use super::guard::ChannelGuard;
use super::name::ChannelName;
use super::state::Channel;
use super::subscribers::Subscriber;

impl<S: Subscriber> Channels<S> {
    /// Returns at most `limit` public channels whose names follow `cursor`, sorted by name.
    pub fn public_after(&self, cursor: Option<&str>, limit: usize) -> Vec<Arc<Channel<S>>> {
        // Skip direct-message channels (`$...`) without scanning them: all of their names are between these
        // two.
        let (direct, beyond) = ("$", "%");
        let from = cursor.map_or(Bound::Unbounded, Bound::Excluded);
        let later =
            if cursor.is_some_and(|cursor| cursor >= beyond) { from } else { Bound::Included(beyond) };
        let table = self.table.read();
        let before = table.channels.range::<str, _>((Bound::Unbounded, Bound::Excluded(direct)));
        let before = before.filter(|(name, _)| cursor.is_none_or(|cursor| name.as_str() > cursor));
        let after = table.channels.range::<str, _>((later, Bound::Unbounded));
        before.chain(after).map(|(_, channel)| Arc::clone(channel)).take(limit).collect()
    }

    /// Returns at most `limit` channels, public or not, whose names follow `cursor`, sorted by name.
    pub fn after(&self, cursor: Option<&str>, limit: usize) -> Vec<Arc<Channel<S>>> {
        let range = (cursor.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        self.table
            .read()
            .channels
            .range::<str, _>(range)
            .map(|(_, channel)| Arc::clone(channel))
            .take(limit)
            .collect()
    }

    /// Returns a guard for a direct-message channel, if it exists. While there are no such channels, `name`
    /// is not called and nothing is looked up.
    pub fn acquire_direct(self: &Arc<Self>, name: impl FnOnce() -> ChannelName) -> Option<ChannelGuard<S>> {
        if self.direct.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let channel = self.get(name().as_str())?;
        self.acquire_existing(channel).ok()
    }
}
