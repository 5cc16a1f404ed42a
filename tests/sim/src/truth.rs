//! What was published: for each channel the messages of its present life, by number.

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
}

/// All channels.
#[derive(Debug)]
pub(crate) struct Truth {
    channels: Vec<ChannelTruth>,
}

/// The name of a channel.
pub(crate) fn channel_name(channel: u8) -> String {
    format!("channel-{channel}")
}

/// The channel of a name.
pub(crate) fn channel_of(name: &str) -> Option<u8> {
    name.strip_prefix("channel-")?.parse().ok()
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
    pub(crate) fn new(channels: u8) -> Self {
        Self { channels: (0..channels).map(|_| ChannelTruth::default()).collect() }
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
            *truth = ChannelTruth { epoch: view.epoch, last: 0, messages: VecDeque::new() };
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
    /// The number of the message at this offset, if it is remembered.
    pub(crate) fn message(&self, offset: u64) -> Option<u64> {
        let at = self.messages.binary_search_by_key(&offset, |(offset, _)| *offset).ok()?;
        self.messages.get(at).map(|(_, number)| *number)
    }
}
