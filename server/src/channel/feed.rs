//! Logs of channels that live elsewhere: an engine decides what is in them, and under which numbers.
//!
//! Such a log is a cache, which all sessions here read. It may begin anywhere, and have to leave messages out. When the channel begins
//! another life, a new log takes the place of the old one, and everyone who follows the old one is moved.

use std::sync::Arc;
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::message::Content;

use super::channels::{Channels, TooManyChannels};
use super::hold::Hold;
use super::life::Life;
use super::log::LogSize;
use super::message::Origin;
use super::name::ChannelName;
use super::publish::{NotAppended, Outcome};
use super::state::{Change, Channel, Retired, State};
use super::subscribers::Subscriber;
use crate::admission::Holder;
use crate::trace::Publish;

/// Subscribers that are moved before others have the lock.
const MOVED_AT_ONCE: usize = 128;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fed {
    Appended,
    /// The log has it, or has had it.
    Known,
    /// Others are missing before it.
    Ahead,
}

impl<S: Subscriber> Channels<S> {
    /// The channel, if it is there and [filled](Self::filled).
    pub(crate) fn hold_filled(self: &Arc<Self>, name: &str) -> Option<Hold<S>> {
        let hold = self.hold_open(self.get(name)?).ok()?;
        let is_filling = hold.channel().state.lock().is_filling;
        (!is_filling).then_some(hold)
    }

    /// The log has what it begins with.
    pub(crate) fn filled(&self, channel: &Arc<Channel<S>>) {
        let was_filling = std::mem::take(&mut channel.state.lock().is_filling);
        // Those that have followed it in an earlier process wait for that.
        if was_filling {
            self.wake_all(channel);
        }
    }

    /// The channel; if it is not there, with a log of this life.
    ///
    /// # Errors
    /// [`TooManyChannels`], when no further one may be opened.
    pub(crate) fn hold_in_life(
        self: &Arc<Self>,
        name: &ChannelName,
        maker: &Holder,
        life: &Life,
    ) -> Result<Hold<S>, TooManyChannels> {
        loop {
            let channel = self.open_with(name, maker, || life.clone())?;
            match self.hold_open(Arc::clone(&channel)) {
                Ok(hold) => return Ok(hold),
                Err(Retired) => self.forget(&channel),
            }
        }
    }

    /// Appends the message with this number, if it is the next one. It was published so long ago.
    pub(crate) fn feed(
        &self,
        channel: &Arc<Channel<S>>,
        offset: u64,
        age: Duration,
        content: &Content<'_>,
    ) -> Fed {
        self.feed_with(channel, offset, age, content, true)
    }

    /// The same, but it is nothing new to the patterns that stand for the channel.
    pub(crate) fn feed_alone(
        &self,
        channel: &Arc<Channel<S>>,
        offset: u64,
        age: Duration,
        content: &Content<'_>,
    ) -> Fed {
        self.feed_with(channel, offset, age, content, false)
    }

    fn feed_with(
        &self,
        channel: &Arc<Channel<S>>,
        offset: u64,
        age: Duration,
        content: &Content<'_>,
        with_patterns: bool,
    ) -> Fed {
        let last = channel.last_offset();
        if self.is_closed() {
            return Fed::Known;
        }
        if offset != last + 1 {
            return if offset <= last { Fed::Known } else { Fed::Ahead };
        }
        let now = self.timeouts.clock().now();
        let at = now.before(age).unwrap_or(Timestamp::from_nanos(0));
        loop {
            let patterns = if with_patterns { self.patterns_of(channel.name()) } else { Vec::new() };
            match self.append(at, channel, &patterns, content, (None, &Publish::NONE)) {
                Ok(Outcome::Appended(appended)) => {
                    self.finish_append(now, channel, &patterns, appended);
                    return Fed::Appended;
                }
                Err(NotAppended::Retired(retired)) if !Arc::ptr_eq(retired, channel) => self.forget(retired),
                // Nobody else appends to it. It is retired only by the caller.
                _ => return Fed::Appended,
            }
        }
    }

    /// Appends a message of a channel that has no log here to the logs of the patterns that stand for it.
    pub(crate) fn feed_patterns(&self, name: &ChannelName, epoch: &str, offset: u64, content: &Content<'_>) {
        let now = self.timeouts.clock().now();
        let origin = Origin { channel: name.clone(), epoch: epoch.into(), offset };
        loop {
            let patterns = self.patterns_of(name);
            match self.append_to_patterns(now, &patterns, &origin, content) {
                Err(NotAppended::Retired(retired)) => self.forget(retired),
                Err(NotAppended::Closed) => return,
                Ok(appended) => return self.finish_patterns(now, &patterns, appended),
            }
        }
    }

    /// The messages up to `last` cannot be had: those before them go as well, and sessions that have not read them are told of a gap.
    pub(crate) fn skip_to(&self, channel: &Arc<Channel<S>>, last: u64) {
        let is_right = |state: &mut State<S>| state.log.bounds().last < last && !self.is_closed();
        self.trim_if(channel, is_right, |log| log.skip_to(last));
        self.wake_all(channel);
    }

    /// Puts a log of another life in the place of this one. Those who follow this one are to be [moved](Self::move_subscribers), once there
    /// is something in the new one. Nothing, if another has its place already.
    pub(crate) fn succeed(self: &Arc<Self>, old: &Arc<Channel<S>>, life: &Life) -> Option<Hold<S>> {
        let new = {
            let channels = &mut self.table.write().channels;
            let place = channels.get_mut(old.name()).filter(|found| Arc::ptr_eq(found, old))?;
            let (name, account) = (old.name().clone(), Arc::clone(old.account()));
            let new = self.make(name, account, self.next_number(), life.clone());
            *place = Arc::clone(&new);
            new
        };
        self.retire(old, |_| true);
        self.hold_open(new).ok()
    }

    /// Ends a log, unless somebody else holds it or follows it by now: then it is still held.
    ///
    /// # Errors
    /// The hold.
    pub(crate) fn let_go(&self, hold: Hold<S>) -> Result<(), Hold<S>> {
        if self.retire(hold.channel(), |state| state.is_only_held()) {
            self.forget(hold.channel());
            Ok(())
        } else {
            Err(hold)
        }
    }

    /// Nobody joins it any more. What is in it stays for those who have sent it and may have to send it again.
    pub(super) fn retire(&self, channel: &Arc<Channel<S>>, is_right: impl FnOnce(&State<S>) -> bool) -> bool {
        let action = {
            let mut state = channel.state.lock();
            if state.retired || !is_right(&state) {
                return false;
            }
            state.retired = true;
            let change = Change { before: state.log.size(), after: LogSize::default() };
            self.budget.changed(channel.account(), change);
            self.forget_age(channel, &mut state)
        };
        self.end_timer(channel, action);
        true
    }

    /// Everyone who follows `old` follows `new` from now on. What `old` had up to `cut` is in `new` under the same numbers.
    pub(crate) fn move_subscribers(&self, old: &Arc<Channel<S>>, new: &Arc<Channel<S>>, cut: Option<u64>) {
        let mut from = 0;
        loop {
            let (some, _) = old.subscribers(self.home(), from, MOVED_AT_ONCE);
            for (index, subscriber) in &some {
                subscriber.move_on(self.home(), old, new, cut);
                from = index + 1;
            }
            if some.len() < MOVED_AT_ONCE {
                return;
            }
        }
    }
}
