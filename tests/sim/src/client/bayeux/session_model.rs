//! Model of a Bayeux client's session. Bayeux messages have no numbers, so losses are found by comparison
//! with the messages published.

use std::collections::{BTreeSet, VecDeque};

use crate::client::poll_answer;
use crate::truth::{LOGS, MAX_CHANNELS, Truth, channel_of, receives};
use crate::wire::SharedWire;

use super::answer::{BayeuxAnswer, ReportedGap};

/// Number of answers without gaps after which every loss must have been reported: one may have been in
/// transit already, and another may contain no gaps because the ring was full.
const LOSSY_ANSWERS: u8 = 2;

const MAX_GIVEN_UP: usize = 16;

/// Position of a client in a log. The server does not say where a subscription starts; it is between `low`
/// and `high`.
#[derive(Clone, Debug)]
pub(crate) struct BayeuxLogPosition {
    pub(crate) epoch: String,
    /// Last offset when the client sent the subscribe.
    low: u64,
    /// Last offset when the server answered.
    high: u64,
    /// Offset of the last message received.
    up_to: u64,
    /// Offset of the last message received up to and including the last answer.
    answered: u64,
}

/// State of a client's subscription to a channel or pattern.
#[derive(Clone, Debug, Default)]
pub(crate) enum BayeuxSubscription {
    #[default]
    Inactive,
    /// The subscribe has been sent. Holds the epoch and last offset of the log at that time.
    Requested(String, u64),
    /// A subscribe or unsubscribe is pending or was lost.
    Unknown,
    Active(BayeuxLogPosition),
}

/// A message that was still missing and unreported when a later one arrived.
#[derive(Clone, Debug)]
struct UnreportedLoss {
    number: u64,
    log: u8,
    epoch: String,
    /// Describes when the loss was noticed.
    what: String,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct BayeuxSessionModel {
    pub(crate) session: String,
    pub(crate) token: String,
    /// Whether the session uses acknowledgements.
    pub(crate) acknowledges: bool,
    /// Last acknowledgement id received.
    pub(crate) ack: u64,
    /// Last advised pause, in milliseconds.
    pub(crate) interval: u64,
    pub(crate) logs: Vec<BayeuxSubscription>,
    /// Bit set of the logs ever subscribed to.
    ever_subscribed: u16,
    /// Bit set of the logs for which a gap of unknown length was reported.
    restarted: u16,
    /// Numbers of the messages received.
    received: BTreeSet<u64>,
    /// Numbers of the messages reported as missing.
    known: BTreeSet<u64>,
    /// Messages found missing on a WebSocket, which the next answer must report.
    unreported: Vec<UnreportedLoss>,
    /// Whether a WebSocket was lost since the last answer.
    has_lost_socket: bool,
    /// Whether a pending connect was lost: the server may have answered it, and that answer may have ended an
    /// advised pause.
    has_lost_connect: bool,
    /// Connections on which an answer may have been lost since the last one received.
    lost: Vec<SharedWire>,
    /// The latest abandoned connections. The client may not have read their answers.
    given_up: VecDeque<SharedWire>,
    /// Number of answers without gaps still to come until all losses must have been reported. 0: no recent
    /// loss.
    lossy_for: u8,
    /// Whether a gap was reported for messages that the simulation never observed.
    is_blind: bool,
    /// Whether the client went back to an earlier state, which the server may have forgotten.
    pub(crate) has_gone_back: bool,
}

impl BayeuxSessionModel {
    pub(crate) fn new(token: &str, acknowledges: bool) -> Self {
        let session = token.split('.').next().unwrap_or_default().to_owned();
        Self {
            session,
            token: token.to_owned(),
            acknowledges,
            ack: 0,
            interval: 0,
            logs: vec![BayeuxSubscription::Inactive; usize::from(LOGS)],
            ever_subscribed: 0,
            restarted: 0,
            received: BTreeSet::new(),
            known: BTreeSet::new(),
            unreported: Vec::new(),
            has_lost_socket: false,
            has_lost_connect: false,
            lost: Vec::new(),
            given_up: VecDeque::new(),
            lossy_for: 0,
            is_blind: false,
            has_gone_back: false,
        }
    }

    pub(crate) fn subscription(&mut self, log: u8) -> &mut BayeuxSubscription {
        &mut self.logs[usize::from(log)]
    }

