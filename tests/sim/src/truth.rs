//! Record of all published messages. For each channel and pattern: the messages in the current epoch of its
//! log, and the recent messages of former epochs.

use std::collections::VecDeque;

use encke_server::testing::simulation::MessageView;

use crate::notices::{NOT_IN_CHANNEL, Notice, Notices};

/// Start of every run, in milliseconds since 1970.
pub(crate) const START_MS: u64 = 1_700_000_000_000;

/// Number of the newest messages remembered, in all logs together. All logs forget the same messages, so that
/// messages covered by a gap in one log do not count as missing in another. The server's logs are shorter.
const REMEMBERED: u64 = 8192;

/// Number of past epochs that Redis remembers.
const PAST_EPOCHS: usize = 16;

/// Maximum number of channels in a scenario.
pub(crate) const MAX_CHANNELS: usize = 6;

/// Number of channels and patterns. Patterns are numbered after the channels.
pub(crate) const LOGS: usize = MAX_CHANNELS + 3;

const NAMES: [&str; LOGS] =
    ["/even/0", "/odd/1", "/even/2", "/odd/3", "/even/4", "/odd/5", "/even/*", "/odd/**", "/**"];

pub(crate) fn name_of(log: usize) -> &'static str {
    NAMES[log]
}

pub(crate) fn log_of(name: &str) -> Option<usize> {
    NAMES.iter().position(|it| *it == name)
}

/// Returns whether a log receives the messages published to a channel.
pub(crate) fn receives(log: usize, channel: usize) -> bool {
    match log.checked_sub(MAX_CHANNELS) {
        None => log == channel,
        Some(0) => channel.is_multiple_of(2),
        Some(1) => !channel.is_multiple_of(2),
        Some(_) => true,
    }
}

/// Returns the text of a message: its number among all messages, and padding.
pub(crate) fn text_of(number: u64, length: usize) -> String {
    format!("[{number},\"{}\"]", "x".repeat(length))
}

/// Returns the number in a message's text.
pub(crate) fn number_in(text: &str) -> Option<u64> {
    text.strip_prefix('[')?.split(',').next()?.parse().ok()
}

/// A published message.
#[derive(Clone, Copy, Debug)]
struct Message {
    /// Index of the epoch.
    epoch: usize,
    offset: u64,
    number: u64,
}

#[derive(Debug, Default)]
struct Epoch {
    id: String,
    /// Number of losses of Redis before the epoch.
    losses: u32,
}

/// Messages of one log.
#[derive(Debug, Default)]
pub(crate) struct LogTruth {
    /// All epochs. The last one is current.
    epochs: Vec<Epoch>,
    /// Offset of the newest message.
    pub(crate) last: u64,
    /// Whether a new epoch may continue a former one.
    pub(crate) may_continue: bool,
    /// The remembered messages, ordered by epoch and offset.
    messages: VecDeque<Message>,
    /// Lowest message number that is remembered.
    oldest: u64,
}

/// Messages of all channels and patterns.
#[derive(Debug)]
pub(crate) struct Truth {
    logs: Vec<LogTruth>,
    /// The highest number of a published message so far.
    newest: u64,
    /// How often Redis has lost messages.
    pub(crate) losses: u32,
    /// The highest number of a message so far, published or not.
    numbered: u64,
    pub(crate) notices: Notices,
    /// Whether each log had lost some of its new messages, or did not exist, when it was last observed.
    is_incomplete: [bool; LOGS],
}

/// New messages of a log.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) count: u64,
    /// Numbers of the messages among them that are neither joins nor leaves.
    pub(crate) numbers: Vec<u64>,
    /// Joins and leaves among them. Empty for a pattern.
    pub(crate) notices: Vec<Notice>,
    /// Whether some of the messages had left the log.
    pub(crate) misses_some: bool,
    /// Whether the log has a new epoch.
    pub(crate) is_new_epoch: bool,
}

impl Truth {
    /// Creates an empty record. With Redis, a new epoch of a log may continue a former one.
    pub(crate) fn new(is_in_redis: bool) -> Self {
        let log =
            |_| LogTruth { epochs: vec![Epoch::default()], may_continue: is_in_redis, ..LogTruth::default() };
        Self {
            logs: (0..LOGS).map(log).collect(),
            newest: 0,
            losses: 0,
            numbered: 0,
            notices: Notices::default(),
            is_incomplete: [false; LOGS],
        }
    }

