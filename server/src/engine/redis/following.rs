//! One channel that is followed in Redis.

use std::sync::Arc;
use std::time::Duration;

use encke_core::Timestamp;
use tokio::sync::oneshot;

use super::message::{Opened, Told};
use super::restored::take_up;
use crate::admission::Holder;
use crate::channel::{ChannelName, Channels, Fed, Hold, Life, Subscriber};
use crate::engine::EngineError;

/// Messages that wait until a channel is open. What is more is read from its log.
const MOST_QUEUED: usize = 1024;

/// Those who wait for a log.
pub(super) type Waiting<S> = Vec<oneshot::Sender<Result<Hold<S>, EngineError>>>;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Following<S: Subscriber> {
    /// The log here, once the channel has been open.
    pub(super) hold: Option<Hold<S>>,
    /// The log here that an earlier process has left, until the channel is open.
    restored: Option<Hold<S>>,
    /// Of the first that followed it.
    pub(super) maker: Holder,
    /// Those who wait for the log.
    pub(super) waiting: Waiting<S>,
    /// It is being opened, or is about to be.
    pub(super) is_opening: bool,
    /// It is to be opened once more after that.
    pub(super) opens_again: bool,
    /// All of its log is to be read.
    pub(super) needs_all: bool,
    /// Redis has been asked to tell what is published, and has said that it will.
    pub(super) is_subscribed: bool,
    /// What was told before it was open, in order.
    queue: Vec<Told>,
    /// How many of these came before it began to be opened.
    came_before: usize,
    /// Since when nobody here follows it.
    pub(super) idle_since: Option<Timestamp>,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Nothing,
    /// Open it: the log in Redis knows more.
    Open,
}

impl<S: Subscriber> Following<S> {
    pub(super) fn new(maker: Holder) -> Self {
        Self {
            hold: None,
            restored: None,
            maker,
            waiting: Vec::new(),
            is_opening: false,
            opens_again: false,
            needs_all: true,
            is_subscribed: false,
            queue: Vec::new(),
            came_before: 0,
            idle_since: None,
        }
    }

    /// One that sessions follow already.
    pub(super) fn restored(hold: Hold<S>) -> Self {
        // A log that is here is not made.
        Self { restored: Some(hold), ..Self::new(Holder::Operator) }
    }

    /// Whether it is followed, also while Redis does not say what it has.
    pub(super) fn stays(&self) -> bool {
        self.hold.is_some() || self.restored.is_some()
    }

    /// There is no connection any more. Returns whether it is to be followed again on the next.
    pub(super) fn disconnected(&mut self) -> bool {
        self.answer_all(Some(EngineError::Unavailable));
        (self.is_opening, self.opens_again, self.is_subscribed) = (false, false, false);
        self.queue = Vec::new();
        self.stays()
    }

    /// It begins to be opened. Returns after which message its log is to be read.
    pub(super) fn begin_opening(&mut self) -> u64 {
        self.came_before = self.queue.len();
        match &self.hold {
            Some(hold) if !self.needs_all => hold.channel().last_offset(),
            _ => 0,
        }
    }

    /// The epoch of the log here, if that is to be gone on with.
    pub(super) fn known_epoch(&self) -> Option<Box<str>> {
        let hold = self.hold.as_ref().filter(|_| !self.needs_all);
        hold.map(|hold| hold.channel().epoch().into())
    }

    /// A message was published.
    pub(super) fn told(&mut self, told: Told, channels: &Channels<S>) -> Next {
        if self.is_opening {
            if self.queue.len() < MOST_QUEUED {
                self.queue.push(told);
            } else {
                self.opens_again = true;
            }
            return Next::Nothing;
        }
        match self.take(&told, channels) {
            Fed::Appended | Fed::Known => Next::Nothing,
            Fed::Ahead => {
                self.queue.push(told);
                Next::Open
            }
        }
    }

    /// There is to be no log here. Returns what was to come into the logs of patterns, and whether that is not all.
    pub(super) fn give_up(self) -> (Vec<Told>, bool) {
        (self.queue, self.opens_again)
    }

    /// Puts a message into the log here, if it comes next.
    fn take(&self, told: &Told, channels: &Channels<S>) -> Fed {
        let Some(channel) = self.hold.as_ref().map(Hold::channel) else { return Fed::Known };
        if channel.epoch() != &*told.epoch {
            return Fed::Ahead;
        }
        match told.content() {
            Some(content) => channels.feed(channel, told.offset, Duration::ZERO, &content),
            // Nobody here has published that.
            None => {
                channels.skip_to(channel, told.offset);
                Fed::Known
            }
        }
    }