    pub(crate) fn requested(&mut self, log: u8, epoch: String, last: u64) {
        self.ever_subscribed |= 1 << log;
        *self.subscription(log) = BayeuxSubscription::Requested(epoch, last);
    }

    /// Records the reply to a subscribe, with the state of the log at that time.
    pub(crate) fn subscribed(&mut self, log: u8, epoch: &str, last: u64) {
        let subscription = self.subscription(log);
        let BayeuxSubscription::Requested(requested_epoch, low) = subscription else { return };
        let low = if requested_epoch == epoch { *low } else { 0 };
        *subscription = BayeuxSubscription::Active(BayeuxLogPosition {
            epoch: epoch.to_owned(),
            low,
            high: last,
            up_to: low,
            answered: low,
        });
    }

    /// Records the reply to an unsubscribe. If two unsubscribes were pending, the client may have subscribed
    /// again after the first reply; the state of the subscription is then unknown.
    pub(crate) fn unsubscribed(&mut self, log: u8) {
        let subscription = self.subscription(log);
        let is_subscribing_again =
            matches!(subscription, BayeuxSubscription::Requested(..) | BayeuxSubscription::Active(_));
        *subscription =
            if is_subscribing_again { BayeuxSubscription::Unknown } else { BayeuxSubscription::Inactive };
    }

    /// Records the loss of a connection whose answer has not arrived.
    pub(crate) fn lose_connection(&mut self, wire: SharedWire) {
        self.give_up(wire.clone());
        self.lost.push(wire);
    }

    fn give_up(&mut self, wire: SharedWire) {
        if self.given_up.len() == MAX_GIVEN_UP {
            self.given_up.pop_front();
        }
        self.given_up.push_back(wire);
    }

    /// Records the loss of the WebSocket. `socket` is given if a connect was pending on it. Messages received
    /// on it since the last answer may be reported as missing.
    pub(crate) fn lose_socket(&mut self, socket: Option<SharedWire>) {
        self.has_lost_socket = true;
        if let Some(wire) = socket {
            self.has_lost_connect = true;
            // Keep the connection: the lost connect may reach the server after a later one that was answered
            // with a pause, and end that pause.
            wire.lock().remember_written();
            self.give_up(wire);
        }
    }

    /// Records that an administrator has disconnected a session. The server does not wait for an answer in
    /// transit, which may still arrive.
    pub(crate) fn disconnected(&mut self, session: &str) {
        if self.session == session {
            self.lossy_for = LOSSY_ANSWERS;
        }
    }

    /// Records that an answer arrived after the server had stopped waiting for it and counted it as lost.
    pub(crate) fn came_too_late(&mut self) {
        self.lossy_for = LOSSY_ANSWERS;
    }

    /// Returns whether an answer may have been lost since the last one received.
    pub(crate) fn may_have_lost(&self) -> bool {
        !self.lost.is_empty() || self.has_lost_socket
    }

    /// Records the interval that an answer advises, and returns the pause after it, in milliseconds. Without
    /// advice, the pause stays the same.
    pub(crate) fn pause(&mut self, interval: Option<u64>) -> u64 {
        if let Some(interval) = interval {
            (self.interval, self.has_lost_connect) = (interval, false);
        }
        self.interval
    }

    /// Allows for an end of the pause that the client has missed: it may have been in a lost answer, and
    /// later answers do not repeat it.
    pub(crate) fn excuse_pause(&mut self) {
        self.has_lost_connect = true;
    }

    /// Returns whether an answer that the client did not read may have ended the pause.
    pub(crate) fn has_missed_end_of_pause(&self) -> bool {
        let end = b"\"interval\":0";
        let ends_pause = |wire: &SharedWire| wire.lock().written().windows(end.len()).any(|it| it == end);
        self.has_lost_connect || self.given_up.iter().any(ends_pause)
    }

    /// Processes the answers that were lost before the one just received. Without acknowledgements, the
    /// server need not report the messages of a lost answer that its kernel had accepted, because it cannot
    /// know that they were lost.
    pub(crate) fn assess_lost_answers(&mut self, truth: &Truth) {
        let lost = std::mem::take(&mut self.lost);
        if std::mem::take(&mut self.has_lost_socket) || !lost.is_empty() {
            self.lossy_for = LOSSY_ANSWERS;
        }
        if self.acknowledges {
            return;
        }
        for wire in lost {
            let wire = wire.lock();
            let Ok(Some(answer)) = poll_answer::read(wire.written()) else { continue };
            let Ok(BayeuxAnswer { events, reply, .. }) = BayeuxAnswer::read(answer.body) else { continue };
            self.known.extend(events.iter().map(|(_, number)| *number));
            for gap in reply.gaps() {
                self.record_gap(&gap, truth);
                self.lose_position(&gap);
            }
        }
    }