    /// Returns the number for the next message.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    pub(crate) fn log(&self, log: usize) -> &LogTruth {
        &self.logs[log]
    }

    /// Records that the channel does not exist. It may have been removed since the last call, after a message.
    pub(crate) fn removed(&mut self, log: usize) {
        self.is_incomplete[log] = true;
    }

    /// Records the messages published to a log since the last call: its epoch and last offset are given, and
    /// `after` returns the available messages after an offset. An error describes an inconsistency.
    ///
    /// The channels have to be observed before the patterns, and all logs after each step that may publish a
    /// join or a leave.
    pub(crate) fn observe(
        &mut self,
        log: usize,
        (epoch, last): (String, u64),
        now_ms: u64,
        after: impl FnOnce(u64) -> Vec<MessageView>,
    ) -> Result<Observed, String> {
        let (name, truth) = (name_of(log), &mut self.logs[log]);
        self.is_incomplete[log] = false;
        let mut observed = Observed { is_new_epoch: epoch != truth.epoch(), ..Observed::default() };
        if observed.is_new_epoch {
            truth.epochs.push(Epoch { id: epoch, losses: self.losses });
            truth.last = 0;
        }
        observed.count = last
            .checked_sub(truth.last)
            .ok_or_else(|| format!("{name} went back from {} to {last}", truth.last))?;
        if observed.count == 0 {
            return Ok(observed);
        }
        let (before, epoch) = (self.newest, truth.current());
        let messages = after(truth.last);
        observed.misses_some = (messages.len() as u64) < observed.count;
        self.is_incomplete[log] = observed.misses_some;
        for MessageView { offset, channel, kind, data } in messages {
            let unknown = || format!("{name} contains {data} of {channel}");
            let of = log_of(&channel).ok_or_else(unknown)?;
            let number = match Notice::parse(of, kind, &data, now_ms) {
                None => {
                    let number = number_in(&data).ok_or_else(unknown)?;
                    observed.numbers.push(number);
                    number
                }
                Some(notice) if log == of => {
                    self.numbered += 1;
                    self.notices.add(notice.clone(), offset, self.numbered);
                    observed.notices.push(notice);
                    self.numbered
                }
                Some(notice) => match self.notices.numbers_of(&notice).last() {
                    Some(number) => number,
                    // The channel has lost the notice before it was observed.
                    None if self.is_incomplete[of] => {
                        self.numbered += 1;
                        self.notices.add(notice, NOT_IN_CHANNEL, self.numbered);
                        self.numbered
                    }
                    None => return Err(unknown()),
                },
            };
            truth.messages.push_back(Message { epoch, offset, number });
            self.newest = self.newest.max(number);
        }
        truth.last = last;
        if self.newest > before {
            let oldest = self.newest.saturating_sub(REMEMBERED);
            self.logs.iter_mut().for_each(|truth| truth.forget(oldest));
        }
        Ok(observed)
    }
}

impl LogTruth {
    pub(crate) fn epoch(&self) -> &str {
        &self.epochs[self.current()].id
    }

    fn current(&self) -> usize {
        self.epochs.len() - 1
    }

    fn forget(&mut self, oldest: u64) {
        self.oldest = oldest;
        // Keep the newest message: its offset is needed to find messages that were never observed.
        while self.messages.len() > 1 && self.messages.front().is_some_and(|it| it.number < oldest) {
            self.messages.pop_front();
        }
    }

    fn epoch_index(&self, epoch: &str) -> Option<usize> {
        self.epochs.iter().rposition(|it| it.id == epoch)
    }

    /// Returns the index of the first message in this or a later epoch.
    fn start_of(&self, epoch: usize) -> usize {
        self.messages.partition_point(|it| it.epoch < epoch)
    }

    fn observed(&self, epoch: usize, offset: u64) -> Option<u64> {
        let at = self.messages.binary_search_by_key(&(epoch, offset), |it| (it.epoch, it.offset));
        at.ok().map(|at| self.messages[at].number)
    }

    /// Returns the number of the message at this offset in the given epoch, if it is remembered.
    pub(crate) fn message_of(&self, epoch: &str, offset: u64) -> Option<u64> {
        self.observed(self.epoch_index(epoch)?, offset).filter(|number| *number >= self.oldest)
    }

    /// Returns the number of the message at this offset in the current epoch, if it is remembered.
    pub(crate) fn message(&self, offset: u64) -> Option<u64> {
        self.observed(self.current(), offset).filter(|number| *number >= self.oldest)
    }

