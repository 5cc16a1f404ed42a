//! Model of a client's session: what the client has received, and what was reported as missing.
//!
//! Everything that the server sends is checked against this model. A client may save a copy and go back to
//! it.

mod gap;
mod position;
mod subscribed;

use std::collections::VecDeque;

use encke_core::dialect::json::Hello;

use super::known_messages::KnownMessages;
use crate::outcome::Verdict;
use crate::truth::{LOGS, Truth};
pub(crate) use position::ChannelPosition;
use subscribed::EarlyMessage;
pub(super) use subscribed::Subscribed;

/// Number of recent seqs whose content is remembered.
const REMEMBERED: usize = 256;

/// A message received from a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedMessage<'a> {
    pub(crate) seq: u64,
    pub(crate) log: usize,
    pub(crate) offset: u64,
    pub(crate) number: u64,
    /// Epoch of the channel that delivered the message, if the message names it.
    pub(crate) epoch: Option<&'a str>,
}

/// Content of a seq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeqContent {
    Message { log: usize, offset: u64 },
    Gap,
}

/// State of a client's subscription to a channel.
#[derive(Clone, Debug, Default)]
pub(crate) enum ChannelSubscription {
    /// Not subscribed. Messages that still arrive are ignored.
    #[default]
    Inactive,
    /// The subscribe was sent and has no reply yet.
    Requested,
    /// The position is unknown, for example because the connection was lost while the subscribe was pending.
    Unknown,
    /// The next message determines the position: the session was opened by a poll for this channel, or a new
    /// epoch, given here, continues a former one.
    AtNextMessage(Option<String>),
    Active(ChannelPosition),
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionModel {
    pub(crate) session: String,
    pub(crate) resume: String,
    /// The highest seq received.
    pub(crate) highest: u64,
    pub(crate) channels: Vec<ChannelSubscription>,
    /// Channels in the URL of the last event stream, and the id of its last event.
    pub(crate) stream: Option<(Vec<usize>, String)>,
    recent: VecDeque<(u64, SeqContent)>,
    known: KnownMessages,
    /// Messages, or gaps (`None`), of channels whose subscribe was sent in a separate request and has no
    /// reply yet.
    early: Vec<(usize, Option<EarlyMessage>)>,
    /// The highest seq received before the session was resumed last.
    pub(crate) resumed_after: u64,
    /// The seqs with which the session was resumed, the last time and the time before: the server knows that the
    /// client has received them.
    pub(crate) confirmed: [u64; 2],
    /// Whether a subscription of this session has ever ended.
    pub(crate) has_unsubscribed: bool,
    /// Whether gaps are allowed even if the log still contains the messages.
    pub(crate) gaps_allowed: bool,
    /// Whether the client went back to an earlier state, after it had acknowledged later messages.
    pub(crate) has_gone_back: bool,
    /// Whether the client must send its seq: it went back to an earlier state, and the server may not know.
    pub(crate) must_tell_seq: bool,
}

impl SessionModel {
    pub(crate) fn new(hello: &Hello<'_>) -> Self {
        Self {
            session: hello.session.clone().into_owned(),
            resume: hello.resume.clone().into_owned(),
            channels: vec![ChannelSubscription::Inactive; LOGS],
            ..Self::default()
        }
    }

    pub(crate) fn requested(&mut self, log: usize) {
        self.early.retain(|(of, _)| *of != log);
        self.begin(log, ChannelSubscription::Requested);
    }

    /// Records that a session opened by a poll subscribes to a channel, at an unknown position.
    pub(crate) fn begin_at_unknown(&mut self, log: usize) {
        self.begin(log, ChannelSubscription::AtNextMessage(None));
    }

    /// Records that the subscription to a channel has ended, or is about to.
    pub(crate) fn end(&mut self, log: usize) {
        self.channels[log] = ChannelSubscription::Inactive;
        self.has_unsubscribed = true;
    }

    fn begin(&mut self, log: usize, subscription: ChannelSubscription) {
        self.known.subscribe(log);
        self.channels[log] = subscription;
    }

    pub(crate) fn has_subscribed(&self, log: usize) -> bool {
        self.known.has_subscribed(log)
    }

    /// Returns the logs of which the client's subscriptions have delivered messages.
    pub(crate) fn received_logs(&self) -> Vec<usize> {
        let has_received = |subscription: &ChannelSubscription| match subscription {
            ChannelSubscription::Active(position) => position.last_seq > 0,
            _ => false,
        };
        (0..self.channels.len()).filter(|log| has_received(&self.channels[*log])).collect()
    }

    /// Returns whether gaps need no explanation: they are allowed, or cannot be checked.
    pub(crate) fn allows_gaps(&self) -> bool {
        self.gaps_allowed || self.known.is_blind
    }

    /// Records that a new session continues a channel at the client's position, an epoch and an offset. `None`
    /// if the server has refused the subscription. `present` is the epoch and last offset of the channel's
    /// log.
    pub(crate) fn continue_at(
        &mut self,
        log: usize,
        position: Option<(&str, u64)>,
        present: Option<(&str, u64)>,
    ) {
        let subscription = match (position, present) {
            (None, _) => ChannelSubscription::Inactive,
            (Some((epoch, offset)), Some((current, last))) if epoch == current && offset <= last => {
                ChannelSubscription::Active(ChannelPosition {
                    requested_up_to: last,
                    ..ChannelPosition::new(epoch, offset, self.highest)
                })
            }
            // A gap of unknown length is reported first.
            (Some(_), _) => ChannelSubscription::Unknown,
        };
        self.begin(log, subscription);
    }