    /// Records the messages of a gap as missing.
    fn record_gap(&mut self, gap: &ReportedGap, truth: &Truth) {
        let Some(log) = channel_of(&gap.channel) else { return };
        if let Some(range) = gap.range {
            // Record them even if the epoch of this log has ended: other logs may still contain the messages.
            let (numbers, may_have_unobserved) = truth.channel(log).numbers(&gap.epoch, range);
            self.known.extend(numbers);
            // Messages never observed cannot be identified in other logs.
            self.is_blind |= may_have_unobserved;
        } else {
            self.restarted |= 1 << log;
        }
    }

    /// Marks the client's position as unknown after a gap of unknown length.
    fn lose_position(&mut self, gap: &ReportedGap) {
        let Some(log) = channel_of(&gap.channel).filter(|_| gap.range.is_none()) else { return };
        let subscription = self.subscription(log);
        if let BayeuxSubscription::Active(_) = subscription {
            *subscription = BayeuxSubscription::Unknown;
        }
    }

    /// Processes all gaps of an answer, before its messages. `first` returns the offset of the oldest message
    /// that a log contains in the given epoch.
    pub(crate) fn gaps(
        &mut self,
        gaps: &[ReportedGap],
        truth: &Truth,
        first: impl Fn(u8, &str) -> Option<u64>,
    ) -> Result<(), String> {
        for gap in gaps {
            let log = channel_of(&gap.channel).ok_or_else(|| format!("a gap of {}", gap.channel))?;
            if self.ever_subscribed & 1 << log == 0 {
                return Err(format!("{gap:?} of a log it never subscribed to"));
            }
            self.record_gap(gap, truth);
            if self.has_gone_back || self.lossy_for > 0 && !self.acknowledges {
                // Record these gaps, but do not require an explanation.
                self.lose_position(gap);
                continue;
            }
            let BayeuxSubscription::Active(position) = &self.logs[usize::from(log)] else { continue };
            // The epoch may have changed between the subscribe and its reply, and the model only knows the
            // epoch at the time of the reply.
            let has_moved_since =
                truth.channel(log).may_continue && gap.range.is_none() && position.answered <= position.high;
            if has_moved_since || truth.channel(log).may_continue_as(&position.epoch, &gap.epoch) {
                // A new epoch of the log continues the former one but lacks some of its messages, so the
                // position is unknown.
                *self.subscription(log) = BayeuxSubscription::Unknown;
                continue;
            }
            let Some((from, to)) = gap.range else {
                return Err(format!("unexplained gap of unknown length {gap:?} at {position:?}"));
            };
            let is_explained = position.epoch != gap.epoch
                || to <= position.high
                || first(log, &gap.epoch).is_none_or(|first| to < first);
            if from > to || !is_explained {
                return Err(format!("{gap:?} at {position:?}, but the log contains the messages"));
            }
        }
        if gaps.is_empty() {
            self.lossy_for = self.lossy_for.saturating_sub(1);
        }
        Ok(())
    }

    /// Checks, after an answer, that all losses found before it have been reported.
    pub(crate) fn check_losses_reported(&mut self, truth: &Truth) -> Result<(), String> {
        for subscription in &mut self.logs {
            if let BayeuxSubscription::Active(position) = subscription {
                position.answered = position.up_to;
            }
        }
        if self.lossy_for > 0 {
            return Ok(());
        }
        let unreported = std::mem::take(&mut self.unreported);
        let is_lenient = self.has_gone_back || self.is_blind;
        let is_missing = |it: &UnreportedLoss| {
            // Losses in a former epoch, or of messages no longer recorded, cannot be checked.
            let log = truth.channel(it.log);
            let is_remembered = log.epoch == it.epoch && log.offset_of(it.number).is_some();
            is_remembered && !self.known.contains(&it.number) && !self.received.contains(&it.number)
        };
        match unreported.into_iter().find(is_missing).filter(|_| !is_lenient) {
            Some(it) => Err(format!("{}: {} is missing and not reported by the answer", it.what, it.number)),
            None => Ok(()),
        }
    }

