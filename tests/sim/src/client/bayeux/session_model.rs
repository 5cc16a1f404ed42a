//! Model of a Bayeux client's session. Bayeux messages have no numbers, so losses are found by comparison
//! with the messages published.

use std::collections::VecDeque;

use super::answer::{self, BayeuxMessage, ReportedGap};
use super::log_position::BayeuxSubscription;
use crate::client::http_answer;
use crate::client::known_messages::KnownMessages;
use crate::notices::Notice;
use crate::outcome::Verdict;
use crate::truth::{LOGS, LogTruth, Truth, log_of, receives};
use crate::wire::SharedWire;

/// Number of answers without gaps after which every loss must have been reported: one may have been in
/// transit already, and another may contain no gaps because the ring was full.
const LOSSY_ANSWERS: u8 = 2;

const MAX_GIVEN_UP: usize = 16;

/// A message that was still missing and unreported when a later one arrived.
#[derive(Clone, Debug)]
struct UnreportedLoss {
    number: u64,
    log: usize,
    epoch: String,
    /// Describes when the loss was noticed.
    what: String,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct BayeuxSessionModel {
    pub(crate) session: String,
    pub(super) token: String,
    /// Whether the session uses acknowledgements.
    pub(super) acknowledges: bool,
    /// Last acknowledgement id received.
    pub(super) ack: u64,
    /// Last advised pause, in milliseconds.
    pub(super) interval: u64,
    pub(super) logs: Vec<BayeuxSubscription>,
    /// Bit set of the logs for which a gap of unknown length was reported.
    restarted: u16,
    known: KnownMessages,
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
    /// Whether the client went back to an earlier state, which the server may have forgotten.
    pub(super) has_gone_back: bool,
}

impl BayeuxSessionModel {
    pub(super) fn new(token: &str, acknowledges: bool) -> Self {
        Self {
            session: token.split('.').next().unwrap_or_default().to_owned(),
            token: token.to_owned(),
            acknowledges,
            logs: vec![BayeuxSubscription::Inactive; LOGS],
            ..Self::default()
        }
    }

    pub(super) fn requested(&mut self, log: usize, epoch: String, last: u64) {
        self.known.subscribe(log);
        self.logs[log] = BayeuxSubscription::Requested(epoch, last);
    }

