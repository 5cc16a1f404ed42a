//! Idle channels, which have neither subscribers nor guards. At the channel limit, the creator with the most
//! idle channels loses the oldest of them.

use encke_base::locks::Mutex;
use encke_base::quota::{FairEviction, QuotaOwner};

use super::channels::Channels;
use super::name::ChannelName;
use super::state::{Channel, ChannelState};
use super::subscribers::Subscriber;

/// Idle channels by creator.
#[derive(Debug, Default)]
pub(super) struct IdleChannels(Mutex<FairEviction<ChannelName>>);

impl IdleChannels {
    /// Adds the channel to the list or removes it, after its subscribers or guards may have changed.
    pub(super) fn update<S: Subscriber>(&self, channel: &Channel<S>, state: &mut ChannelState<S>) {
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
}

impl<S: Subscriber> Channels<S> {
    /// Evicts an idle channel and its log to make room for another. Returns false if no channel is idle.
    pub(super) fn evict_idle(&self) -> bool {
        self.evict_first(FairEviction::evict)
    }

    /// Like [`evict_idle`](Self::evict_idle), among the channels of this creator.
    pub(super) fn evict_idle_of(&self, creator: &QuotaOwner) -> bool {
        self.evict_first(|idle| idle.evict_from(creator))
    }

    fn evict_first(&self, take: impl Fn(&mut FairEviction<ChannelName>) -> Option<ChannelName>) -> bool {
        loop {
            let first = take(&mut self.idle.0.lock());
            let Some(name) = first else { return false };
            let Some(channel) = self.get(name.as_str()) else { continue };
            let mut ends = false;
            self.trim_if(
                &channel,
                |state| {
                    // The channel has just been taken from the list, and may have a subscriber by now.
                    state.idle_number = None;
                    ends = state.is_idle();
                    ends
                },
                |log| log.clear(),
            );
            if ends {
                return true;
            }
        }
    }
}
