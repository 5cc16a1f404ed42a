//! Model of a client's session: what the client has received, and what was reported as missing.
//!
//! Everything that the server sends is checked against this model. A client may save a copy and go back to
//! it.

mod subscribed;

use std::collections::{BTreeSet, VecDeque};

use encke_core::dialect::json::{Gap, Hello};

use super::early_input::{EarlyInput, EarlyMessage};
use crate::truth::{LOGS, Truth};
pub(super) use subscribed::Subscribed;

/// Number of recent seqs whose content is remembered.
const REMEMBERED: usize = 256;

/// Content of a seq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeqContent {
    Message { channel: u8, offset: u64 },
    Gap { channel: u8 },
}

/// Position of a client in a channel.
#[derive(Clone, Debug)]
pub(crate) struct ChannelPosition {
    pub(crate) epoch: String,
    /// Offset after which the subscription starts.
    pub(super) start_offset: u64,
    /// Seq after which the subscription starts; earlier seqs belong to an earlier subscription.
    start_seq: u64,
    /// Offset of the last message that was requested explicitly. Another subscription may have delivered it,
    /// and earlier ones, already.
    pub(super) requested_up_to: u64,
    /// Whether the subscribe was sent in a separate request. If so, messages of an earlier subscription, in
    /// another epoch, may still arrive.
    was_sent_beside: bool,
    /// Whether the epoch was inferred from the messages received, rather than announced by the server.
    is_epoch_inferred: bool,
    /// Offset of the last message in sequence: all messages up to it were received or reported as missing.
    /// Later ones may have arrived by another subscription.
    pub(crate) up_to: u64,
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
#[derive(Clone, Debug)]
pub(crate) struct SessionModel {
    pub(crate) session: String,
    pub(crate) resume: String,
    /// The highest seq received.
    pub(crate) highest: u64,
    pub(crate) channels: Vec<ChannelSubscription>,
    /// Channel in the URL of the last event stream, and the id of its last event.
    pub(crate) stream: Option<(u8, String)>,
    recent: VecDeque<(u64, SeqContent)>,
    /// Numbers of all messages received or reported as missing.
    known: BTreeSet<u64>,
    /// Numbers of all messages received.
    received: BTreeSet<u64>,
    /// Input of channels whose subscribe was sent in a separate request and has no reply yet.
    early: Vec<(u8, EarlyInput)>,
    /// Bit set of the channels ever subscribed to.
    ever_subscribed: u16,
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
            highest: 0,
            channels: vec![ChannelSubscription::Inactive; usize::from(LOGS)],
            stream: None,
            recent: VecDeque::new(),
            known: BTreeSet::new(),
            received: BTreeSet::new(),
            early: Vec::new(),
            ever_subscribed: 0,
            gaps_allowed: false,
            has_gone_back: false,
            must_tell_seq: false,
        }
    }

    pub(crate) fn subscription(&mut self, channel: u8) -> &mut ChannelSubscription {
        &mut self.channels[usize::from(channel)]
    }

    /// Records that a subscribe was sent.
    pub(crate) fn requested(&mut self, channel: u8) {
        self.ever_subscribed |= 1 << channel;
        self.early.retain(|(of, _)| *of != channel);
        *self.subscription(channel) = ChannelSubscription::Requested;
    }

    /// Records that a session opened by a poll subscribes to a channel, at an unknown position.
    pub(crate) fn begin_at_unknown(&mut self, channel: u8) {
        self.ever_subscribed |= 1 << channel;
        *self.subscription(channel) = ChannelSubscription::AtNextMessage(None);
    }

    pub(crate) fn has_subscribed(&self, channel: u8) -> bool {
        self.ever_subscribed & 1 << channel != 0
    }

    /// Records that a new session continues a channel at the client's position. `log` is the epoch and last
    /// offset of the channel's log.
    pub(crate) fn continue_at(&mut self, channel: u8, position: &str, log: Option<(&str, u64)>) {
        let start_seq = self.highest;
        self.ever_subscribed |= 1 << channel;
        *self.subscription(channel) = match (position.split_once(':'), log) {
            (None, _) => ChannelSubscription::Inactive,
            (Some((epoch, offset)), Some((current, last))) if epoch == current => match offset.parse() {
                Ok(start_offset) if start_offset <= last => ChannelSubscription::Active(ChannelPosition {
                    epoch: epoch.to_owned(),
                    start_offset,
                    start_seq,
                    requested_up_to: last,
                    was_sent_beside: false,
                    is_epoch_inferred: false,
                    up_to: start_offset,
                }),
                _ => ChannelSubscription::Unknown,
            },
            // A gap of unknown length is reported first.
            (Some(_), _) => ChannelSubscription::Unknown,
        };
    }

    /// Processes a message. An error describes the violation.
    pub(crate) fn message(
        &mut self,
        seq: u64,
        channel: u8,
        offset: u64,
        number: u64,
        truth: &Truth,
    ) -> Result<(), String> {
        let fresh = self.remember(seq, SeqContent::Message { channel, offset })?;
        self.known.insert(number);
        let is_new = self.received.insert(number);
        let (gaps_allowed, has_gone_back) = (self.gaps_allowed, self.has_gone_back);
        if fresh && matches!(self.subscription(channel), ChannelSubscription::Requested) {
            let is_known = knows(&self.known, truth, channel);
            let known_from =
                (1..offset).rev().find(|offset| !is_known(*offset)).map_or(1, |missing| missing + 1);
            self.early
                .push((channel, EarlyInput::Message(EarlyMessage { offset, number, known_from, is_new })));
        }
        if fresh && let subscription @ ChannelSubscription::AtNextMessage(_) = self.subscription(channel) {
            let ChannelSubscription::AtNextMessage(told) = std::mem::take(subscription) else {
                unreachable!("checked above")
            };
            // Look for the epoch that contains the message: by the time an answer is read, the channel may
            // already have a new one.
            let (is_epoch_inferred, start_offset) = (told.is_none(), offset - 1);
            let epoch =
                told.unwrap_or_else(|| truth.channel(channel).epoch_containing(offset, number).to_owned());
            *subscription = ChannelSubscription::Active(ChannelPosition {
                epoch,
                start_offset,
                start_seq: seq - 1,
                requested_up_to: start_offset,
                was_sent_beside: false,
                is_epoch_inferred,
                up_to: start_offset,
            });
        }
        let is_known = knows(&self.known, truth, channel);
        let ChannelSubscription::Active(position) = &mut self.channels[usize::from(channel)] else {
            return Ok(());
        };
        let known = truth.channel(channel);
        // A repeated message belongs to the epoch in which it was first sent.
        let is_of_former_one = position.was_sent_beside
            && known.is_in_earlier_epoch(&position.epoch, offset, number)
            || seq <= position.start_seq && known.is_in_other_epoch(&position.epoch, offset, number);
        if is_of_former_one {
            return Ok(());
        }
        // A message contained in both epochs may have been sent in either.
        let is_of_former = known.former_message(&position.epoch, offset) == Some(number);
        let is_of_present = known.message(offset) == Some(number);
        if fresh && known.may_continue_as(&position.epoch, &known.epoch) && is_of_present && !is_of_former {
            // A new epoch of the log has continued the former one, with all its messages.
            if !known.continues_from(&position.epoch, position.up_to) {
                if !has_gone_back {
                    return Err(format!(
                        "message {offset} of channel {channel} arrived at {position:?}, which the new epoch does not continue"
                    ));
                }
                // The client had already acknowledged the gap that reported the missing messages, so this gap
                // is not sent again. The server reports the loss later, when it sends the ring.
                (position.start_offset, position.start_seq) = (offset - 1, seq - 1);
                (position.requested_up_to, position.up_to) = (offset - 1, offset - 1);
            }
            position.epoch.clone_from(&known.epoch);
            position.is_epoch_inferred = true;
        }
        if fresh && position.is_epoch_inferred && known.message_of(&position.epoch, offset) != Some(number) {
            // All messages received so far are also in another epoch, and the session is still in that epoch.
            let epoch = known.epoch_containing(offset, number);
            let numbers = known
                .message_of(&position.epoch, position.up_to)
                .zip(known.message_of(epoch, position.up_to));
            if numbers.is_none_or(|(one, other)| one == other) {
                position.epoch = epoch.to_owned();
            }
        }
        if known.epoch == position.epoch {
            if offset > known.last {
                return Err(format!("message {offset} of channel {channel} was not published"));
            }
            if let Some(expected) = known.message(offset)
                && expected != number
            {
                return Err(format!("message {offset} of channel {channel} is {number}, not {expected}"));
            }
        }
        if !fresh {
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
            return Err(format!("message {offset} arrived twice, at seq {seq}: {position:?}"));
        }
        // After a gap of unknown length, messages that an earlier epoch also contained may arrive again.
        let came_before = || known.may_continue && known.is_in_earlier_epoch(&position.epoch, offset, number);
        if !is_new && offset > position.requested_up_to && !gaps_allowed && !came_before() {
            return Err(format!(
                "message {offset} of {position:?} was delivered by another subscription before"
            ));
        }
        if !(position.up_to + 1..offset).all(is_known) && !gaps_allowed {
            return Err(format!(
                "message {offset} arrived at {position:?}: messages before it are missing and not reported"
            ));
        }
        position.up_to = offset;
        Ok(())
    }

    /// Processes a gap. `first` is the offset of the oldest message in the log, if the log still has the
    /// gap's epoch.
    pub(crate) fn gap(
        &mut self,
        gap: &Gap<'_>,
        channel: u8,
        first: Option<u64>,
        truth: &Truth,
    ) -> Result<(), String> {
        let fresh = self.remember(gap.seq, SeqContent::Gap { channel })?;
        if fresh && matches!(self.subscription(channel), ChannelSubscription::Requested) {
            self.early.push((channel, EarlyInput::Gap));
        }
        if fresh && let subscription @ ChannelSubscription::AtNextMessage(_) = self.subscription(channel) {
            *subscription = ChannelSubscription::Unknown;
        }
        let gaps_allowed = self.gaps_allowed;
        let log = truth.channel(channel);
        if let Some(range) = gap.from.zip(gap.to) {
            // Record the messages of the gap even if the epoch has ended: they count as reported for
            // overlapping subscriptions, too.
            let (numbers, may_have_unobserved) = log.numbers(&gap.epoch, range);
            self.known.extend(numbers);
            // Messages never observed cannot be identified in other logs.
            self.gaps_allowed |= may_have_unobserved;
        }
        let ChannelSubscription::Active(position) = &mut self.channels[usize::from(channel)] else {
            return Ok(());
        };
        // The gap belongs to an earlier subscription, whose log may no longer exist.
        if gap.seq <= position.start_seq {
            return Ok(());
        }
        if position.was_sent_beside && log.was_before(&gap.epoch, &position.epoch) {
            return Ok(());
        }
        let was_in_another = gap.from.is_none()
            && position.is_epoch_inferred
            && gap.epoch == position.epoch
            && log.is_also_in_other_epoch(&position.epoch, position.up_to);
        if was_in_another || log.may_continue_as(&position.epoch, &gap.epoch) {
            // A new epoch of the log continues the former one but lacks some of its messages.
            self.channels[usize::from(channel)] =
                ChannelSubscription::AtNextMessage(Some(gap.epoch.clone().into_owned()));
            return Ok(());
        }
        if gap.epoch != position.epoch {
            return Err(format!("a gap in epoch {} at {position:?}", gap.epoch));
        }
        match gap.from.zip(gap.to) {
            // A gap of an earlier subscription may have been in transit when this subscribe was sent in a
            // separate request.
            None if gaps_allowed || position.was_sent_beside => {}
            None => return Err(format!("an unexplained gap of unknown length at {position:?}")),
            Some((from, to)) => {
                let is_covered =
                    (position.up_to + 1..from).all(knows(&self.known, truth, channel)) || gaps_allowed;
                if from > to || fresh && !is_covered {
                    return Err(format!(
                        "the gap {from}..={to} does not cover what is missing at {position:?}"
                    ));
                }
                let explained =
                    gaps_allowed || to <= position.start_offset || first.is_none_or(|first| to < first);
                if fresh && !explained {
                    return Err(format!(
                        "the gap {from}..={to} at {position:?}: the log contains messages from {first:?} on"
                    ));
                }
                position.up_to = position.up_to.max(to);
            }
        }
        Ok(())
    }

    /// Returns whether every message of a log up to this offset was received or reported as missing.
    pub(crate) fn has_up_to(
        &self,
        channel: u8,
        position: &ChannelPosition,
        up_to: u64,
        truth: &Truth,
    ) -> bool {
        let mut rest = position.up_to + 1..=up_to;
        position.up_to <= up_to && (self.gaps_allowed || rest.all(knows(&self.known, truth, channel)))
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
        match (found.map(|at| self.recent[at].1), content) {
            // A gap may replace a message that can no longer be sent again.
            (Ok(before), SeqContent::Message { .. }) if before != content => {
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

/// Returns a predicate that is true for the offsets of messages known to the client. Messages no longer
/// recorded count as known.
fn knows<'a>(known: &'a BTreeSet<u64>, truth: &'a Truth, channel: u8) -> impl Fn(u64) -> bool + 'a {
    move |offset| truth.channel(channel).message(offset).is_none_or(|number| known.contains(&number))
}
