//! Record of all published messages. For each channel and pattern: the messages in the current epoch of its
//! log, and the recent messages of former epochs.

use std::collections::VecDeque;

use encke_server::testing::simulation::SimulatedServer;

use crate::redis::Redis;

/// Start of every run, in milliseconds since 1970.
pub(crate) const START_MS: u64 = 1_700_000_000_000;

/// Source of the logs: the server or Redis.
pub(crate) trait Logs {
    /// Returns the epoch and the last offset of a log, if it exists.
    fn state(&self, name: &str) -> Option<(String, u64)>;

    /// Returns the available messages of a log after `since`.
    fn after(&self, name: &str, since: u64) -> Vec<(u64, String)>;
}

impl Logs for SimulatedServer {
    fn state(&self, name: &str) -> Option<(String, u64)> {
        self.channel(name).map(|view| (view.epoch, view.last))
    }

    fn after(&self, name: &str, since: u64) -> Vec<(u64, String)> {
        self.history(name, since)
    }
}

impl Logs for Redis {
    fn state(&self, name: &str) -> Option<(String, u64)> {
        self.state_of(name)
    }

    fn after(&self, name: &str, since: u64) -> Vec<(u64, String)> {
        self.history(name, since)
    }
}

/// Number of the newest messages remembered, in all logs together. All logs forget the same messages, so that
/// messages covered by a gap in one log do not count as missing in another. The server's logs are shorter.
const REMEMBERED: u64 = 8192;

/// Messages of a channel's log.
#[derive(Debug, Default)]
pub(crate) struct ChannelTruth {
    pub(crate) epoch: String,
    /// Offset of the newest message.
    pub(crate) last: u64,
    /// Whether a new epoch may continue a former one.
    pub(crate) may_continue: bool,
    /// The latest messages, each as its offset and message number.
    messages: VecDeque<(u64, u64)>,
    /// Lowest message number that is remembered.
    oldest: u64,
    /// Former epochs, oldest first.
    former: Vec<String>,
    /// Messages of former epochs, each with the index of its epoch in `former`.
    former_messages: VecDeque<(usize, (u64, u64))>,
}

/// Messages of all channels and patterns.
#[derive(Debug)]
pub(crate) struct Truth {
    channels: Vec<ChannelTruth>,
    /// The highest message number so far.
    newest: u64,
}

/// Maximum number of channels in a scenario.
pub(crate) const MAX_CHANNELS: u8 = 6;

/// Patterns are numbered after the channels.
const PATTERNS: [&str; (LOGS - MAX_CHANNELS) as usize] = ["/even/*", "/odd/**", "/**"];

/// Number of channels and patterns.
pub(crate) const LOGS: u8 = MAX_CHANNELS + 3;

/// Returns the name of a channel or pattern.
pub(crate) fn channel_name(channel: u8) -> String {
    match channel.checked_sub(MAX_CHANNELS) {
        None => format!("/{}/{channel}", if channel.is_multiple_of(2) { "even" } else { "odd" }),
        Some(pattern) => PATTERNS[usize::from(pattern)].to_owned(),
    }
}

/// Returns the channel or pattern with this name.
pub(crate) fn channel_of(name: &str) -> Option<u8> {
    (0..LOGS).find(|channel| channel_name(*channel) == name)
}

