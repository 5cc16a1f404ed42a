//! What was published: for each channel, and each pattern, the messages of its log's present life, by number.

use std::collections::VecDeque;

use encke_server::simulation::Server;

use crate::redis::Redis;

/// When a run begins, in milliseconds since 1970.
pub(crate) const START_MS: u64 = 1_700_000_000_000;

/// Where logs live.
pub(crate) trait Logs {
    /// The epoch and the newest message of a log, if it is there.
    fn state(&self, name: &str) -> Option<(String, u64)>;

    /// Its messages after this one that are there.
    fn after(&self, name: &str, since: u64) -> Vec<(u64, String)>;
}

impl Logs for Server {
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

/// So many of the newest messages are remembered, of all logs together: what one of them has forgotten, no other knows, so that a gap of
/// one log is not held against another. The server's logs hold fewer.
const REMEMBERED: u64 = 8192;

/// One life of a channel's log.
#[derive(Debug, Default)]
pub(crate) struct ChannelTruth {
    pub(crate) epoch: String,
    /// The number of the newest message.
    pub(crate) last: u64,
    /// A life may go on where a former one was.
    pub(crate) goes_on: bool,
    /// What was published last, each with its number.
    messages: VecDeque<(u64, u64)>,
    /// Messages whose numbers are lower are forgotten.
    oldest: u64,
    /// Lives that are over,
    former: Vec<String>,
    /// and the last messages of them, each with its place in that list.
    former_messages: VecDeque<(usize, (u64, u64))>,
}

/// All channels.
#[derive(Debug)]
pub(crate) struct Truth {
    channels: Vec<ChannelTruth>,
    /// The highest number of a message.
    newest: u64,
}

/// The most channels that a scenario has.
pub(crate) const MOST_CHANNELS: u8 = 6;

/// Their numbers follow those of channels.
const PATTERNS: [&str; (LOGS - MOST_CHANNELS) as usize] = ["/even/*", "/odd/**", "/**"];

/// Channels and patterns.
pub(crate) const LOGS: u8 = MOST_CHANNELS + 3;

/// The name of a channel or a pattern.
pub(crate) fn channel_name(channel: u8) -> String {
    match channel.checked_sub(MOST_CHANNELS) {
        None => format!("/{}/{channel}", if channel.is_multiple_of(2) { "even" } else { "odd" }),
        Some(pattern) => PATTERNS[usize::from(pattern)].to_owned(),
    }
}

/// The channel, or the pattern, of a name.
pub(crate) fn channel_of(name: &str) -> Option<u8> {
    (0..LOGS).find(|channel| channel_name(*channel) == name)
}

/// Whether what is published on a channel is in this log.
pub(crate) fn follows(log: u8, channel: u8) -> bool {
    match log.checked_sub(MOST_CHANNELS) {
        None => log == channel,
        Some(0) => channel.is_multiple_of(2),
        Some(1) => !channel.is_multiple_of(2),
        Some(_) => true,
    }
}

/// A message's text: its number among all that were published, and something to give it length.
pub(crate) fn text_of(number: u64, length: usize) -> String {
    format!("[{number},\"{}\"]", "x".repeat(length))
}

/// The number in a message's text.
pub(crate) fn number_in(text: &str) -> Option<u64> {
    text.strip_prefix('[')?.split(',').next()?.parse().ok()
}

impl Truth {
    /// In Redis, a life of a log may go on where a former one was.
    pub(crate) fn new(is_in_redis: bool) -> Self {
        let channel = || ChannelTruth { goes_on: is_in_redis, ..ChannelTruth::default() };
        Self { channels: (0..LOGS).map(|_| channel()).collect(), newest: 0 }
    }

    pub(crate) fn channel(&self, channel: u8) -> &ChannelTruth {
        &self.channels[usize::from(channel)]
    }

