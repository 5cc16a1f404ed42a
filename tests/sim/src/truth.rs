//! What was published: for each channel, and each pattern, the messages of its log's present life, by number.

use std::collections::VecDeque;

use encke_server::simulation::Server;

/// Messages of which the content is remembered. The server's logs hold fewer.
const REMEMBERED: usize = 512;

/// One life of a channel's log.
#[derive(Debug, Default)]
pub(crate) struct ChannelTruth {
    pub(crate) epoch: String,
    /// The number of the newest message.
    pub(crate) last: u64,
    /// What was published last, each with its number.
    messages: VecDeque<(u64, u64)>,
    /// Lives that are over,
    former: Vec<String>,
    /// and the last messages of them, each with its place in that list.
    former_messages: VecDeque<(usize, (u64, u64))>,
}

/// All channels.
#[derive(Debug)]
pub(crate) struct Truth {
    channels: Vec<ChannelTruth>,
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
    pub(crate) fn new() -> Self {
        Self { channels: (0..LOGS).map(|_| ChannelTruth::default()).collect() }
    }

    pub(crate) fn channel(&self, channel: u8) -> &ChannelTruth {
        &self.channels[usize::from(channel)]
    }

    /// Reads what was published on a channel since the last look. Returns what is wrong with it, if anything.
    pub(crate) fn look(&mut self, channel: u8, server: &Server) -> Result<u64, String> {
        let truth = &mut self.channels[usize::from(channel)];
        let name = channel_name(channel);
        let Some(view) = server.channel(&name) else { return Ok(0) };
        if view.epoch != truth.epoch {
            truth.begin_life(view.epoch);
        }
        if view.last < truth.last {
            return Err(format!("{name} has gone back from {} to {}", truth.last, view.last));
        }
        if view.last == truth.last {
            return Ok(0);
        }
        let fresh = view.last - truth.last;
        for (offset, data) in server.history(&name, truth.last) {
            let number = number_in(&data).ok_or_else(|| format!("{name} holds {data}"))?;
            truth.messages.push_back((offset, number));
            if truth.messages.len() > REMEMBERED {
                truth.messages.pop_front();
            }
        }
        truth.last = view.last;
        Ok(fresh)
    }
}

impl ChannelTruth {
    fn begin_life(&mut self, epoch: String) {
        let life = self.former.len();
        self.former.push(std::mem::replace(&mut self.epoch, epoch));
        self.former_messages.extend(self.messages.drain(..).map(|message| (life, message)));
        self.former_messages.drain(..self.former_messages.len().saturating_sub(REMEMBERED));
        self.last = 0;
    }

    /// Whether this is a message of another life than this one.
    pub(crate) fn is_of_another_life(&self, epoch: &str, offset: u64, number: u64) -> bool {
        self.former_messages.iter().any(|(_, message)| *message == (offset, number))
            || self.epoch != epoch && self.message(offset) == Some(number)
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
        self.epoch == epoch || self.former.iter().any(|former| former == epoch)
    }

    /// The number of the message at this offset, if it is remembered.
    pub(crate) fn message(&self, offset: u64) -> Option<u64> {
        let at = self.messages.binary_search_by_key(&offset, |(offset, _)| *offset).ok()?;
        self.messages.get(at).map(|(_, number)| *number)
    }

    /// Whether a message left the log before anyone could look at it: its number is not known.
    pub(crate) fn was_never_seen(&self, offset: u64) -> bool {
        let is_late = self.messages.front().is_none_or(|(first, _)| offset > *first);
        is_late && offset <= self.last && self.message(offset).is_none()
    }

    /// The offset of the message with this number, if it is remembered.
    pub(crate) fn offset_of(&self, number: u64) -> Option<u64> {
        self.messages.iter().rev().find(|(_, it)| *it == number).map(|(offset, _)| *offset)
    }
}