    /// Returns the offset of the message with this number in the current epoch, if it is remembered.
    pub(crate) fn offset_of(&self, number: u64) -> Option<u64> {
        let current = self.messages.iter().rev().take_while(|it| it.epoch == self.current());
        let found = current.filter(|_| number >= self.oldest).find(|it| it.number == number);
        found.map(|it| it.offset)
    }

    /// Returns whether the message may belong to an epoch before `epoch`.
    pub(crate) fn is_in_earlier_epoch(&self, epoch: &str, offset: u64, number: u64) -> bool {
        let own = self.epoch_index(epoch).map_or(0, |epoch| self.start_of(epoch));
        let is_same = |it: &Message| (it.offset, it.number) == (offset, number);
        number < self.oldest || self.messages.range(..own).any(is_same)
    }

    /// Returns whether the message may belong to an epoch other than `epoch`.
    pub(crate) fn is_in_other_epoch(&self, epoch: &str, offset: u64, number: u64) -> bool {
        let later = self.epoch_index(epoch).map_or(0, |epoch| self.start_of(epoch + 1));
        let is_same = |it: &Message| (it.offset, it.number) == (offset, number);
        self.is_in_earlier_epoch(epoch, offset, number) || self.messages.range(later..).any(is_same)
    }

    pub(crate) fn is_also_in_other_epoch(&self, epoch: &str, offset: u64) -> bool {
        let number = self.message_of(epoch, offset);
        number.is_some_and(|number| self.is_in_other_epoch(epoch, offset, number))
    }

    /// Returns whether the message with this number may be in several epochs.
    pub(crate) fn is_in_several_epochs(&self, number: u64) -> bool {
        number < self.oldest || self.messages.iter().filter(|it| it.number == number).count() > 1
    }

    pub(crate) fn was_before(&self, one: &str, other: &str) -> bool {
        self.epoch_index(one).zip(self.epoch_index(other)).is_some_and(|(one, other)| one < other)
    }

    /// Returns whether the second epoch continues the first one, and contains all its messages.
    pub(crate) fn continues_all(&self, one: &str, other: &str) -> bool {
        let (Some(one), Some(other)) = (self.epoch_index(one), self.epoch_index(other)) else { return false };
        let is_known = one > 0 && (1..=PAST_EPOCHS).contains(&other.saturating_sub(one));
        self.may_continue && is_known && self.epochs[one].losses == self.epochs[other].losses
    }

    /// Returns the latest epoch that contains this message, or the current epoch if none is known to contain
    /// it.
    pub(crate) fn epoch_containing(&self, offset: u64, number: u64) -> &str {
        let found = self.messages.iter().rev().find(|it| (it.offset, it.number) == (offset, number));
        &self.epochs[found.map_or(self.current(), |it| it.epoch)].id
    }

    /// Returns whether a session may have moved from one epoch to the other.
    pub(crate) fn may_continue_as(&self, one: &str, other: &str) -> bool {
        let is_known = |epoch| self.epoch_index(epoch).is_some();
        self.may_continue && one != other && is_known(one) && is_known(other)
    }

    /// Returns whether a later epoch has the same messages as a former one up to this offset. Messages that are
    /// not remembered count as equal.
    pub(crate) fn continues_from(&self, epoch: &str, later: &str, up_to: u64) -> bool {
        let before = self.message_of(epoch, up_to);
        before.zip(self.message_of(later, up_to)).is_none_or(|(before, now)| before == now)
            && (before.is_none() || later != self.epoch() || up_to <= self.last)
    }

    /// Returns the numbers of the remembered messages in this range of an epoch, and whether there may be
    /// more that other logs contain as well: a message may have left the log, or its epoch may have ended,
    /// before it was observed.
    pub(crate) fn numbers(&self, epoch: &str, (from, to): (u64, u64)) -> (Vec<u64>, bool) {
        let index = self.epoch_index(epoch).unwrap_or(usize::MAX - 1);
        let of_epoch = self.messages.range(self.start_of(index)..self.start_of(index + 1));
        let first = of_epoch.clone().next().map_or(0, |it| it.offset);
        let numbers: Vec<u64> =
            of_epoch.filter(|it| (from..=to).contains(&it.offset)).map(|it| it.number).collect();
        let is_current = index == self.current();
        let last = if is_current { to.min(self.last) } else { to };
        let expected = last.saturating_add(1).saturating_sub(from.max(first));
        // With Redis, no other log contains the messages of a former epoch.
        let may_lack = (numbers.len() as u64) < expected && (is_current || !self.may_continue);
        (numbers, may_lack)
    }
}