    /// Processes a message. An error describes the violation.
    pub(crate) fn message(&mut self, message: ReceivedMessage<'_>, truth: &Truth) -> Verdict {
        let ReceivedMessage { seq, log, offset, number, epoch } = message;
        let is_fresh = self.remember(seq, SeqContent::Message { log, offset })?;
        let is_new = self.known.receive(number);
        let (gaps_allowed, published) = (self.allows_gaps(), truth.log(log));
        let is_known = |offset: u64| self.known.covers(published, offset);
        match &mut self.channels[log] {
            ChannelSubscription::Requested if is_fresh => {
                let last_unknown = (1..offset).rev().find(|offset| !is_known(*offset));
                let known_from = last_unknown.unwrap_or(0) + 1;
                self.early.push((log, Some(EarlyMessage { offset, number, known_from, is_new })));
            }
            subscription @ ChannelSubscription::AtNextMessage(_) if is_fresh => {
                let ChannelSubscription::AtNextMessage(told) = std::mem::take(subscription) else {
                    unreachable!("checked above")
                };
                let told = epoch.map(str::to_owned).or(told);
                // Look for the epoch that contains the message: by the time an answer is read, the channel
                // may already have a new one.
                let is_epoch_inferred = told.is_none();
                let epoch = told.unwrap_or_else(|| published.epoch_containing(offset, number).to_owned());
                let position = ChannelPosition::new(&epoch, offset - 1, seq - 1);
                *subscription =
                    ChannelSubscription::Active(ChannelPosition { is_epoch_inferred, ..position });
            }
            _ => {}
        }
        let ChannelSubscription::Active(position) = &mut self.channels[log] else { return Ok(()) };
        if position.is_of_other_subscription(message, published) {
            return Ok(());
        }
        if is_fresh {
            position.follow_epoch(message, published, self.has_gone_back)?;
        }
        if published.epoch() == position.epoch {
            if offset > published.last {
                return Err(format!("message {offset} of log {log} was not published"));
            }
            if let Some(expected) = published.message(offset).filter(|expected| *expected != number) {
                return Err(format!("message {offset} of log {log} is {number}, not {expected}"));
            }
        }
        if !is_fresh {
            if seq > position.start_seq && offset > position.up_to {
                return Err(format!(
                    "seq {seq} was received before, but not message {offset} of {position:?}"
                ));
            }
            return Ok(());
        }
        // Messages of an earlier subscription to the same channel may still arrive.
        if offset <= position.start_offset {
            return Ok(());
        }
        if offset <= position.up_to {
            if self.has_gone_back && published.is_in_other_epoch(&position.epoch, offset, number) {
                // The client had already acknowledged the gap that reported the new epoch, and the log has had
                // another epoch since then. The gap of that epoch follows the messages of the ring.
                self.channels[log] = ChannelSubscription::Unknown;
                return Ok(());
            }
            return Err(format!("message {offset} arrived twice, at seq {seq}: {position:?}"));
        }
        // After a gap of unknown length, messages that an earlier epoch also contained may arrive again.
        let came_before =
            || published.may_continue && published.is_in_earlier_epoch(&position.epoch, offset, number);
        if !is_new && offset > position.requested_up_to && !gaps_allowed && !came_before() {
            return Err(format!(
                "message {offset} of {position:?} was delivered by another subscription before"
            ));
        }
        let is_known_in_epoch = |offset| self.known.covers_in(published, &position.epoch, offset);
        if !gaps_allowed && !(position.up_to + 1..offset).all(is_known_in_epoch) {
            return Err(format!(
                "message {offset} arrived at {position:?}: messages before it are missing and not reported"
            ));
        }
        position.up_to = offset;
        position.last_seq = seq;
        Ok(())
    }

    /// Describes what the client lacks of a log, whose current epoch and last offset are given. `None` if
    /// nothing is missing, or the position is unknown.
    pub(crate) fn missing(&self, log: usize, epoch: &str, last: u64, truth: &Truth) -> Option<String> {
        let (ChannelSubscription::Active(position), published) = (&self.channels[log], truth.log(log)) else {
            return None;
        };
        let is_same = position.epoch == epoch;
        let is_known = |offset| self.allows_gaps() || self.known.covers(published, offset);
        let has_all = match position.up_to <= last {
            true => (position.up_to + 1..=last).all(is_known),
            // If the new epoch lacks messages that the client has, a gap is reported before the next message.
            false => !is_same,
        };
        let is_right = has_all && (is_same || published.may_continue_as(&position.epoch, epoch));
        (!is_right).then(|| format!("a message is missing at {position:?}"))
    }

    /// Records the content of a seq. Returns whether the seq is new; a repeated one must have the same
    /// content.
    fn remember(&mut self, seq: u64, content: SeqContent) -> Result<bool, String> {
        if seq > self.highest {
            self.highest = seq;
            if self.recent.len() == REMEMBERED {
                self.recent.pop_front();
            }
            self.recent.push_back((seq, content));
            return Ok(true);
        }
        let found = self.recent.binary_search_by_key(&seq, |(seq, _)| *seq);
        match found.map(|at| self.recent[at].1) {
            // A gap may replace a message that can no longer be sent again.
            Ok(before) if before != content && content != SeqContent::Gap => {
                Err(format!("seq {seq} was {before:?}, now {content:?}"))
            }
            _ => Ok(false),
        }
    }

    /// Records the loss of the connection: pending subscribes will get no reply.
    pub(crate) fn disconnected(&mut self) {
        self.early.clear();
        for subscription in &mut self.channels {
            if matches!(subscription, ChannelSubscription::Requested) {
                *subscription = ChannelSubscription::Unknown;
            }
        }
    }
}
