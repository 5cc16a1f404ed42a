use serde::Serialize;

use crate::dialect::ServerEvent;

/// Events to report with the next reply to `/meta/connect`, because Bayeux has no messages for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MissedEvents {
    /// Gaps, at most one per channel, so their number is limited by the number of subscriptions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<MissedGap>,
    /// Subscriptions that the client did not request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subscribed: Vec<AddedSubscription>,
    /// Subscriptions that ended without the client's request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unsubscribed: Vec<EndedSubscription>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct MissedGap {
    channel: Box<str>,
    epoch: Box<str>,
    /// First missing offset, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct AddedSubscription {
    channel: Box<str>,
    epoch: Box<str>,
    /// Offset of the message before the first one to be sent.
    offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct EndedSubscription {
    channel: Box<str>,
    reason: Box<str>,
}

impl MissedEvents {
    /// Whether there is nothing to report.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gaps.is_empty() && self.subscribed.is_empty() && self.unsubscribed.is_empty()
    }

    /// Records a gap, or the beginning or end of a subscription. All gaps of a channel are merged into one;
    /// of other events, only the latest for each channel is kept.
    pub fn record(&mut self, event: &ServerEvent<'_>) {
        match *event {
            ServerEvent::Gap { channel, epoch, range, .. } => self.record_gap(channel, epoch, range),
            ServerEvent::Subscribed { channel, epoch, offset } => {
                self.unsubscribed.retain(|it| *it.channel != *channel);
                self.subscribed.retain(|it| *it.channel != *channel);
                self.subscribed.push(AddedSubscription {
                    channel: channel.into(),
                    epoch: epoch.into(),
                    offset,
                });
            }
            ServerEvent::Unsubscribed { channel, reason } => {
                self.subscribed.retain(|it| *it.channel != *channel);
                self.unsubscribed.retain(|it| *it.channel != *channel);
                self.unsubscribed.push(EndedSubscription { channel: channel.into(), reason: reason.into() });
            }
            _ => {}
        }
    }

    /// Discards gaps and beginnings of subscriptions. They were not reported, and the outbox will supply them
    /// again.
    pub fn discard_resendable(&mut self) {
        self.gaps.clear();
        self.subscribed.clear();
    }

    /// Records a gap. It is merged with an earlier gap of the same channel, so the result may cover too much.
    fn record_gap(&mut self, channel: &str, epoch: &str, range: Option<(u64, u64)>) {
        let (from, to) = range.unzip();
        match self.gaps.iter_mut().find(|it| *it.channel == *channel && *it.epoch == *epoch) {
            Some(gap) => {
                gap.from = gap.from.zip(from).map(|(one, other)| one.min(other));
                gap.to = gap.to.zip(to).map(|(one, other)| one.max(other));
            }
            None => {
                // After a channel's epoch has changed, messages of the earlier epoch can no longer be
                // requested.
                self.gaps.retain(|it| *it.channel != *channel);
                self.gaps.push(MissedGap { channel: channel.into(), epoch: epoch.into(), from, to });
            }
        }
    }
}