    /// Processes a message that arrived alone (`is_alone`), or in an answer whose gaps have been processed.
    pub(crate) fn message(
        &mut self,
        channel: &str,
        number: u64,
        truth: &Truth,
        is_alone: bool,
    ) -> Result<(), String> {
        let channel = channel_of(channel).filter(|channel| *channel < MAX_CHANNELS);
        let channel = channel.ok_or_else(|| "a message of an unknown channel".to_owned())?;
        if !self.received.insert(number) && !self.may_come_again(channel, number, truth, is_alone) {
            return Err(format!("message {number} of channel {channel} arrived twice"));
        }
        let logs = (0..LOGS).filter(|log| receives(*log, channel));
        if logs.clone().all(|log| self.ever_subscribed & 1 << log == 0) {
            return Err(format!("message {number} of channel {channel}, to which it never subscribed"));
        }
        for log in logs {
            let channel_log = truth.channel(log);
            let Some(offset) = channel_log.offset_of(number) else { continue };
            let known = &self.known;
            let (received, is_lenient) = (&self.received, self.has_gone_back || self.is_blind);
            let BayeuxSubscription::Active(position) = &mut self.logs[usize::from(log)] else { continue };
            // The message belongs to an earlier subscription, or arrived through another log.
            if channel_log.epoch != position.epoch || offset <= position.low {
                continue;
            }
            // A message that this log has lost may still arrive through another log.
            let is_pending_report = is_alone && self.unreported.iter().any(|it| it.log == log);
            let was_reported_missing = known.contains(&number) || is_pending_report;
            if offset <= position.up_to && offset > position.high && !was_reported_missing && !self.is_blind {
                return Err(format!("message {number}, {offset} of log {log}, arrived late: {position:?}"));
            }
            let is_known = |offset| {
                channel_log
                    .message(offset)
                    .is_none_or(|number| known.contains(&number) || received.contains(&number))
            };
            let begun = position.up_to.max(position.high) + 1;
            if let Some(missing) = (begun..offset).find(|offset| !is_known(*offset)).filter(|_| !is_lenient) {
                let what = format!("message {number}, {offset} of log {log}, arrived at {position:?}");
                if !is_alone {
                    return Err(format!("{what}: messages before it are missing and not reported"));
                }
                let epoch = position.epoch.clone();
                self.unreported.extend(channel_log.message(missing).map(|number| UnreportedLoss {
                    number,
                    log,
                    epoch,
                    what,
                }));
            }
            position.up_to = position.up_to.max(offset);
        }
        Ok(())
    }

    /// Returns whether a message may be received twice: after a gap of unknown length, a new epoch of a log
    /// may start with messages of the former one.
    fn may_come_again(&self, channel: u8, number: u64, truth: &Truth, is_alone: bool) -> bool {
        // Messages that arrive alone precede the gap.
        let may_be_anew = is_alone || self.restarted & 1 << channel != 0;
        let channel_log = truth.channel(channel);
        may_be_anew && channel_log.may_continue && channel_log.is_in_several_epochs(number)
    }

    /// Returns whether a message that was neither received nor reported as missing is a violation.
    fn is_certain(&self) -> bool {
        !self.has_gone_back
            && !self.is_blind
            && (self.acknowledges || !self.may_have_lost() && self.lossy_for == 0)
    }

    /// Describes what the client lacks of a log, whose current epoch and last offset are given. `None` if
    /// nothing is missing.
    pub(crate) fn is_missing(&self, log: u8, epoch: &str, last: u64, truth: &Truth) -> Option<String> {
        let channel_log = truth.channel(log);
        match &self.logs[usize::from(log)] {
            BayeuxSubscription::Inactive => Some("it is not subscribed".to_owned()),
            BayeuxSubscription::Active(position) if channel_log.may_continue_as(&position.epoch, epoch) => {
                None
            }
            BayeuxSubscription::Active(position) if position.epoch != epoch => {
                Some(format!("{position:?} in {epoch}"))
            }
            BayeuxSubscription::Active(position) if self.is_certain() => {
                let is_unknown = |offset: &u64| {
                    channel_log.message(*offset).is_some_and(|number| {
                        !self.known.contains(&number) && !self.received.contains(&number)
                    })
                };
                let missing = (position.up_to.max(position.high) + 1..=last).find(is_unknown)?;
                Some(format!("{missing} is missing at {position:?}"))
            }
            _ => None,
        }
    }
}
