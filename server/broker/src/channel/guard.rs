use std::sync::Arc;

use encke_base::quota::QuotaOwner;

use super::channels::Channels;
use super::epoch::LogEpoch;
use super::name::ChannelName;
use super::state::{Channel, Retired};
use super::subscriber::Subscriber;
use super::table::TooManyChannels;

/// Guard that keeps a channel in the table, even while it has no subscribers.
#[derive(Debug)]
pub struct ChannelGuard<S: Subscriber> {
    channel: Arc<Channel<S>>,
    channels: Arc<Channels<S>>,
}

impl<S: Subscriber> ChannelGuard<S> {
    pub fn channel(&self) -> &Arc<Channel<S>> {
        &self.channel
    }

    /// Returns another guard, unless another channel has just replaced this one.
    pub fn try_clone(&self) -> Option<Self> {
        self.channels.acquire_existing(Arc::clone(&self.channel)).ok()
    }
}

impl<S: Subscriber> Drop for ChannelGuard<S> {
    fn drop(&mut self) {
        self.channel.remove_guard();
        self.channels.retention().retire_if_unused(&self.channel);
    }
}

impl<S: Subscriber> Channels<S> {
    /// Returns a guard for the channel, which is created if it does not exist. The guard keeps the channel in
    /// the table until it is dropped.
    ///
    /// # Errors
    /// [`TooManyChannels`] if the channel does not exist and the limit is reached.
    pub fn acquire(
        self: &Arc<Self>,
        name: &ChannelName,
        creator: &QuotaOwner,
    ) -> Result<ChannelGuard<S>, TooManyChannels> {
        self.acquire_with(name, creator, || self.retention().epoch_of(name, &self.entropy))
    }

    /// Like [`acquire`](Self::acquire), but a new channel starts with this epoch.
    ///
    /// # Errors
    /// [`TooManyChannels`] if a limit is reached.
    pub(crate) fn acquire_with_epoch(
        self: &Arc<Self>,
        name: &ChannelName,
        creator: &QuotaOwner,
        epoch: &LogEpoch,
    ) -> Result<ChannelGuard<S>, TooManyChannels> {
        self.acquire_with(name, creator, || epoch.clone())
    }

    fn acquire_with(
        self: &Arc<Self>,
        name: &ChannelName,
        creator: &QuotaOwner,
        epoch: impl Fn() -> LogEpoch,
    ) -> Result<ChannelGuard<S>, TooManyChannels> {
        loop {
            let channel = self.retention().get_or_create(name, creator, &epoch)?;
            match self.acquire_existing(Arc::clone(&channel)) {
                Ok(guard) => return Ok(guard),
                Err(Retired) => self.table().remove(&channel),
            }
        }
    }

    /// Returns a guard for the channel, unless it is being removed from the table.
    pub fn acquire_existing(self: &Arc<Self>, channel: Arc<Channel<S>>) -> Result<ChannelGuard<S>, Retired> {
        self.retention().add_guard(&channel)?;
        Ok(ChannelGuard { channel, channels: Arc::clone(self) })
    }

    /// Returns a guard for a direct-message channel, if it exists. While there are no such channels, `name`
    /// is not called and nothing is looked up.
    pub fn acquire_direct(self: &Arc<Self>, name: impl FnOnce() -> ChannelName) -> Option<ChannelGuard<S>> {
        if self.table().direct_len() == 0 {
            return None;
        }
        let channel = self.get(name().as_str())?;
        self.acquire_existing(channel).ok()
    }

    /// Returns a guard for the channel, if it exists and is [loaded](Self::finish_loading).
    pub(crate) fn acquire_loaded(self: &Arc<Self>, name: &str) -> Option<ChannelGuard<S>> {
        let guard = self.acquire_existing(self.get(name)?).ok()?;
        let is_loading = guard.channel().state.lock().is_loading;
        (!is_loading).then_some(guard)
    }

    /// Removes a log, unless it has other guards or subscribers by now.
    ///
    /// # Errors
    /// Returns the guard if the log is still in use.
    pub(crate) fn remove_if_unused(&self, guard: ChannelGuard<S>) -> Result<(), ChannelGuard<S>> {
        if self.retention().retire(guard.channel(), |state| state.has_sole_guard()) {
            self.table().remove(guard.channel());
            Ok(())
        } else {
            Err(guard)
        }
    }
}
