//! Which channels there are.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::channels::Channels;
use super::hold::Hold;
use super::name::ChannelName;
use super::state::Channel;
use super::subscribers::Subscriber;

impl<S: Subscriber> Channels<S> {
    /// The channels after `cursor` that anyone may know of, at most `limit` of them, in the order of their names.
    pub(crate) fn public_after(&self, cursor: Option<&str>, limit: usize) -> Vec<Arc<Channel<S>>> {
        // Nobody is to wait while those are counted that the server speaks on: they are all between these two.
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

    /// All channels after `cursor`, at most `limit` of them, in the order of their names.
    pub(crate) fn after(&self, cursor: Option<&str>, limit: usize) -> Vec<Arc<Channel<S>>> {
        let range = (cursor.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        self.table
            .read()
            .channels
            .range::<str, _>(range)
            .map(|(_, channel)| Arc::clone(channel))
            .take(limit)
            .collect()
    }

    /// The channel of this name, if it is there and has what the server says, kept from leaving the table. While nothing has, no name is made, and nothing is looked up.
    pub(crate) fn hold_direct(self: &Arc<Self>, name: impl FnOnce() -> ChannelName) -> Option<Hold<S>> {
        if self.direct.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let channel = self.get(name().as_str())?;
        self.hold_open(channel).ok()
    }
}
