//! Tests of the search for the busiest channels, in simulated time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use encke_base::entropy::Entropy;
use encke_base::executor::NoTasks;
use encke_base::metrics::Metrics;
use encke_base::quota::QuotaOwner;
use encke_core::message::CompactJson;
use encke_core::session::Outbox;
use encke_core::session::outbox::SubscriptionSlot;
use encke_seeds::with_seeds;
use encke_timeouts::Timeouts;
use encke_timeouts::clock::{Clock, SimulatedTime, UnixTime};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;

/// A subscriber that never reads.
#[derive(Clone, Copy, Debug)]
struct NonReadingSubscriber;

impl Subscriber for NonReadingSubscriber {
    type Registry = ();

    fn exists(&self, (): &()) -> bool {
        true
    }

    fn notify_readable(&self, (): &(), _: SubscriptionSlot) -> Option<Waker> {
        None
    }

    fn move_to(&self, (): &(), _: &Arc<Channel<Self>>, _: &Arc<Channel<Self>>, _: Option<u64>) {}

    fn member(&self, (): &(), _: &Channel<Self>) -> Option<Member> {
        None
    }
}

struct TestChannels {
    time: Arc<SimulatedTime>,
    clock: Arc<Clock>,
    channels: Arc<Channels<NonReadingSubscriber>>,
}

impl TestChannels {
    fn new(log: LogLimits) -> Self {
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(0)));
        let clock = Arc::new(Clock::simulated(Arc::clone(&time), Duration::from_millis(500)));
        let (timeouts, _to_arm) = Timeouts::new(Arc::clone(&clock), Duration::ZERO, 0);
        let channels = Channels::new(
            Arc::default(),
            usize::MAX,
            usize::MAX,
            Arc::new(Namespaces::new(log, Vec::new())),
            timeouts,
            Arc::new(Metrics::new()),
            Entropy::system(),
            Arc::new(NoTasks),
        );
        Self { time, clock, channels: Arc::new(channels) }
    }

    fn advance(&self, seconds: u64) {
        self.time.advance(Duration::from_secs(seconds));
    }

    fn publish(&self, channel: &str, bytes: usize) {
        self.publish_on(&ChannelName::new(channel, 255).expect("a good name"), bytes);
    }

    fn publish_on(&self, name: &ChannelName, bytes: usize) {
        let data = format!("\"{}\"", "x".repeat(bytes));
        let data = CompactJson::parse(&data).expect("good JSON").into();
        self.channels.publish(name, &QuotaOwner::Operator, &data, None).expect("there is room");
    }

    fn subscribe(&self, channel: &str) {
        let slot = Outbox::<()>::new(1).subscribe((), 0, false);
        let channel = self.channels.get(channel).expect("the channel");
        channel.join(NonReadingSubscriber, |_, add| add(slot)).expect("the channel is not retired");
    }

    /// Runs the search to completion. Returns the result and how often the search yielded.
    fn busiest(&self) -> (Busiest, usize) {
        let mut search = std::pin::pin!(self.channels.busiest(self.clock.now()));
        for yields in 0.. {
            if let Poll::Ready(found) = search.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return (found, yields);
            }
        }
        unreachable!("the search ends")
    }

    fn rates(&self) -> Vec<(String, u64)> {
        let (busiest, _) = self.busiest();
        let ranked = busiest.by(Busyness::Rate).iter();
        ranked.map(|busy| (busy.view.name.to_string(), busy.millirate)).collect()
    }
}

const WIDE: LogLimits =
    LogLimits { messages: 1000, bytes: 1 << 20, age: None, total_bytes: usize::MAX, kept_positions: 0 };

#[test]
fn rate_is_derived_from_the_last_minute_of_the_log() {
    let world = TestChannels::new(LogLimits { messages: 10, ..WIDE });
    let rate = || world.rates()[0].1;
    assert!(world.rates().is_empty());
    (0..3).for_each(|_| world.publish("a", 1));
    assert_eq!(rate(), 3_000, "the period is at least a second");
    world.advance(6);
    assert_eq!(rate(), 500, "3 in 6 s");
    world.advance(54);
    assert_eq!(rate(), 0, "older than a minute");
    (0..4).for_each(|_| world.publish("a", 1));
    assert_eq!(rate(), 66, "4 in a minute; the older ones do not count");
    (0..10).for_each(|_| world.publish("a", 1));
    world.advance(2);
    assert_eq!(rate(), 5_000, "10 in 2 s: the log has room for no more");
}

#[test]
fn each_order_has_its_own_channels_without_direct_messages() {
    let world = TestChannels::new(WIDE);
    (0..5).for_each(|_| world.publish("often", 1));
    world.publish("fat", 1000);
    world.publish("popular", 1);
    world.publish_on(&ChannelName::for_user("alice"), 5000);
    (0..2).for_each(|_| world.subscribe("popular"));
    let (busiest, _) = world.busiest();
    let first = |busyness| busiest.by(busyness)[0].view.name.to_string();
    assert_eq!(first(Busyness::Rate), "often");
    assert_eq!(first(Busyness::Bytes), "fat");
    assert_eq!(first(Busyness::Subscribers), "popular");
    assert_eq!(busiest.by(Busyness::Subscribers)[0].view.subscribers, 2);
    assert_eq!(busiest.by(Busyness::Bytes).len(), 3);
}

/// The reference is the sorted list of all channels.
#[test]
fn search_yields_and_finds_the_busiest_of_many_channels() {
    with_seeds(0..3, |seed| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let world = TestChannels::new(WIDE);
        let mut sizes: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for number in 0..1000 {
            let name = format!("c{number:03}");
            let messages = rng.random_range(1..20_u64);
            (0..messages).for_each(|_| world.publish(&name, 1));
            let subscribers = rng.random_range(0..4);
            (0..subscribers).for_each(|_| world.subscribe(&name));
            sizes.insert(name, (messages, subscribers));
        }
        let (busiest, yields) = world.busiest();
        assert!(yields >= 1000 / 128, "{yields} yields");
        let most = |by: fn(&(u64, u64)) -> u64| {
            let mut all: Vec<_> = sizes.iter().map(|(name, sizes)| (name.clone(), by(sizes))).collect();
            all.sort_by_key(|(name, size)| (std::cmp::Reverse(*size), name.clone()));
            all.truncate(MAX_BUSIEST);
            all
        };
        let by = |busyness| busiest.by(busyness).iter();
        let rates = by(Busyness::Rate).map(|busy| (busy.view.name.to_string(), busy.millirate / 1000));
        assert_eq!(rates.collect::<Vec<_>>(), most(|(messages, _)| *messages));
        let sizes = by(Busyness::Bytes).map(|busy| (busy.view.name.to_string(), busy.view.messages as u64));
        assert_eq!(sizes.collect::<Vec<_>>(), most(|(messages, _)| *messages));
        let subscribers =
            by(Busyness::Subscribers).map(|busy| (busy.view.name.to_string(), busy.view.subscribers as u64));
        assert_eq!(subscribers.collect::<Vec<_>>(), most(|(_, subscribers)| *subscribers));
    });
}
