//! Idle channels, which have neither subscribers nor guards. At the channel limit, the creator with the most
//! idle channels loses the oldest of them.

use encke_base::locks::Mutex;
use encke_base::quota::FairEviction;

use super::name::ChannelName;
use super::state::{Channel, ChannelState};

/// Idle channels by creator.
#[derive(Debug, Default)]
pub(super) struct IdleChannels(Mutex<FairEviction<ChannelName>>);

impl IdleChannels {
    /// Adds the channel to the list or removes it, after its subscribers or guards may have changed.
    pub(super) fn update<S: Copy>(&self, channel: &Channel<S>, state: &mut ChannelState<S>) {
        match state.idle_number {
            None if state.is_idle() => {
                state.last_at_leave = state.log.bounds().last;
                state.idle_number =
                    Some(self.0.lock().insert(channel.account().creator(), channel.name().clone()))
            }
            Some(number) if !state.is_idle() => {
                self.0.lock().remove(channel.account().creator(), number);
                state.idle_number = None;
            }
            _ => {}
        }
    }

    /// Removes the channel that `take` selects from the list, and returns its name.
    pub(super) fn take(
        &self,
        take: impl FnOnce(&mut FairEviction<ChannelName>) -> Option<ChannelName>,
    ) -> Option<ChannelName> {
        take(&mut self.0.lock())
    }
}
