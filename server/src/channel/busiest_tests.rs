//! The busiest of many channels, in simulated time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use encke_core::message::CompactJson;
use encke_core::session::Outbox;
use encke_core::session::outbox::Slot;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::admission::Holder;
use crate::clock::{Clock, SimulatedTime, UnixTime};
use crate::entropy::Entropy;
use crate::executor::NoTasks;
use crate::metrics::Metrics;
use crate::seeds::with_seeds;
use crate::timeouts::Timeouts;

/// Follows, and never reads.
#[derive(Clone, Copy, Debug)]
struct Follower;

impl Subscriber for Follower {
    type Home = ();

    fn is_there(&self, (): &()) -> bool {
        true
    }

    fn tell_readable(&self, (): &(), _: Slot) -> Option<Waker> {
        None
    }

    fn move_on(&self, (): &(), _: &Arc<Channel<Self>>, _: &Arc<Channel<Self>>, _: Option<u64>) {}

    fn member(&self, (): &(), _: &Channel<Self>) -> Option<Member> {
        None
    }
}

struct World {
    time: Arc<SimulatedTime>,
    clock: Arc<Clock>,
    channels: Arc<Channels<Follower>>,
}

impl World {
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

    fn pass(&self, seconds: u64) {
        self.time.advance(Duration::from_secs(seconds));
    }

    fn publish(&self, channel: &str, bytes: usize) {
        self.publish_on(&ChannelName::new(channel, 255).expect("a good name"), bytes);
    }

    fn publish_on(&self, name: &ChannelName, bytes: usize) {
        let data = format!("\"{}\"", "x".repeat(bytes));
        let data = CompactJson::parse(&data).expect("good JSON").into();
        self.channels.publish(name, &Holder::Operator, &data, None).expect("there is room");
    }

    fn follow(&self, channel: &str) {
        let slot = Outbox::<()>::new(1).subscribe((), 0, false);
        let channel = self.channels.get(channel).expect("the channel");
        channel.join(Follower, |_, add| add(slot)).expect("it is not retired");
    }

    /// Looks at all, and says how often others had a turn.
    fn busiest(&self) -> (Busiest, usize) {
        let mut search = std::pin::pin!(self.channels.busiest(self.clock.now()));
        for turns in 0.. {
            if let Poll::Ready(found) = search.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return (found, turns);
            }
        }
        unreachable!("it ends")
    }

    fn rates(&self) -> Vec<(String, u64)> {
        let (busiest, _) = self.busiest();
        let told = busiest.by(Busyness::Rate).iter();
        told.map(|busy| (busy.view.name.to_string(), busy.millirate)).collect()
    }
}

const WIDE: LogLimits = LogLimits { messages: 1000, bytes: 1 << 20, age: None, total_bytes: usize::MAX };

#[test]
fn a_rate_is_what_the_log_says_of_the_last_minute() {
    let world = World::new(LogLimits { messages: 10, ..WIDE });
    let rate = || world.rates()[0].1;
    assert!(world.rates().is_empty());
    (0..3).for_each(|_| world.publish("a", 1));
    assert_eq!(rate(), 3_000, "not more than those of a second");
    world.pass(6);
    assert_eq!(rate(), 500, "3 in 6 s");
    world.pass(54);
    assert_eq!(rate(), 0, "they are of a minute ago");
    (0..4).for_each(|_| world.publish("a", 1));
    assert_eq!(rate(), 66, "4 in a minute, and older ones beside them");
    (0..10).for_each(|_| world.publish("a", 1));
    world.pass(2);
    assert_eq!(rate(), 5_000, "the log has room for no more than these 10, in 2 s");
}

#[test]
fn each_order_has_its_own_channels_and_those_of_the_server_are_left_out() {
    let world = World::new(WIDE);
    (0..5).for_each(|_| world.publish("often", 1));
    world.publish("fat", 1000);
    world.publish("liked", 1);
    world.publish_on(&ChannelName::to_user("alice"), 5000);
    (0..2).for_each(|_| world.follow("liked"));
    let (busiest, _) = world.busiest();
    let first = |busyness| busiest.by(busyness)[0].view.name.to_string();
    assert_eq!(first(Busyness::Rate), "often");
    assert_eq!(first(Busyness::Bytes), "fat");
    assert_eq!(first(Busyness::Followers), "liked");
    assert_eq!(busiest.by(Busyness::Followers)[0].view.subscribers, 2);
    assert_eq!(busiest.by(Busyness::Bytes).len(), 3);
}

/// Compared with all of them, sorted.
#[test]
fn of_many_channels_the_most_are_found_a_few_at_a_time() {
    with_seeds(0..3, |seed| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let world = World::new(WIDE);
        let mut sizes: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for number in 0..1000 {
            let name = format!("c{number:03}");
            let messages = rng.random_range(1..20_u64);
            (0..messages).for_each(|_| world.publish(&name, 1));
            let followers = rng.random_range(0..4);
            (0..followers).for_each(|_| world.follow(&name));
            sizes.insert(name, (messages, followers));
        }
        let (busiest, turns) = world.busiest();
        assert!(turns >= 1000 / 128, "{turns} turns");
        let most = |by: fn(&(u64, u64)) -> u64| {
            let mut all: Vec<_> = sizes.iter().map(|(name, sizes)| (name.clone(), by(sizes))).collect();
            all.sort_by_key(|(name, size)| (std::cmp::Reverse(*size), name.clone()));
            all.truncate(MOST_BUSIEST);
            all
        };
        let told = |busyness| busiest.by(busyness).iter();
        let rates = told(Busyness::Rate).map(|busy| (busy.view.name.to_string(), busy.millirate / 1000));
        assert_eq!(rates.collect::<Vec<_>>(), most(|(messages, _)| *messages));
        let sizes = told(Busyness::Bytes).map(|busy| (busy.view.name.to_string(), busy.view.messages as u64));
        assert_eq!(sizes.collect::<Vec<_>>(), most(|(messages, _)| *messages));
        let followers =
            told(Busyness::Followers).map(|busy| (busy.view.name.to_string(), busy.view.subscribers as u64));
        assert_eq!(followers.collect::<Vec<_>>(), most(|(_, followers)| *followers));
    });
}