/// Returns whether a log receives the messages published to a channel.
pub(crate) fn receives(log: u8, channel: u8) -> bool {
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

impl Truth {
    /// Creates an empty record. With Redis, a new epoch of a log may continue a former one.
    pub(crate) fn new(is_in_redis: bool) -> Self {
        let channel = || ChannelTruth { may_continue: is_in_redis, ..ChannelTruth::default() };
        Self { channels: (0..LOGS).map(|_| channel()).collect(), newest: 0 }
    }

    pub(crate) fn channel(&self, channel: u8) -> &ChannelTruth {
        &self.channels[usize::from(channel)]
    }

    /// Reads the messages published to a channel since the last call. Returns their number, or a description
    /// of an inconsistency.
    pub(crate) fn observe(&mut self, channel: u8, logs: &impl Logs) -> Result<u64, String> {
        let truth = &mut self.channels[usize::from(channel)];
        let name = channel_name(channel);
        let Some((epoch, last)) = logs.state(&name) else { return Ok(0) };
        if epoch != truth.epoch {
            truth.begin_epoch(epoch);
        }
        if last < truth.last {
            return Err(format!("{name} went back from {} to {last}", truth.last));
        }
        if last == truth.last {
            return Ok(0);
        }
        let fresh = last - truth.last;
        let mut newest = self.newest;
        for (offset, data) in logs.after(&name, truth.last) {
            let number = number_in(&data).ok_or_else(|| format!("{name} contains {data}"))?;
            truth.messages.push_back((offset, number));
            newest = newest.max(number);
        }
        truth.last = last;
        if newest > self.newest {
            self.newest = newest;
            let oldest = newest.saturating_sub(REMEMBERED);
            self.channels.iter_mut().for_each(|truth| truth.forget(oldest));
        }
        Ok(fresh)
    }
}

impl ChannelTruth {
    fn begin_epoch(&mut self, epoch: String) {
        let epoch_index = self.former.len();
        self.former.push(std::mem::replace(&mut self.epoch, epoch));
        self.former_messages.extend(self.messages.drain(..).map(|message| (epoch_index, message)));
        self.last = 0;
    }

    fn forget(&mut self, oldest: u64) {
        self.oldest = oldest;
        // Keep the oldest message: its offset is needed to find messages that were never observed.
        while self.messages.len() > 1 && self.messages.front().is_some_and(|(_, number)| *number < oldest) {
            self.messages.pop_front();
        }
        while self.former_messages.front().is_some_and(|(_, (_, number))| *number < oldest) {
            self.former_messages.pop_front();
        }
    }

    /// Returns the position of an epoch among all epochs of the channel.
    fn epoch_index(&self, epoch: &str) -> Option<usize> {
        let is_present = || (self.epoch == epoch).then_some(self.former.len());
        is_present().or_else(|| self.former_index(epoch))
    }

    fn former_index(&self, epoch: &str) -> Option<usize> {
        self.former.iter().position(|former| former == epoch)
    }

    /// Returns whether the message may belong to an epoch other than `epoch`.
    pub(crate) fn is_in_other_epoch(&self, epoch: &str, offset: u64, number: u64) -> bool {
        let epoch_index = self.epoch_index(epoch);
        self.is_in_epoch(offset, number, |it| Some(it) != epoch_index)
    }

    /// Returns whether the message may belong to an epoch before `epoch`.
    pub(crate) fn is_in_earlier_epoch(&self, epoch: &str, offset: u64, number: u64) -> bool {
        let epoch_index = self.epoch_index(epoch);
        self.is_in_epoch(offset, number, |it| Some(it) < epoch_index)
    }

    fn is_in_epoch(&self, offset: u64, number: u64, is_meant: impl Fn(usize) -> bool) -> bool {
        number < self.oldest
            || is_meant(self.former.len()) && self.message(offset) == Some(number)
            || self
                .former_messages
                .iter()
                .any(|(epoch_index, it)| *it == (offset, number) && is_meant(*epoch_index))
    }

    /// Returns whether the message with this number may be in several epochs.
    pub(crate) fn is_in_several_epochs(&self, number: u64) -> bool {
        let former = self.former_messages.iter().filter(|(_, (_, it))| *it == number).count();
        number < self.oldest || former + usize::from(self.offset_of(number).is_some()) > 1
    }

    /// Returns whether the epoch `one` precedes `other`.
    pub(crate) fn was_before(&self, one: &str, other: &str) -> bool {
        self.epoch_index(one).zip(self.epoch_index(other)).is_some_and(|(one, other)| one < other)
    }

    /// Returns the epoch that contains this message, or the current epoch if none is known to contain it.
    pub(crate) fn epoch_containing(&self, offset: u64, number: u64) -> &str {
        if self.message(offset) == Some(number) {
            return &self.epoch;
        }
        let former = self.former_messages.iter().rev().find(|(_, message)| *message == (offset, number));
        former.map_or(&self.epoch, |(epoch_index, _)| &self.former[*epoch_index])
    }

    /// Returns whether this is or was an epoch of the channel.
    pub(crate) fn is_known_epoch(&self, epoch: &str) -> bool {
        self.epoch_index(epoch).is_some()
    }

    /// Returns whether a session may have moved from one epoch to the other.
    pub(crate) fn may_continue_as(&self, one: &str, other: &str) -> bool {
        self.may_continue && one != other && self.is_known_epoch(one) && self.is_known_epoch(other)
    }

    /// Returns the number of the message at this offset in a former epoch, if it is remembered.
    pub(crate) fn former_message(&self, epoch: &str, offset: u64) -> Option<u64> {
        let of_life = self.former_index(epoch)?;
        let found = self
            .former_messages
            .iter()
            .find(|(epoch_index, (at, _))| *at == offset && *epoch_index == of_life);
        found.map(|(_, (_, number))| *number)
    }

    /// Returns the numbers of the remembered messages in this range of an epoch, and whether there may be
    /// more that other logs contain as well: an epoch may end before its last messages were observed.
    pub(crate) fn numbers(&self, epoch: &str, (from, to): (u64, u64)) -> (Vec<u64>, bool) {
        let offsets = from..=to;
        if epoch == self.epoch {
            let may_have_unobserved = offsets.clone().any(|offset| self.was_never_observed(offset));
            return (offsets.filter_map(|offset| self.message(offset)).collect(), may_have_unobserved);
        }
        let epoch_index = self.former_index(epoch);
        let of_life = self
            .former_messages
            .iter()
            .filter(|(of, _)| Some(*of) == epoch_index)
            .map(|(_, message)| *message);
        let first = of_life.clone().next().map_or(from, |(first, _)| first.max(from));
        let numbers: Vec<u64> =
            of_life.filter(|(offset, _)| offsets.contains(offset)).map(|(_, number)| number).collect();
        // With Redis, no other log contains the messages of this one.
        let may_have_unobserved =
            !self.may_continue && (numbers.len() as u64) < to.saturating_sub(first).saturating_add(1);
        (numbers, may_have_unobserved)
    }

    /// Returns whether the current epoch has the same messages as a former one up to this offset. Messages
    /// that are not remembered count as equal.
    pub(crate) fn continues_from(&self, epoch: &str, up_to: u64) -> bool {
        let before = self.former_message(epoch, up_to);
        before.zip(self.message(up_to)).is_none_or(|(before, now)| before == now)
            && (before.is_none() || up_to <= self.last)
    }

    /// Returns the number of the message at this offset in the current epoch, if it is remembered.
    pub(crate) fn message(&self, offset: u64) -> Option<u64> {
        self.observed(offset).filter(|number| *number >= self.oldest)
    }

    fn observed(&self, offset: u64) -> Option<u64> {
        let at = self.messages.binary_search_by_key(&offset, |(offset, _)| *offset).ok()?;
        self.messages.get(at).map(|(_, number)| *number)
    }

    /// Returns the number of the message at this offset in the given epoch, if it is remembered.
    pub(crate) fn message_of(&self, epoch: &str, offset: u64) -> Option<u64> {
        if epoch == self.epoch { self.message(offset) } else { self.former_message(epoch, offset) }
    }

    /// Returns whether another epoch has the same message at this offset.
    pub(crate) fn is_also_in_other_epoch(&self, epoch: &str, offset: u64) -> bool {
        let number = self.message_of(epoch, offset);
        number.is_some_and(|number| self.is_in_other_epoch(epoch, offset, number))
    }

    /// Returns whether a message left the log before it was observed, so that its number is unknown.
    pub(crate) fn was_never_observed(&self, offset: u64) -> bool {
        let is_late = self.messages.front().is_none_or(|(first, _)| offset > *first);
        is_late && offset <= self.last && self.observed(offset).is_none()
    }

    /// Returns the offset of the message with this number, if it is remembered.
    pub(crate) fn offset_of(&self, number: u64) -> Option<u64> {
        let found = self.messages.iter().rev().find(|(_, it)| *it == number && number >= self.oldest);
        found.map(|(offset, _)| *offset)
    }
}
