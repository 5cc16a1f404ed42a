use std::sync::Arc;

use super::channels::{Channels, TooManyChannels};
use super::name::ChannelName;
use super::state::{Channel, Retired};
use super::subscribers::Subscriber;
use crate::admission::Holder;

/// Keeps a channel in the table, though nothing may follow it yet.
#[derive(Debug)]
pub(crate) struct Hold<S: Subscriber> {
    channel: Arc<Channel<S>>,
    channels: Arc<Channels<S>>,
}

impl<S: Subscriber> Hold<S> {
    pub(crate) fn channel(&self) -> &Arc<Channel<S>> {
        &self.channel
    }

    /// One more, unless another channel has just taken the place of this one.
    pub(crate) fn another(&self) -> Option<Self> {
        self.channels.hold_open(Arc::clone(&self.channel)).ok()
    }
}

impl<S: Subscriber> Drop for Hold<S> {
    fn drop(&mut self) {
        self.channel.remove_hold();
        self.channels.retire_if_unused(&self.channel);
    }
}

impl<S: Subscriber> Channels<S> {
    /// The channel of this name, opened if it is not there, and kept from leaving the table for as long as it is held.
    ///
    /// # Errors
    /// [`TooManyChannels`], when there is no such channel and no further one may be opened.
    pub(crate) fn hold(
        self: &Arc<Self>,
        name: &ChannelName,
        maker: &Holder,
    ) -> Result<Hold<S>, TooManyChannels> {
        loop {
            let channel = self.open(name, maker)?;
            match self.hold_open(Arc::clone(&channel)) {
                Ok(hold) => return Ok(hold),
                Err(Retired) => self.forget(&channel),
            }
        }
    }

    /// Keeps a channel from leaving the table, if it is not just doing so.
    pub(crate) fn hold_open(self: &Arc<Self>, channel: Arc<Channel<S>>) -> Result<Hold<S>, Retired> {
        channel.add_hold(|state| self.idle.note(&channel, state))?;
        Ok(Hold { channel, channels: Arc::clone(self) })
    }
}
