//! Appending to a channel's log, and to those of the patterns that stand for it.
//!
//! A message gets into all of them at once: every log is locked before any of them changes, the channel's first, then those of patterns in
//! an order that is the same for all channels. So nobody reads a message before it is everywhere, and any two messages are in the
//! same order in all logs that have both. Sessions that read several of these logs depend on it (`encke_core`'s outbox). The
//! bytes are stored once.

use std::sync::Arc;

use encke_core::Timestamp;
use encke_core::encodings::Encodings;
use encke_core::message::{Content, Message};
use encke_core::session::outbox::Place;
use parking_lot::MutexGuard;

use super::channels::{Channels, NotPublished, Published};
use super::keys::PublishId;
use super::log::{Log, LogSize};
use super::message::{LogMessage, Origin, SharedMessage};
use super::name::ChannelName;
use super::state::{Change, Channel, State};
use super::subscribers::Subscriber;
use crate::admission::Holder;
use crate::timeouts::ArmAction;
use crate::trace::Publish;

/// A log, locked to be appended to.
pub(super) struct Open<'a, S> {
    pub(super) channel: &'a Arc<Channel<S>>,
    pub(super) state: MutexGuard<'a, State<S>>,
}

/// Why nothing came of an append.
pub(super) enum NotAppended<'a, S> {
    /// This log has just been retired.
    Retired(&'a Arc<Channel<S>>),
    /// Nothing is appended any more.
    Closed,
}

/// What came of a publish.
pub(super) enum Outcome {
    Appended(Appended),
    /// It had been published before, as this message.
    Repeated(u64),
}

/// What came of an append.
pub(super) struct Appended {
    /// The message's number in its channel.
    offset: u64,
    channel: After,
    /// In the order of the patterns.
    patterns: Vec<After>,
}

/// What is to be done for a log once it is unlocked.
pub(super) struct After {
    arm: ArmAction,
    /// The caller has begun a sweep.
    sweep: bool,
    /// It is a pattern that nobody has followed for long.
    ends: bool,
}

impl<S: Subscriber> Channels<S> {
    /// Appends to a channel's log, and to those of the patterns that stand for it, and has their subscribers told. If there is no such
    /// channel, `maker` makes it. What was published as `id` before, and is known still, is not published again.
    ///
    /// # Errors
    /// [`NotPublished`]: there is no such channel and no further one may be opened, or channels are closed.
    pub(crate) fn publish(
        &self,
        name: &ChannelName,
        maker: &Holder,
        content: &Content<'_>,
        id: Option<&PublishId>,
    ) -> Result<Published, NotPublished> {
        self.publish_traced(name, maker, content, id, &Publish::NONE)
    }

    /// The same, and it is followed how the message gets to its readers.
    ///
    /// # Errors
    /// [`NotPublished`].
    pub(crate) fn publish_traced(
        &self,
        name: &ChannelName,
        maker: &Holder,
        content: &Content<'_>,
        id: Option<&PublishId>,
        trace: &Publish,
    ) -> Result<Published, NotPublished> {
        let now = self.timeouts.clock().now();
        loop {
            let channel = self.open(name, maker)?;
            let patterns = self.patterns_of(name);
            match self.append(now, &channel, &patterns, content, (id, trace)) {
                Err(NotAppended::Retired(retired)) => self.forget(retired),
                Err(NotAppended::Closed) => {
                    self.retire_if_unused(&channel);
                    return Err(NotPublished::Draining);
                }
                Ok(Outcome::Repeated(offset)) => {
                    return Ok(Published { offset, epoch: channel.epoch().into() });
                }
                Ok(Outcome::Appended(appended)) => {
                    self.metrics.channels.published();
                    let offset = appended.offset;
                    self.finish_append(now, &channel, &patterns, appended);
                    return Ok(Published { offset, epoch: channel.epoch().into() });
                }
            }
        }
    }

    /// What follows once no log is locked.
    pub(super) fn finish_append(
        &self,
        now: Timestamp,
        channel: &Arc<Channel<S>>,
        patterns: &[Arc<Channel<S>>],
        appended: Appended,
    ) {
        // A message by a pattern says where it is in both logs. So those that follow both get it by the pattern.
        for (pattern, after) in patterns.iter().zip(appended.patterns) {
            self.follow_up(pattern, after);
        }
        self.follow_up(channel, appended.channel);
        self.keep_to_budget(now);
    }

    /// Wakes the subscribers that have read to the end.
    pub(super) fn wake_all(&self, channel: &Arc<Channel<S>>) {
        let begins = channel.state.lock().sweep.published();
        if begins {
            self.fan_out.sweep(channel);
        }
    }