    /// It was opened. Returns also whether messages are missing that should have come to its patterns.
    ///
    /// # Errors
    /// There may be no log for it here.
    pub(super) fn opened(
        &mut self,
        name: &ChannelName,
        opened: &Opened,
        channels: &Arc<Channels<S>>,
    ) -> Result<(Next, bool), EngineError> {
        self.is_opening = false;
        let was_subscribed = std::mem::replace(&mut self.is_subscribed, true);
        let had_all = self.hold.is_none() || self.needs_all;
        let of_this_epoch = self.queue.iter().filter(|told| told.epoch == opened.epoch);
        let first_queued = of_this_epoch.map(|told| told.offset).min().unwrap_or(u64::MAX);
        let mut missed = false;
        if let Some(restored) = self.restored.take() {
            let (hold, lacks) = take_up(restored, opened, (life(opened), first_queued), channels);
            (self.hold, missed) = (Some(hold), lacks);
        }
        match &self.hold {
            Some(hold) if hold.channel().epoch() == &*opened.epoch => {
                // What was missed on the last connection, its patterns have been told already.
                missed |= fill(hold, opened, 0, channels) && was_subscribed;
            }
            Some(_) if !had_all => {
                // Another life of the channel.
                self.needs_all = true;
                return Ok((Next::Open, false));
            }
            Some(old) => {
                let cut = opened.cut(old.channel().epoch());
                if let Some(new) = channels.succeed(old.channel(), &life(opened)) {
                    missed = fill(&new, opened, first_queued, channels);
                    channels.move_subscribers(old.channel(), new.channel(), cut);
                    self.hold = Some(new);
                }
            }
            None => {
                let new = channels.hold_in_life(name, &self.maker, &life(opened))?;
                missed = fill(&new, opened, first_queued, channels);
                self.hold = Some(new);
            }
        }
        self.needs_all = false;
        let queue = std::mem::take(&mut self.queue);
        for (index, told) in queue.into_iter().enumerate() {
            if self.take(&told, channels) == Fed::Ahead && index >= self.came_before {
                self.queue.push(told);
            }
        }
        let again = std::mem::take(&mut self.opens_again) || !self.queue.is_empty();
        Ok((if again { Next::Open } else { Next::Nothing }, missed))
    }

    /// Tells all that wait: of the log, or why there is none.
    pub(super) fn answer_all(&mut self, refusal: Option<EngineError>) {
        answer_all(&mut self.waiting, self.hold.as_ref(), refusal);
    }
}

/// Tells all that wait: of the log, or why there is none.
pub(super) fn answer_all<S: Subscriber>(
    waiting: &mut Waiting<S>,
    hold: Option<&Hold<S>>,
    refusal: Option<EngineError>,
) {
    for waiting in std::mem::take(waiting) {
        let log = hold.and_then(Hold::another);
        let answer = log.filter(|_| refusal.is_none());
        // Some have given up.
        _ = waiting.send(answer.ok_or(refusal.unwrap_or(EngineError::Unavailable)));
    }
}

/// The life of a log here that begins with what was found.
fn life(opened: &Opened) -> Life {
    let last = opened.entries.first().map_or(opened.offset, |first| first.offset - 1);
    Life { epoch: (&*opened.epoch).into(), last, past: opened.past.clone(), is_filling: true }
}

/// Adds what was found. What cannot be had any more is left out. From a certain message on, all is new to the patterns that stand for the channel: what
/// is before it has come to them already, or was published before they were followed. Returns whether some of what is new is left out.
pub(super) fn fill<S: Subscriber>(
    hold: &Hold<S>,
    opened: &Opened,
    first_new: u64,
    channels: &Arc<Channels<S>>,
) -> bool {
    let channel = hold.channel();
    let mut missed = false;
    let mut skip_to = |last| {
        missed |= channel.last_offset() < last && first_new <= last;
        channels.skip_to(channel, last);
    };
    for entry in &opened.entries {
        skip_to(entry.offset - 1);
        match entry.content() {
            Some(content) if entry.offset < first_new => {
                _ = channels.feed_alone(channel, entry.offset, entry.age, &content)
            }
            Some(content) => _ = channels.feed(channel, entry.offset, entry.age, &content),
            None => channels.skip_to(channel, entry.offset),
        }
    }
    skip_to(opened.offset);
    channels.filled(channel);
    missed
}