    pub(super) fn lose_connection(&mut self, wire: SharedWire) {
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
    pub(super) fn lose_socket(&mut self, socket: Option<SharedWire>) {
        self.has_lost_socket = true;
        if let Some(wire) = socket {
            self.has_lost_connect = true;
            // Keep the connection: the lost connect may reach the server after a later one that was answered
            // with a pause, and end that pause.
            wire.lock().written = Some(Vec::new());
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
    pub(super) fn came_too_late(&mut self) {
        self.lossy_for = LOSSY_ANSWERS;
    }

    /// Returns whether an answer may have been lost since the last one received.
    pub(super) fn may_have_lost(&self) -> bool {
        !self.lost.is_empty() || self.has_lost_socket
    }

    /// Records the interval that an answer advises, and returns the pause after it, in milliseconds. Without
    /// advice, the pause stays the same.
    pub(super) fn pause(&mut self, interval: Option<u64>) -> u64 {
        if let Some(interval) = interval {
            (self.interval, self.has_lost_connect) = (interval, false);
        }
        self.interval
    }

    /// Allows for an end of the pause that the client has missed: it may have been in a lost answer, and
    /// later answers do not repeat it.
    pub(super) fn excuse_pause(&mut self) {
        self.has_lost_connect = true;
    }

    /// Returns whether an answer that the client did not read may have ended the pause.
    pub(super) fn has_missed_end_of_pause(&self) -> bool {
        let end = b"\"interval\":0";
        let contains_end = |bytes: &Vec<u8>| bytes.windows(end.len()).any(|it| it == end);
        let ends_pause = |wire: &SharedWire| wire.lock().written.as_ref().is_some_and(contains_end);
        self.has_lost_connect || self.given_up.iter().any(ends_pause)
    }

    /// Processes the answers that were lost before the one just received. Without acknowledgements, the
    /// server need not report the messages of a lost answer that its kernel had accepted, because it cannot
    /// know that they were lost.
    pub(super) fn assess_lost_answers(&mut self, truth: &Truth) {
        let lost = std::mem::take(&mut self.lost);
        if std::mem::take(&mut self.has_lost_socket) || !lost.is_empty() {
            self.lossy_for = LOSSY_ANSWERS;
        }
        if self.acknowledges {
            return;
        }
        for wire in lost {
            let wire = wire.lock();
            let written = wire.written.as_deref().unwrap_or_default();
            let Ok(Some(answer)) = http_answer::read(written) else { continue };
            let Ok((messages, replies)) = answer::read(answer.body) else { continue };
            for message in &messages {
                let number = self.number_of(message, truth);
                self.known.reported.extend(number);
            }
            for gap in replies.last().map(|reply| reply.gaps()).unwrap_or_default() {
                if let Some(log) = log_of(&gap.channel) {
                    self.record_gap(&gap, log, truth);
                    self.lose_position(&gap, log);
                }
            }
        }
    }

    fn record_gap(&mut self, gap: &ReportedGap, log: usize, truth: &Truth) {
        match gap.range {
            Some(range) => self.known.report(truth.log(log), &gap.epoch, range),
            None => {
                self.restarted |= 1 << log;
                self.unreported.retain(|loss| loss.log != log);
            }
        }
    }

    fn lose_position(&mut self, gap: &ReportedGap, log: usize) {
        if gap.range.is_none() {
            self.logs[log].lose_position();
        }
    }

    /// Processes all gaps of an answer, before its messages. `first` returns the offset of the oldest message
    /// that a log contains in the given epoch.
    pub(super) fn gaps(
        &mut self,
        gaps: &[ReportedGap],
        truth: &Truth,
        first: impl Fn(usize, &str) -> Option<u64>,
    ) -> Verdict {
        for gap in gaps {
            let log = log_of(&gap.channel).ok_or_else(|| format!("a gap of {}", gap.channel))?;
            if !self.known.has_subscribed(log) {
                return Err(format!("{gap:?} of a log it never subscribed to"));
            }
            self.record_gap(gap, log, truth);
            if self.has_gone_back || self.lossy_for > 0 && !self.acknowledges {
                // Record these gaps, but do not require an explanation.
                self.lose_position(gap, log);
                continue;
            }
            let BayeuxSubscription::Active(position) = &self.logs[log] else { continue };
            let published = truth.log(log);
            // The epoch may have changed between the subscribe and its reply, and the model only knows the
            // epoch at the time of the reply.
            let has_moved_since =
                published.may_continue && gap.range.is_none() && position.answered <= position.high;
            if has_moved_since || published.may_continue_as(&position.epoch, &gap.epoch) {
                // A new epoch of the log continues the former one but lacks some of its messages, so the
                // position is unknown.
                self.logs[log] = BayeuxSubscription::Unknown;
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
    pub(super) fn check_losses_reported(&mut self, truth: &Truth) -> Verdict {
        for subscription in &mut self.logs {
            if let BayeuxSubscription::Active(position) = subscription {
                position.answered = position.up_to;
            }
        }
        if self.lossy_for > 0 {
            return Ok(());
        }
        let unreported = std::mem::take(&mut self.unreported);
        let is_missing = |it: &UnreportedLoss| {
            // Losses in a former epoch, or of messages no longer recorded, cannot be checked.
            let log = truth.log(it.log);
            let is_remembered = log.epoch() == it.epoch && log.offset_of(it.number).is_some();
            is_remembered && !self.known.contains(it.number)
        };
        match unreported.into_iter().find(is_missing).filter(|_| !self.is_lenient()) {
            Some(it) => Err(format!("{}: {} is missing and not reported by the answer", it.what, it.number)),
            None => Ok(()),
        }
    }

    /// Returns whether missing messages cannot be checked.
    fn is_lenient(&self) -> bool {
        self.has_gone_back || self.known.is_blind
    }

    /// Processes a message that arrived alone (`is_alone`), or in an answer whose gaps have been processed.
    pub(super) fn message(&mut self, message: &BayeuxMessage, truth: &Truth, is_alone: bool) -> Verdict {
        let number = self.number_of(message, truth);
        let number = number.ok_or_else(|| format!("{message:?} was not published"))?;
        let (BayeuxMessage::Data(channel, _) | BayeuxMessage::Notice(Notice { channel, .. })) = *message;
        if !self.known.receive(number) && !self.may_come_again(channel, number, truth.log(channel), is_alone)
        {
            return Err(format!("message {number} of channel {channel} arrived twice"));
        }
        let mut logs = (0..LOGS).filter(|log| receives(*log, channel));
        if !logs.clone().any(|log| self.known.has_subscribed(log)) {
            return Err(format!("message {number} of channel {channel}, to which it never subscribed"));
        }
        logs.try_for_each(|log| self.message_in_log(log, number, truth.log(log), is_alone))
    }

    /// Returns the number of a message. If several notices have the same content, assumes that the oldest one
    /// that the client does not know has arrived, and prefers notices after the client's position in a log. A
    /// notice that was reported as missing may arrive through another log.
    fn number_of(&self, message: &BayeuxMessage, truth: &Truth) -> Option<u64> {
        let notice = match message {
            BayeuxMessage::Data(_, number) => return Some(*number),
            BayeuxMessage::Notice(notice) => notice,
        };
        let same = || truth.notices.numbers_of(notice);
        let unknown = || same().filter(|number| !self.known.contains(*number));
        let is_next = |number: &u64| {
            self.logs.iter().enumerate().any(|(log, subscription)| {
                let BayeuxSubscription::Active(position) = subscription else { return false };
                truth.log(log).offset_of(*number).is_some_and(|offset| offset > position.up_to)
            })
        };
        unknown()
            .find(is_next)
            .or_else(|| unknown().next())
            .or_else(|| same().find(|number| !self.known.has_received(*number)))
            .or_else(|| same().last())
    }

    /// Checks the position of a message in one of the logs that contain it.
    fn message_in_log(&mut self, log: usize, number: u64, published: &LogTruth, is_alone: bool) -> Verdict {
        let (known, is_lenient) = (&self.known, self.is_lenient());
        let BayeuxSubscription::Active(position) = &mut self.logs[log] else { return Ok(()) };
        let Some(offset) = published.offset_of(number) else { return Ok(()) };
        // The message belongs to an earlier subscription, or arrived through another log.
        if published.epoch() != position.epoch || offset <= position.low {
            return Ok(());
        }
        // A message that this log has lost may still arrive through another log.
        let is_pending_report = is_alone && self.unreported.iter().any(|it| it.log == log);
        let was_reported_missing = known.reported.contains(&number) || is_pending_report;
        if offset <= position.up_to && offset > position.high && !was_reported_missing && !known.is_blind {
            return Err(format!("message {number}, {offset} of log {log}, arrived late: {position:?}"));
        }
        let missing = position.first_missing(offset - 1, published, known).filter(|_| !is_lenient);
        if let Some(missing) = missing {
            let what = format!("message {number}, {offset} of log {log}, arrived at {position:?}");
            if !is_alone {
                return Err(format!("{what}: messages before it are missing and not reported"));
            }
            let (number, epoch) = (published.message(missing), position.epoch.clone());
            self.unreported.extend(number.map(|number| UnreportedLoss { number, log, epoch, what }));
        }
        position.up_to = position.up_to.max(offset);
        Ok(())
    }

    /// Returns whether a message may be received twice: after a gap of unknown length, a new epoch of a log
    /// may start with messages of the former one.
    fn may_come_again(&self, channel: usize, number: u64, published: &LogTruth, is_alone: bool) -> bool {
        // Messages that arrive alone precede the gap.
        let may_be_repeated = is_alone || self.restarted & 1 << channel != 0;
        may_be_repeated && published.may_continue && published.is_in_several_epochs(number)
    }

    /// Describes what the client lacks of a log, whose current epoch and last offset are given. `None` if
    /// nothing is missing.
    pub(crate) fn missing(&self, log: usize, epoch: &str, last: u64, truth: &Truth) -> Option<String> {
        let published = truth.log(log);
        let position = match &self.logs[log] {
            BayeuxSubscription::Inactive => return Some("it is not subscribed".to_owned()),
            BayeuxSubscription::Active(position) => position,
            _ => return None,
        };
        if published.may_continue_as(&position.epoch, epoch) {
            return None;
        }
        if position.epoch != epoch {
            return Some(format!("{position:?} in {epoch}"));
        }
        // Without acknowledgements, a recent loss may not be reported.
        let is_lossy = !self.acknowledges && (self.may_have_lost() || self.lossy_for > 0);
        let missing = position.first_missing(last, published, &self.known);
        let missing = missing.filter(|_| !self.is_lenient() && !is_lossy)?;
        Some(format!("{missing} is missing at {position:?}"))
    }
}
