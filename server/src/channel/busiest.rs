//! Which channels have the most of something. Nothing is remembered for it: a channel's rate is what its log says.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use encke_core::Timestamp;

use super::channels::Channels;
use super::name::ChannelName;
use super::state::{Channel, ChannelView};
use super::subscribers::Subscriber;
use crate::executor::yield_now;

/// The most that are told of each kind.
pub(crate) const MOST_BUSIEST: usize = 100;

/// Channels that are looked at before others get their turn.
const AT_A_TIME: usize = 128;

/// What counts as lately.
const LATELY: Duration = Duration::from_secs(60);

/// Messages that are younger are not taken for more than so many a second.
const SHORTEST: Duration = Duration::from_secs(1);

/// What a channel may have the most of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busyness {
    /// Messages a second, lately.
    Rate,
    /// What its log takes up.
    Bytes,
    /// Those that follow it.
    Followers,
}

/// The busiest channels that anyone may know of, at most [`MOST_BUSIEST`] of each kind, the most first, then by name.
#[derive(Debug, Default)]
pub(crate) struct Busiest {
    by_rate: Vec<BusyChannel>,
    by_bytes: Vec<BusyChannel>,
    by_followers: Vec<BusyChannel>,
}

/// A channel, as it was when all had been looked at.
#[derive(Debug)]
pub(crate) struct BusyChannel {
    pub(crate) view: ChannelView,
    /// Messages in 1,000 seconds, lately.
    pub(crate) millirate: u64,
}

impl Busiest {
    pub(crate) fn by(&self, busyness: Busyness) -> &[BusyChannel] {
        match busyness {
            Busyness::Rate => &self.by_rate,
            Busyness::Bytes => &self.by_bytes,
            Busyness::Followers => &self.by_followers,
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
            Busyness::Followers => self.view.subscribers as u64,
        }
    }
}

impl<S: Subscriber> Channel<S> {
    /// How much it has of each [kind](Busyness), in their order.
    fn busyness(&self, now: Timestamp) -> [u64; 3] {
        let state = self.state.lock();
        let log = &state.log;
        let rate = log.oldest_at().map_or(0, |oldest| {
            // At the beginning of time, everything is of late.
            let lately = now.before(LATELY).map_or(log.len(), |cutoff| log.published_after(cutoff));
            millirate(lately, now.since(oldest))
        });
        [rate, log.size().bytes as u64, state.subscribers.len() as u64]
    }
}

/// How many messages in 1,000 seconds these are, of a log whose oldest message is of that age.
fn millirate(lately: usize, oldest: Duration) -> u64 {
    let millis = oldest.clamp(SHORTEST, LATELY).as_millis();
    u64::try_from(lately as u128 * 1_000_000 / millis).unwrap_or(u64::MAX)
}

impl<S: Subscriber> Channels<S> {
    /// Looks at all channels, some at a time.
    pub(crate) async fn busiest(&self, now: Timestamp) -> Busiest {
        let kinds = [Busyness::Rate, Busyness::Bytes, Busyness::Followers];
        let mut tops = kinds.map(|_| Top::default());
        let mut cursor: Option<ChannelName> = None;
        loop {
            let page = self.public_after(cursor.as_ref().map(ChannelName::as_str), AT_A_TIME);
            for channel in &page {
                let values = channel.busyness(now);
                tops.iter_mut().zip(values).for_each(|(top, value)| top.offer(value, channel));
            }
            let Some(last) = page.last() else { break };
            cursor = Some(last.name().clone());
            yield_now().await;
        }
        let [by_rate, by_bytes, by_followers] = tops;
        Busiest {
            by_rate: by_rate.told(Busyness::Rate, now),
            by_bytes: by_bytes.told(Busyness::Bytes, now),
            by_followers: by_followers.told(Busyness::Followers, now),
        }
    }
}

/// The channels with the most of something.
struct Top<S: Subscriber>(BinaryHeap<Reverse<Ranked<S>>>);

/// A channel, and how much it has.
struct Ranked<S: Subscriber> {
    value: u64,
    channel: Arc<Channel<S>>,
}

impl<S: Subscriber> Default for Top<S> {
    fn default() -> Self {
        Self(BinaryHeap::with_capacity(MOST_BUSIEST))
    }
}

impl<S: Subscriber> Top<S> {
    /// Of those with as much, the first by name stay: they are offered in the order of their names.
    fn offer(&mut self, value: u64, channel: &Arc<Channel<S>>) {
        let ranked = || Reverse(Ranked { value, channel: Arc::clone(channel) });
        if self.0.len() < MOST_BUSIEST {
            self.0.push(ranked());
        } else if let Some(mut least) = self.0.peek_mut()
            && least.0.value < value
        {
            *least = ranked();
        }
    }

    /// As they are now. Each may have changed since it was looked at.
    fn told(self, busyness: Busyness, now: Timestamp) -> Vec<BusyChannel> {
        let mut told: Vec<_> =
            self.0.into_iter().map(|Reverse(ranked)| BusyChannel::of(&ranked.channel, now)).collect();
        told.sort_by(|a, b| {
            let by_value = b.value(busyness).cmp(&a.value(busyness));
            by_value.then_with(|| a.view.name.as_str().cmp(b.view.name.as_str()))
        });
        told
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
