//! State that few sessions have. It is kept in a box, so that the other sessions pay only for a pointer.

use encke_base::quota::QuotaOwner;
use encke_broker::channel::ChannelName;
use encke_core::session::outbox::SubscriptionSlot;

use super::cell::SessionState;
use super::shared_state::SharedState;
use crate::session::arrival::Arrival;
use crate::session::channels::SubscribedChannel;

/// State that few sessions have.
#[derive(Debug, Default)]
pub(crate) struct RareState {
    eviction_position: Option<EvictionPosition>,
    /// Subscriptions to channels that the backend named instead of the requested ones, oldest first. A boxed slice,
    /// because it is smaller than a vector and rarely changes.
    renames: Box<[Rename]>,
    /// When the upgrade request of the latest connection arrived, if it is a Bayeux WebSocket.
    upgraded: Option<Arrival>,
    /// Record in the directory. `None` if sessions are not shared with other servers.
    shared: Option<Box<SharedState>>,
}

/// Position of a suspended session in the order of eviction.
#[derive(Debug)]
pub(crate) struct EvictionPosition {
    pub(crate) owner: QuotaOwner,
    pub(crate) number: u64,
}

/// A channel that was requested, and the channel that the session is subscribed to, which may be another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rename {
    pub(crate) requested: ChannelName,
    pub(crate) actual: ChannelName,
}

impl Rename {
    /// Describes a subscription to the requested channel itself.
    pub(crate) fn none(name: ChannelName) -> Self {
        Self { requested: name.clone(), actual: name }
    }
}

impl SessionState {
    /// Returns the position of a suspended session in the order of eviction.
    pub(crate) fn eviction_position(&self) -> Option<&EvictionPosition> {
        self.rare.as_ref()?.eviction_position.as_ref()
    }

    /// Replaces the position in the order of eviction. Returns the previous one.
    pub(crate) fn replace_eviction_position(
        &mut self,
        position: Option<EvictionPosition>,
    ) -> Option<EvictionPosition> {
        if position.is_none() && self.rare.is_none() {
            return None;
        }
        self.change_rare(|rare| std::mem::replace(&mut rare.eviction_position, position))
    }

    /// Returns the subscription to a channel that is named either by its own name or by the name that was requested
    /// before the backend replaced it.
    pub(crate) fn find_by_either_name(&self, name: &str) -> Option<(SubscriptionSlot, &SubscribedChannel)> {
        self.find(name).or_else(|| {
            let rename = self.renames().iter().find(|rename| rename.requested.as_str() == name)?;
            self.find(rename.actual.as_str())
        })
    }

    /// Returns the renames of the session's subscriptions.
    pub(crate) fn renames(&self) -> &[Rename] {
        self.rare.as_ref().map_or(&[], |rare| &rare.renames)
    }

    /// Records that the backend replaced a requested channel, if the session is subscribed to the actual one. At most
    /// `limit` renames are kept; the oldest are forgotten first.
    pub(crate) fn add_rename(&mut self, rename: Rename, limit: usize) {
        if self.find(rename.actual.as_str()).is_none() {
            return;
        }
        self.change_rare(|rare| {
            let mut renames = std::mem::take(&mut rare.renames).into_vec();
            renames.retain(|known| known.requested != rename.requested);
            renames.push(rename);
            renames.drain(..renames.len().saturating_sub(limit));
            rare.renames = renames.into();
        });
    }

    /// Forgets the renames of a subscription that has ended.
    pub(crate) fn forget_renames(&mut self, actual: &ChannelName) {
        if self.renames().iter().any(|rename| rename.actual == *actual) {
            self.change_rare(|rare| {
                let renames = std::mem::take(&mut rare.renames).into_iter();
                rare.renames = renames.filter(|rename| rename.actual != *actual).collect();
            });
        }
    }

    /// Returns when the upgrade request of the latest connection arrived, if it is a Bayeux WebSocket.
    pub(crate) fn upgraded(&self) -> Option<Arrival> {
        self.rare.as_ref()?.upgraded
    }

    /// Records the arrival of the latest connection's upgrade request. `None` if it is not a Bayeux WebSocket.
    pub(crate) fn set_upgraded(&mut self, upgraded: Option<Arrival>) {
        if upgraded != self.upgraded() {
            self.change_rare(|rare| rare.upgraded = upgraded);
        }
    }

    /// Returns the state of the record in the directory. `None` if sessions are not shared with other servers.
    pub(crate) fn shared(&self) -> Option<&SharedState> {
        self.rare.as_ref()?.shared.as_deref()
    }

    pub(crate) fn shared_mut(&mut self) -> Option<&mut SharedState> {
        self.rare.as_mut()?.shared.as_deref_mut()
    }

    /// Sets the state of the record in the directory.
    pub(crate) fn set_shared(&mut self, shared: SharedState) {
        self.change_rare(|rare| rare.shared = Some(Box::new(shared)));
    }

    /// Changes the rare state. Frees it if nothing is left of it.
    fn change_rare<R>(&mut self, change: impl FnOnce(&mut RareState) -> R) -> R {
        let mut rare = self.rare.take().unwrap_or_default();
        let result = change(&mut rare);
        let is_empty = rare.eviction_position.is_none()
            && rare.renames.is_empty()
            && rare.upgraded.is_none()
            && rare.shared.is_none();
        self.rare = (!is_empty).then_some(rare);
        result
    }
}

#[cfg(test)]
mod tests {
    use std::future::IntoFuture;
    use std::sync::atomic::Ordering;

    use encke_core::dialect::StartPosition;
    use futures_util::FutureExt;

    use super::*;
    use crate::client::test_services::{ADDRESS, attach, on_slow_engine};
    use crate::session::CommandSource;

    fn name(text: &str) -> ChannelName {
        ChannelName::new(text, 255).expect("a name")
    }

    #[test]
    fn renames_are_limited_and_end_with_their_subscription() {
        let (services, engine) = on_slow_engine();
        engine.is_open.store(true, Ordering::Relaxed);
        let session = attach(&services, None).session;
        let (source, begin) = (CommandSource::request(ADDRESS), StartPosition::Now);
        let subscribed = services.sessions.subscriptions.subscribe(&session, source, &name("a"), &begin);
        subscribed.into_future().now_or_never().expect("an answer").expect("a subscription");
        let mut state = session.lock();
        for requested in ["1", "2", "3", "3", "4"] {
            state.add_rename(Rename { requested: name(requested), actual: name("a") }, 3);
        }
        state.add_rename(Rename { requested: name("5"), actual: name("b") }, 3);
        let requested: Vec<_> = state.renames().iter().map(|rename| rename.requested.as_str()).collect();
        assert_eq!(requested, ["2", "3", "4"], "the session is not subscribed to b");
        for (requested, is_known) in [("1", false), ("2", true), ("4", true), ("5", false), ("a", true)] {
            assert_eq!(state.find_by_either_name(requested).is_some(), is_known, "{requested}");
        }
        let position = EvictionPosition { owner: QuotaOwner::Operator, number: 1 };
        assert!(state.replace_eviction_position(Some(position)).is_none());
        state.forget_renames(&name("b"));
        assert_eq!(state.renames().len(), 3);
        state.forget_renames(&name("a"));
        assert!(state.renames().is_empty() && state.eviction_position().is_some());
        assert!(state.replace_eviction_position(None).is_some());
        assert!(state.rare.is_none(), "the box is freed");
    }
}
