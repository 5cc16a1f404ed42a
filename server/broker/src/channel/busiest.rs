//! Channels with the highest rates, the largest logs and the most subscribers. No state is kept for this:
//! rates are derived from the logs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use encke_base::executor::yield_now;
use encke_core::Timestamp;

use super::channels::Channels;
use super::name::ChannelName;
use super::state::{Channel, ChannelView};
use super::subscriber::Subscriber;

/// Maximum number of channels reported for each property.
pub const MAX_BUSIEST: usize = 100;

/// Number of channels to examine before yielding.
const BATCH_SIZE: usize = 128;

/// Period over which rates are averaged.
const RATE_WINDOW: Duration = Duration::from_secs(60);

/// Minimum period over which a rate is averaged. It limits the rate reported for a log that has only very
/// recent messages.
const MIN_RATE_WINDOW: Duration = Duration::from_secs(1);

/// Property by which channels are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busyness {
    /// Recent messages per second.
    Rate,
    /// Size of the log.
    Bytes,
    Subscribers,
}

/// The busiest public channels, at most [`MAX_BUSIEST`] for each property, in descending order of the
/// property, then by name.
#[derive(Debug, Default)]
pub struct Busiest {
    by_rate: Vec<BusyChannel>,
    by_bytes: Vec<BusyChannel>,
    by_subscribers: Vec<BusyChannel>,
}

/// A channel's values at the end of the search.
#[derive(Debug)]
pub struct BusyChannel {
    pub view: ChannelView,
    /// Recent messages per 1,000 seconds.
    pub millirate: u64,
}

impl Busiest {
    pub fn by(&self, busyness: Busyness) -> &[BusyChannel] {
        match busyness {
            Busyness::Rate => &self.by_rate,
            Busyness::Bytes => &self.by_bytes,
            Busyness::Subscribers => &self.by_subscribers,
        }
    }
}

impl BusyChannel {
    fn of<S: Subscriber>(channel: &Channel<S>, now: Timestamp) -> Self {
        let [millirate, ..] = channel.busyness(now);
        Self { view: channel.view(), millirate }
    }

    fn value(&self, busyness: Busyness) -> u64 {
        match busyness {
            Busyness::Rate => self.millirate,
            Busyness::Bytes => self.view.bytes as u64,
            Busyness::Subscribers => self.view.subscribers as u64,
        }
    }
}

impl<S: Subscriber> Channel<S> {
    /// Returns the value of each [property](Busyness), in declaration order.
    fn busyness(&self, now: Timestamp) -> [u64; 3] {
        let state = self.state.lock();
        let log = &state.log;
        let rate = log.oldest_at().map_or(0, |oldest| {
            // If the clock started less than `RATE_WINDOW` ago, all messages are recent.
            let recent =
                now.before(RATE_WINDOW).map_or(log.len(), |cutoff| log.count_published_after(cutoff));
            millirate(recent, now.since(oldest))
        });
        [rate, log.size().bytes as u64, state.subscribers.len() as u64]
    }
}

/// Messages per 1,000 seconds, for `recent` messages in a log whose oldest message has the age `oldest`.
fn millirate(recent: usize, oldest: Duration) -> u64 {
    let millis = oldest.clamp(MIN_RATE_WINDOW, RATE_WINDOW).as_millis();
    u64::try_from(recent as u128 * 1_000_000 / millis).unwrap_or(u64::MAX)
}

impl<S: Subscriber> Channels<S> {
    /// Finds the busiest channels. Examines all channels, yielding at intervals.
    pub async fn busiest(&self, now: Timestamp) -> Busiest {
        let kinds = [Busyness::Rate, Busyness::Bytes, Busyness::Subscribers];
        let mut tops = kinds.map(|_| Top::default());
        let mut cursor: Option<ChannelName> = None;
        loop {
            let page = self.public_after(cursor.as_ref().map(ChannelName::as_str), BATCH_SIZE);
            for channel in &page {
                let values = channel.busyness(now);
                tops.iter_mut().zip(values).for_each(|(top, value)| top.offer(value, channel));
            }
            let Some(last) = page.last() else { break };
            cursor = Some(last.name().clone());
            yield_now().await;
        }
        let [by_rate, by_bytes, by_subscribers] = tops;
        Busiest {
            by_rate: by_rate.into_sorted(Busyness::Rate, now),
            by_bytes: by_bytes.into_sorted(Busyness::Bytes, now),
            by_subscribers: by_subscribers.into_sorted(Busyness::Subscribers, now),
        }
    }
}

/// The channels with the highest values.
struct Top<S: Subscriber>(BinaryHeap<Reverse<Ranked<S>>>);

/// A channel and its value.
struct Ranked<S: Subscriber> {
    value: u64,
    channel: Arc<Channel<S>>,
}

impl<S: Subscriber> Default for Top<S> {
    fn default() -> Self {
        Self(BinaryHeap::with_capacity(MAX_BUSIEST))
    }
}

impl<S: Subscriber> Top<S> {
    /// Adds a channel if its value is high enough. Among equal values, the channels that come first by name
    /// are kept, since channels are offered in that order.
    fn offer(&mut self, value: u64, channel: &Arc<Channel<S>>) {
        let ranked = || Reverse(Ranked { value, channel: Arc::clone(channel) });
        if self.0.len() < MAX_BUSIEST {
            self.0.push(ranked());
        } else if let Some(mut least) = self.0.peek_mut()
            && least.0.value < value
        {
            *least = ranked();
        }
    }

    /// Returns the channels with their current values, which may have changed since they were examined.
    fn into_sorted(self, busyness: Busyness, now: Timestamp) -> Vec<BusyChannel> {
        let mut ranked_channels: Vec<_> =
            self.0.into_iter().map(|Reverse(ranked)| BusyChannel::of(&ranked.channel, now)).collect();
        ranked_channels.sort_by(|a, b| {
            let by_value = b.value(busyness).cmp(&a.value(busyness));
            by_value.then_with(|| a.view.name.as_str().cmp(b.view.name.as_str()))
        });
        ranked_channels
    }
}

impl<S: Subscriber> Ord for Ranked<S> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let by_value = self.value.cmp(&other.value);
        by_value.then_with(|| other.channel.name().as_str().cmp(self.channel.name().as_str()))
    }
}

impl<S: Subscriber> PartialOrd for Ranked<S> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<S: Subscriber> PartialEq for Ranked<S> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<S: Subscriber> Eq for Ranked<S> {}
