//! Channels that nobody follows, and which of them goes first when there is no room for another: the oldest of
//! the maker with most of them.

use parking_lot::Mutex;

use super::channels::Channels;
use super::name::ChannelName;
use super::state::{Channel, State};
use super::subscribers::Subscriber;
use crate::admission::{Holder, Holders};

/// The channels that nobody follows, by who made them.
#[derive(Debug, Default)]
pub(super) struct Idle(Mutex<Holders<ChannelName>>);

impl Idle {
    /// What follows or holds a channel may have changed.
    pub(super) fn note<S: Subscriber>(&self, channel: &Channel<S>, state: &mut State<S>) {
        match state.idle {
            None if state.is_idle() => {
                state.left_at = state.log.bounds().last;
                state.idle = Some(self.0.lock().add(channel.account().maker(), channel.name().clone()))
            }
            Some(number) if !state.is_idle() => {
                self.0.lock().remove(channel.account().maker(), number);
                state.idle = None;
            }
            _ => {}
        }
    }
}

impl<S: Subscriber> Channels<S> {
    /// Drops what an idle channel has, and so the channel, to make room for another. Returns whether there was one.
    pub(super) fn end_one_idle(&self) -> bool {
        self.end_first(Holders::take_from_most)
    }

    /// The same, of this maker's.
    pub(super) fn end_one_idle_of(&self, maker: &Holder) -> bool {
        self.end_first(|idle| idle.take_from(maker))
    }

    fn end_first(&self, take: impl Fn(&mut Holders<ChannelName>) -> Option<ChannelName>) -> bool {
        loop {
            let first = take(&mut self.idle.0.lock());
            let Some(name) = first else { return false };
            let Some(channel) = self.get(name.as_str()) else { continue };
            let mut ends = false;
            self.trim_if(
                &channel,
                |state| {
                    // It was taken out just now; somebody may follow it by now.
                    state.idle = None;
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
