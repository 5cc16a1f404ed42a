use serde::Serialize;

use crate::dialect::Event;

/// What a client is to be told when it next asks for what is new: Bayeux has no messages for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Missed {
    /// Messages that it should have had. One for each life of each channel, so there are no more than it follows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<Gap>,
    /// Channels that it follows by the server's will.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subscribed: Vec<Subscribed>,
    /// Channels that it no longer follows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unsubscribed: Vec<Unsubscribed>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Gap {
    channel: Box<str>,
    epoch: Box<str>,
    /// The first and the last that are missing, if they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Subscribed {
    channel: Box<str>,
    epoch: Box<str>,
    /// What comes next follows this message.
    offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Unsubscribed {
    channel: Box<str>,
    reason: Box<str>,
}

impl Missed {
    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gaps.is_empty() && self.subscribed.is_empty() && self.unsubscribed.is_empty()
    }

    /// Remembers a gap, or that a subscription has begun or ended. Of each channel, what was last.
    pub fn note(&mut self, event: &Event<'_>) {
        match *event {
            Event::Gap { channel, epoch, range, .. } => self.note_gap(channel, epoch, range),
            Event::Subscribed { channel, epoch, offset } => {
                self.unsubscribed.retain(|it| *it.channel != *channel);
                self.subscribed.retain(|it| *it.channel != *channel);
                self.subscribed.push(Subscribed { channel: channel.into(), epoch: epoch.into(), offset });
            }
            Event::Unsubscribed { channel, reason } => {
                self.subscribed.retain(|it| *it.channel != *channel);
                self.unsubscribed.retain(|it| *it.channel != *channel);
                self.unsubscribed.push(Unsubscribed { channel: channel.into(), reason: reason.into() });
            }
            _ => {}
        }
    }

    /// Gaps and beginnings were not told, and come again.
    pub fn forget_taken(&mut self) {
        self.gaps.clear();
        self.subscribed.clear();
    }

    /// Two gaps of one channel are told as one, which may say too much.
    fn note_gap(&mut self, channel: &str, epoch: &str, range: Option<(u64, u64)>) {
        let (from, to) = range.unzip();
        match self.gaps.iter_mut().find(|it| *it.channel == *channel && *it.epoch == *epoch) {
            Some(gap) => {
                gap.from = gap.from.zip(from).map(|(one, other)| one.min(other));
                gap.to = gap.to.zip(to).map(|(one, other)| one.max(other));
            }
            None => {
                // Of a channel that has begun anew, only its present life can be had.
                self.gaps.retain(|it| *it.channel != *channel);
                self.gaps.push(Gap { channel: channel.into(), epoch: epoch.into(), from, to });
            }
        }
    }
}