    /// Reads what was published on a channel since the last look. Returns what is wrong with it, if anything.
    pub(crate) fn look(&mut self, channel: u8, logs: &impl Logs) -> Result<u64, String> {
        let truth = &mut self.channels[usize::from(channel)];
        let name = channel_name(channel);
        let Some((epoch, last)) = logs.state(&name) else { return Ok(0) };
        if epoch != truth.epoch {
            truth.begin_life(epoch);
        }
        if last < truth.last {
            return Err(format!("{name} has gone back from {} to {last}", truth.last));
        }
        if last == truth.last {
            return Ok(0);
        }
        let fresh = last - truth.last;
        let mut newest = self.newest;
        for (offset, data) in logs.after(&name, truth.last) {
            let number = number_in(&data).ok_or_else(|| format!("{name} holds {data}"))?;
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
    fn begin_life(&mut self, epoch: String) {
        let life = self.former.len();
        self.former.push(std::mem::replace(&mut self.epoch, epoch));
        self.former_messages.extend(self.messages.drain(..).map(|message| (life, message)));
        self.last = 0;
    }

    fn forget(&mut self, oldest: u64) {
        self.oldest = oldest;
        // By the first that is left it is known what was never seen.
        while self.messages.len() > 1 && self.messages.front().is_some_and(|(_, number)| *number < oldest) {
            self.messages.pop_front();
        }
        while self.former_messages.front().is_some_and(|(_, (_, number))| *number < oldest) {
            self.former_messages.pop_front();
        }
    }

    /// The place of a life in the order in which they were.
    fn life(&self, epoch: &str) -> Option<usize> {
        let is_present = || (self.epoch == epoch).then_some(self.former.len());
        is_present().or_else(|| self.former_life(epoch))
    }

    /// The same of one that is over.
    fn former_life(&self, epoch: &str) -> Option<usize> {
        self.former.iter().position(|former| former == epoch)
    }

    /// Whether this may be a message of another life than this one.
    pub(crate) fn is_of_another_life(&self, epoch: &str, offset: u64, number: u64) -> bool {
        let life = self.life(epoch);
        self.is_of_a_life(offset, number, |it| Some(it) != life)
    }

    /// Whether this may be a message of a life that was before this one.
    pub(crate) fn is_of_earlier_life(&self, epoch: &str, offset: u64, number: u64) -> bool {
        let life = self.life(epoch);
        self.is_of_a_life(offset, number, |it| Some(it) < life)
    }

    fn is_of_a_life(&self, offset: u64, number: u64, is_meant: impl Fn(usize) -> bool) -> bool {
        number < self.oldest
            || is_meant(self.former.len()) && self.message(offset) == Some(number)
            || self.former_messages.iter().any(|(life, it)| *it == (offset, number) && is_meant(*life))
    }

    /// Whether the message with this number may be in several lives.
    pub(crate) fn is_in_several_lives(&self, number: u64) -> bool {
        let former = self.former_messages.iter().filter(|(_, (_, it))| *it == number).count();
        number < self.oldest || former + usize::from(self.offset_of(number).is_some()) > 1
    }

    /// Whether one life of the channel was before the other.
    pub(crate) fn was_before(&self, one: &str, other: &str) -> bool {
        self.life(one).zip(self.life(other)).is_some_and(|(one, other)| one < other)
    }

    /// The life that this is a message of: of none that is known, the present one.
    pub(crate) fn epoch_of(&self, offset: u64, number: u64) -> &str {
        if self.message(offset) == Some(number) {
            return &self.epoch;
        }
        let former = self.former_messages.iter().rev().find(|(_, message)| *message == (offset, number));
        former.map_or(&self.epoch, |(life, _)| &self.former[*life])
    }

    /// Whether this is a life of the channel, now or before.
    pub(crate) fn has_lived(&self, epoch: &str) -> bool {
        self.life(epoch).is_some()
    }

    /// Whether sessions that were in one life may be in the other now.
    pub(crate) fn may_go_on(&self, one: &str, other: &str) -> bool {
        self.goes_on && one != other && self.has_lived(one) && self.has_lived(other)
    }

    /// The number of the message at this offset in a former life, if it is remembered.
    pub(crate) fn former_message(&self, epoch: &str, offset: u64) -> Option<u64> {
        let of_life = self.former_life(epoch)?;
        let found = self.former_messages.iter().find(|(life, (at, _))| *at == offset && *life == of_life);
        found.map(|(_, (_, number))| *number)
    }

    /// The numbers of these messages of a life, as far as they are remembered, and whether there may be more that other logs have too:
    /// a life may end, and its last messages with it, before anyone could look at them.
    pub(crate) fn numbers(&self, epoch: &str, (from, to): (u64, u64)) -> (Vec<u64>, bool) {
        let offsets = from..=to;
        if epoch == self.epoch {
            let unseen = offsets.clone().any(|offset| self.was_never_seen(offset));
            return (offsets.filter_map(|offset| self.message(offset)).collect(), unseen);
        }
        let life = self.former_life(epoch);
        let of_life =
            self.former_messages.iter().filter(|(of, _)| Some(*of) == life).map(|(_, message)| *message);
        let first = of_life.clone().next().map_or(from, |(first, _)| first.max(from));
        let numbers: Vec<u64> =
            of_life.filter(|(offset, _)| offsets.contains(offset)).map(|(_, number)| number).collect();
        // In Redis no other log has them.
        let unseen = !self.goes_on && (numbers.len() as u64) < to.saturating_sub(first).saturating_add(1);
        (numbers, unseen)
    }

    /// Whether the present life has the same as a former one up to here, as far as anyone remembers.
    pub(crate) fn goes_on_from(&self, epoch: &str, up_to: u64) -> bool {
        let before = self.former_message(epoch, up_to);
        before.zip(self.message(up_to)).is_none_or(|(before, now)| before == now)
            && (before.is_none() || up_to <= self.last)
    }

    /// The number of the message at this offset, if it is remembered.
    pub(crate) fn message(&self, offset: u64) -> Option<u64> {
        self.seen(offset).filter(|number| *number >= self.oldest)
    }

    fn seen(&self, offset: u64) -> Option<u64> {
        let at = self.messages.binary_search_by_key(&offset, |(offset, _)| *offset).ok()?;
        self.messages.get(at).map(|(_, number)| *number)
    }

    /// The number of the message at this offset in any life, if it is remembered.
    pub(crate) fn message_of(&self, epoch: &str, offset: u64) -> Option<u64> {
        if epoch == self.epoch { self.message(offset) } else { self.former_message(epoch, offset) }
    }

    /// Whether another life than this one has the same message at this offset.
    pub(crate) fn is_in_another_life(&self, epoch: &str, offset: u64) -> bool {
        let number = self.message_of(epoch, offset);
        number.is_some_and(|number| self.is_of_another_life(epoch, offset, number))
    }

    /// Whether a message left the log before anyone could look at it: its number is not known.
    pub(crate) fn was_never_seen(&self, offset: u64) -> bool {
        let is_late = self.messages.front().is_none_or(|(first, _)| offset > *first);
        is_late && offset <= self.last && self.seen(offset).is_none()
    }

    /// The offset of the message with this number, if it is remembered.
    pub(crate) fn offset_of(&self, number: u64) -> Option<u64> {
        let found = self.messages.iter().rev().find(|(_, it)| *it == number && number >= self.oldest);
        found.map(|(offset, _)| *offset)
    }
}
