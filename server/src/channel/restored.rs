//! Logs of an earlier process that are to go on elsewhere than they were: in an engine that other servers have added to meanwhile, or here
//! after they were there.
//!
//! Sessions keep their subscriptions. While a log is filling they read nothing of it, not even what they had sent, so that nothing counts as
//! missing before it is known.

use std::sync::Arc;
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::encodings::Encodings;
use encke_core::message::{Content, Message};

use super::channels::Channels;
use super::hold::Hold;
use super::life::Life;
use super::log::Log;
use super::message::LogMessage;
use super::state::{Change, Channel};
use super::subscribers::Subscriber;

/// A message of a log, as its home has it.
#[derive(Debug)]
pub(crate) struct Refill<'a> {
    pub(crate) offset: u64,
    /// How long ago it was published.
    pub(crate) age: Duration,
    /// Nothing, if it cannot be had.
    pub(crate) content: Option<Content<'a>>,
}

impl<S: Subscriber> Channels<S> {
    /// Each of these logs begins another life here. Those who follow it are told of a gap.
    pub(crate) fn begin_anew<'a>(self: &Arc<Self>, restored: impl IntoIterator<Item = &'a Arc<Channel<S>>>) {
        for old in restored {
            let life = Life::begin(&self.entropy);
            if let Some(new) = self.succeed(old, &life) {
                self.filled(old);
                self.move_subscribers(old, new.channel(), None);
            }
        }
    }

    /// A log that is to be filled from elsewhere before anyone goes on with it; nothing, if nobody follows it: then it ends.
    pub(crate) fn await_filling(self: &Arc<Self>, channel: &Arc<Channel<S>>) -> Option<Hold<S>> {
        let hold = self.hold_followed(channel)?;
        channel.state.lock().is_filling = true;
        Some(hold)
    }

    /// A log that goes on; nothing, if nobody follows it: then it ends.
    pub(crate) fn hold_followed(self: &Arc<Self>, channel: &Arc<Channel<S>>) -> Option<Hold<S>> {
        if self.retire(channel, |state| state.subscribers.len() == 0) {
            self.forget(channel);
            return None;
        }
        self.hold_open(Arc::clone(channel)).ok()
    }

    /// Puts what a log has elsewhere, oldest first, in the place of what it has here. Its newest message is `last` then, or a later one that was known
    /// here. Nothing happens once channels are closed.
    pub(crate) fn refill<'a>(
        &self,
        channel: &Arc<Channel<S>>,
        messages: impl Iterator<Item = Refill<'a>>,
        last: u64,
    ) {
        let now = self.timeouts.clock().now();
        let known = channel.last_offset();
        let mut log = Log::default();
        for Refill { offset, age, content } in messages {
            if offset > log.next_offset() {
                log.skip_to(offset - 1);
            }
            match content {
                _ if offset < log.next_offset() => {}
                None => log.skip_to(offset),
                Some(content) => {
                    let message = Message {
                        channel: channel.name().as_str(),
                        epoch: channel.epoch(),
                        offset,
                        at_ms: self.at_ms(channel.name().as_str(), &content),
                        content: &content,
                    };
                    let at = now.before(age).unwrap_or(Timestamp::from_nanos(0));
                    log.append(at, LogMessage::Own(Encodings::new(&message)), true, self.log_limits(channel));
                }
            }
        }
        if last.max(known) > log.bounds().last {
            log.skip_to(last.max(known));
        }
        let action = {
            let mut state = channel.state.lock();
            if self.is_closed() || state.retired {
                return;
            }
            let before = std::mem::replace(&mut state.log, log).size();
            self.budget.changed(channel.account(), Change { before, after: state.log.size() });
            channel.unlist(&mut state);
            channel.list(&mut state);
            self.request_age(channel, &state)
        };
        self.timeouts.carry_out(&channel.timer, action);
        self.keep_to_budget(now);
    }
}