    pub(super) fn append<'a>(
        &self,
        now: Timestamp,
        channel: &'a Arc<Channel<S>>,
        patterns: &'a [Arc<Channel<S>>],
        content: &Content<'_>,
        (id, trace): (Option<&PublishId>, &Publish),
    ) -> Result<Outcome, NotAppended<'a, S>> {
        let mut own = Open::lock(channel)?;
        if let Some(id) = id {
            let cutoff = self.log_limits(channel).age.and_then(|age| now.before(age));
            if let Some(offset) = self.changing(&mut own, |log| log.published_as(id, cutoff)) {
                return Ok(Outcome::Repeated(offset));
            }
        }
        let mut others = patterns.iter().map(Open::lock).collect::<Result<Vec<_>, _>>()?;
        if self.is_closed() {
            return Err(NotAppended::Closed);
        }
        // The text is made under the lock, since the offset is part of it.
        let offset = own.state.log.next_offset();
        let (name, epoch) = (channel.name(), channel.epoch());
        let at_ms = self.at_ms(name.as_str(), content);
        let message = Message { channel: name.told(), epoch, offset, at_ms, content };
        let encodings = Encodings::new(&message);
        if others.is_empty() {
            let channel = self.append_to(&mut own, now, LogMessage::Own(encodings), true);
            own.note_traced(trace);
            self.remember(&mut own, now, id);
            return Ok(Outcome::Appended(Appended { offset, channel, patterns: Vec::new() }));
        }
        let origin = Origin { channel: channel.name().clone(), epoch: channel.shared_epoch(), offset };
        let places = std::iter::once(&own).chain(&others).map(Open::next_place).collect();
        let message = Arc::new(SharedMessage { encodings, origin, places });
        let patterns = others
            .iter_mut()
            .map(|open| self.append_to(open, now, LogMessage::Shared(Arc::clone(&message)), false))
            .collect();
        // The last, so that no log drops the message while it is held here as well.
        let channel = self.append_to(&mut own, now, LogMessage::Shared(message), true);
        std::iter::once(&mut own).chain(&mut others).for_each(|open| open.note_traced(trace));
        self.remember(&mut own, now, id);
        Ok(Outcome::Appended(Appended { offset, channel, patterns }))
    }

    /// Appends a message of a channel that has no log here.
    pub(super) fn append_to_patterns<'a>(
        &self,
        now: Timestamp,
        patterns: &'a [Arc<Channel<S>>],
        origin: &Origin,
        content: &Content<'_>,
    ) -> Result<Vec<After>, NotAppended<'a, S>> {
        let mut logs = patterns.iter().map(Open::lock).collect::<Result<Vec<_>, _>>()?;
        if self.is_closed() {
            return Err(NotAppended::Closed);
        }
        if logs.is_empty() {
            return Ok(Vec::new());
        }
        let Origin { channel, epoch, offset } = origin;
        let (name, offset) = (channel.as_str(), *offset);
        let message = Message { channel: name, epoch, offset, at_ms: self.at_ms(name, content), content };
        let (encodings, places) = (Encodings::new(&message), logs.iter().map(Open::next_place).collect());
        let message = Arc::new(SharedMessage { encodings, origin: origin.clone(), places });
        // The first counts its bytes.
        let appended = logs.iter_mut().enumerate().map(|(index, open)| {
            self.append_to(open, now, LogMessage::Shared(Arc::clone(&message)), index == 0)
        });
        Ok(appended.collect())
    }

    /// What follows once no log is locked.
    pub(super) fn finish_patterns(&self, now: Timestamp, patterns: &[Arc<Channel<S>>], appended: Vec<After>) {
        if appended.is_empty() {
            return;
        }
        for (pattern, after) in patterns.iter().zip(appended) {
            self.follow_up(pattern, after);
        }
        self.keep_to_budget(now);
    }

    /// When a message is published, in milliseconds since 1970, if the readers of its channel are told.
    pub(super) fn at_ms(&self, channel: &str, content: &Content<'_>) -> Option<u64> {
        let is_told = self.namespaces().rules_of(channel).at_ms;
        is_told.then(|| content.at_ms.unwrap_or_else(|| self.timeouts.clock().unix_now().as_millis()))
    }

    fn remember(&self, open: &mut Open<'_, S>, now: Timestamp, id: Option<&PublishId>) {
        if let Some(id) = id {
            self.changing(open, |log| log.remember(id.clone(), now));
        }
    }

    fn changing<R>(
        &self,
        Open { channel, state }: &mut Open<'_, S>,
        change: impl FnOnce(&mut Log) -> R,
    ) -> R {
        let before = state.log.size();
        let result = change(&mut state.log);
        self.note_growth(channel, state, before);
        result
    }

    fn append_to(&self, open: &mut Open<'_, S>, now: Timestamp, message: LogMessage, is_new: bool) -> After {
        let Open { channel, state } = open;
        let before = state.log.size();
        state.log.append(now, message, is_new, self.log_limits(channel));
        self.idle.note(channel, state);
        let ends = channel.pattern().is_some() && state.has_been_left();
        self.note_growth(channel, state, before);
        if state.age_key.is_none() {
            channel.list(state);
        }
        After { arm: self.request_age(channel, state), sweep: state.sweep.published(), ends }
    }

    fn note_growth(&self, channel: &Channel<S>, state: &State<S>, before: LogSize) {
        self.budget.changed(channel.account(), Change { before, after: state.log.size() });
    }

    fn follow_up(&self, channel: &Arc<Channel<S>>, After { arm, sweep, ends }: After) {
        self.timeouts.carry_out(&channel.timer, arm);
        if ends {
            // Looks again, since somebody may follow it by now.
            self.trim_if(channel, |_| true, |_| ());
        }
        if sweep {
            self.fan_out.sweep(channel);
        }
    }
}

impl<'a, S: Subscriber> Open<'a, S> {
    fn lock(channel: &'a Arc<Channel<S>>) -> Result<Self, NotAppended<'a, S>> {
        let state = channel.state.lock();
        if state.retired { Err(NotAppended::Retired(channel)) } else { Ok(Self { channel, state }) }
    }

    #[cfg(not(feature = "otlp"))]
    #[inline]
    fn note_traced(&self, _: &Publish) {}

    /// Where the next message will be.
    fn next_place(&self) -> Place {
        Place { log: self.channel.number(), offset: self.state.log.next_offset() }
    }
}
