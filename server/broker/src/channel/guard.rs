use std::sync::Arc;

use encke_base::quota::QuotaOwner;

use super::channels::{Channels, TooManyChannels};
use super::name::ChannelName;
use super::state::{Channel, Retired};
use super::subscribers::Subscriber;

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
        self.channels.retire_if_unused(&self.channel);
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
        loop {
            let channel = self.get_or_create(name, creator)?;
            match self.acquire_existing(Arc::clone(&channel)) {
                Ok(guard) => return Ok(guard),
                Err(Retired) => self.remove_from_table(&channel),
            }
        }
    }

    /// Returns a guard for the channel, unless it is being removed from the table.
    pub fn acquire_existing(self: &Arc<Self>, channel: Arc<Channel<S>>) -> Result<ChannelGuard<S>, Retired> {
        channel.add_guard(|state| self.idle.update(&channel, state))?;
        Ok(ChannelGuard { channel, channels: Arc::clone(self) })
    }
}
