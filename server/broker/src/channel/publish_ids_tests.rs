//! Tests of publishes with keys, compared with a model of a channel's known ids, in simulated time.
//!
//! By default, the random test runs a fixed range of seeds and a new one. `ENCKE_SEED=<n>` runs only that
//! seed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use encke_base::entropy::Entropy;
use encke_base::executor::NoTasks;
use encke_base::metrics::Metrics;
use encke_base::quota::QuotaOwner;
use encke_core::message::CompactJson;
use encke_core::session::MAX_OFFSET;
use encke_core::session::outbox::SubscriptionSlot;
use encke_seeds::with_seeds;
use encke_timeouts::Timeouts;
use encke_timeouts::clock::{Clock, SimulatedTime, UnixTime};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::publish_ids::MAX_PUBLISH_IDS;
use super::*;

const AGE: Duration = Duration::from_secs(300);
const WIDE: LogLimits =
    LogLimits { messages: 16, bytes: 1 << 20, age: Some(AGE), total_bytes: usize::MAX, kept_positions: 0 };

/// Subscriber type without instances, for channels without subscribers.
#[derive(Clone, Copy, Debug)]
enum NoSubscriber {}

impl Subscriber for NoSubscriber {
    type Registry = ();

    fn exists(&self, (): &()) -> bool {
        match *self {}
    }

    fn notify_readable(&self, (): &(), _: SubscriptionSlot) -> Option<std::task::Waker> {
        match *self {}
    }

    fn move_to(&self, (): &(), _: &Arc<Channel<Self>>, _: &Arc<Channel<Self>>, _: Option<u64>) {
        match *self {}
    }

    fn member(&self, (): &(), _: &Channel<Self>) -> Option<super::Member> {
        match *self {}
    }
}

struct TestChannels {
    time: Arc<SimulatedTime>,
    channels: Arc<Channels<NoSubscriber>>,
}

impl TestChannels {
    fn new(log: LogLimits) -> Self {
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(1_000)));
        let clock = Arc::new(Clock::simulated(Arc::clone(&time), Duration::from_millis(500)));
        let (timeouts, _to_arm) = Timeouts::new(clock, Duration::ZERO, 0);
        let (metrics, executor) = (Arc::new(Metrics::new()), Arc::new(NoTasks));
        let channels = Channels::new(
            Arc::default(),
            100,
            usize::MAX,
            Arc::new(Namespaces::new(log, Vec::new())),
            timeouts,
            metrics,
            Entropy::system(),
            executor,
        );
        Self { time, channels: Arc::new(channels) }
    }

    fn publish(&self, channel: &str, id: Option<&PublishId>) -> Published {
        let name = ChannelName::new(channel, 255).expect("a good name");
        let data = CompactJson::parse("1").expect("good JSON").into();
        self.channels.publish(&name, &QuotaOwner::Operator, &data, id).expect("there is room")
    }

    /// Expires messages, as workers do when the oldest message of a log reaches its maximum age.
    fn expire_messages(&self) {
        for channel in self.channels.after(None, usize::MAX) {
            self.channels.handle_timeout(&channel);
        }
    }
}

fn id(publisher: Publisher, key: &str) -> PublishId {
    PublishId { publisher, key: key.into() }
}

fn operator(key: &str) -> PublishId {
    id(Publisher::Operator, key)
}

#[test]
fn repeated_publish_returns_the_first_result() {
    let world = TestChannels::new(WIDE);
    let first = world.publish("a", Some(&operator("k")));
    assert_eq!(first.offset, 1);
    assert_eq!(world.publish("a", None).offset, 2);
    assert_eq!(world.publish("a", Some(&operator("k"))), first);
    assert_eq!(world.publish("a", Some(&operator("l"))).offset, 3);
    assert_eq!(world.publish("b", Some(&operator("k"))).offset, 1, "ids are per channel");
    for other in [
        Publisher::User("k".into()),
        Publisher::User("l".into()),
        Publisher::Session(1),
        Publisher::Session(2),
    ] {
        let other = id(other, "k");
        let first = world.publish("a", Some(&other));
        assert!(first.offset > 3, "ids are per publisher");
        assert_eq!(world.publish("a", Some(&other)), first);
    }
}

#[test]
fn key_is_known_for_the_maximum_age_of_messages() {
    let world = TestChannels::new(WIDE);
    world.publish("a", Some(&operator("k")));
    world.time.advance(AGE - Duration::from_nanos(1));
    world.expire_messages();
    assert_eq!(world.publish("a", Some(&operator("k"))).offset, 1);
    assert_eq!(world.publish("a", None).offset, 2);
    world.time.advance(Duration::from_nanos(1));
    assert_eq!(
        world.publish("a", Some(&operator("k"))).offset,
        3,
        "a repeated publish does not renew the id"
    );
}

#[test]
fn key_outlives_an_evicted_message() {
    let world = TestChannels::new(LogLimits { messages: 1, ..WIDE });
    world.publish("a", Some(&operator("k")));
    world.publish("a", None);
    assert_eq!(world.publish("a", Some(&operator("k"))).offset, 1);
}

#[test]
fn oldest_key_is_evicted() {
    let world = TestChannels::new(LogLimits { age: None, ..WIDE });
    for number in 0..=MAX_PUBLISH_IDS {
        world.publish("a", Some(&operator(&number.to_string())));
    }
    let last = MAX_PUBLISH_IDS as u64 + 1;
    assert_eq!(world.publish("a", Some(&operator("1"))).offset, 2);
    assert_eq!(world.publish("a", Some(&operator(&MAX_PUBLISH_IDS.to_string()))).offset, last);
    assert_eq!(world.publish("a", Some(&operator("0"))).offset, last + 1, "the oldest id was evicted");
    assert_eq!(world.publish("a", Some(&operator("1"))).offset, last + 2, "evicted by the previous publish");
}

#[test]
fn digest_is_stable() {
    let digest = |publisher, key: &str| PublishId { publisher, key: key.into() }.digest();
    assert_eq!(digest(Publisher::Operator, "k"), "MAHwVX8ctPEJFS99ENYnnW8MCaJtSaQRXft4DMd6MRk");
    let users = [("a", "b c"), ("a b", "c"), ("a", "bc")]
        .map(|(user, key)| digest(Publisher::User(user.into()), key));
    assert!(users[0] != users[1] && users[1] != users[2] && users[0] != users[2], "{users:?}");
}

#[test]
fn keys_count_towards_the_budget_and_expire_with_messages() {
    let total_bytes = 100_000;
    let world = TestChannels::new(LogLimits { messages: 1, total_bytes, ..WIDE });
    for number in 0..500 {
        for channel in ["a", "b", "c", "d"] {
            world.time.advance(Duration::from_millis(1));
            world.publish(channel, Some(&operator(&number.to_string())));
            assert!(world.channels.bytes() <= total_bytes, "{} bytes", world.channels.bytes());
        }
    }
    assert!(world.channels.get("d").is_some(), "channel d got the last message");
    world.time.advance(AGE);
    world.expire_messages();
    assert_eq!((world.channels.len(), world.channels.bytes()), (0, 0));
}

#[test]
fn publishes_without_keys_allocate_no_key_table() {
    let world = TestChannels::new(WIDE);
    world.publish("a", None);
    let before = world.channels.bytes();
    world.publish("b", Some(&operator("k")));
    assert!(world.channels.bytes() > 2 * before);
    world.publish("a", None);
    let channel = world.channels.get("a").expect("the channel");
    assert!(!channel.state.lock().log.has_keys());
}

#[test]
fn snapshot_contains_keys() {
    let world = TestChannels::new(LogLimits { messages: 2, ..WIDE });
    let ids: Vec<_> = [Publisher::Operator, Publisher::User("a user".into()), Publisher::Session(u128::MAX)]
        .map(|publisher| id(publisher, "k"))
        .into();
    let first: Vec<_> = ids
        .iter()
        .map(|id| {
            world.time.advance(AGE / 10);
            world.publish("a", Some(id))
        })
        .collect();
    let mut records = Vec::new();
    let write = |record: &LogRecord| -> Result<(), ()> {
        records.push(minicbor::to_vec(record).expect("records can be encoded"));
        Ok(())
    };
    world.channels.snapshot(&mut LogsWritten::default(), write).expect("writing cannot fail");

    let next = TestChannels::new(LogLimits { messages: 2, ..WIDE });
    // Let the new process run long enough to represent the ages of all messages.
    next.time.advance(2 * AGE);
    let mut restored = RestoredLogs::default();
    for record in &records {
        let record = minicbor::decode(record).expect("a valid record");
        next.channels.restore(record, &mut restored).expect("a valid log");
    }
    next.channels.finish_restore(restored);
    assert_eq!(next.channels.bytes(), world.channels.bytes());
    for (id, first) in ids.iter().zip(&first) {
        assert_eq!(next.publish("a", Some(id)), *first);
    }
    // The first id has used up two tenths of its lifetime, the second one tenth.
    next.time.advance(AGE.mul_f64(0.8));
    assert_eq!(next.publish("a", Some(&ids[1])), first[1]);
    assert_eq!(next.publish("a", Some(&ids[0])).offset, 4);
}

/// The publish ids are forgotten together with the messages; the position is kept.
#[test]
fn a_removed_channel_continues_in_the_next_process() {
    let limits = || LogLimits { kept_positions: 10, ..WIDE };
    let (world, next) = (TestChannels::new(limits()), TestChannels::new(limits()));
    let first = ["a", "b"].map(|channel| world.publish(channel, Some(&operator("k"))));
    world.time.advance(AGE);
    world.expire_messages();
    assert_eq!((world.channels.len(), world.channels.kept_position_count()), (0, 2));
    let records = minicbor::to_vec(world.channels.kept_positions()).expect("records can be encoded");
    let records: Vec<PositionRecord> = minicbor::decode(&records).expect("valid records");
    next.channels.restore_positions(&records).expect("valid positions");
    assert_eq!(next.channels.kept_positions(), records);
    for (channel, first) in ["a", "b"].into_iter().zip(first) {
        let second = next.publish(channel, Some(&operator("k")));
        assert_eq!(second, Published { offset: first.offset + 1, ..first });
    }
    assert_eq!(next.publish("c", None).offset, 1);
    let invalid: Vec<_> =
        records.into_iter().map(|record| PositionRecord { last: MAX_OFFSET, ..record }).collect();
    next.channels.restore_positions(&invalid).expect_err("the offsets are too high");
}

/// Expected state of one channel.
#[derive(Default)]
struct ChannelModel {
    /// Publish times of the messages in the log, oldest first.
    messages: VecDeque<Duration>,
    last: u64,
    epoch: Option<Box<str>>,
    keys: VecDeque<(Duration, PublishId, u64)>,
}

impl ChannelModel {
    fn publish(&mut self, now: Duration, messages: usize, id: Option<&PublishId>) -> u64 {
        self.keys.retain(|(at, ..)| *at + AGE > now);
        if let Some((.., offset)) = self.keys.iter().find(|(_, known, _)| Some(known) == id) {
            return *offset;
        }
        self.last += 1;
        self.messages.push_back(now);
        if self.messages.len() > messages {
            self.messages.pop_front();
        }
        if let Some(id) = id {
            self.keys.push_back((now, id.clone(), self.last));
            if self.keys.len() > MAX_PUBLISH_IDS {
                self.keys.pop_front();
            }
        }
        self.last
    }

    fn expire_messages(&mut self, now: Duration) {
        self.messages.retain(|at| *at + AGE > now);
        if self.messages.is_empty() {
            *self = Self::default();
        }
    }
}

#[test]
fn channels_match_the_model() {
    with_seeds(0..20, |seed| run(SmallRng::seed_from_u64(seed)));
}

fn run(mut rng: SmallRng) {
    const CHANNELS: [&str; 3] = ["a", "b", "c"];
    let messages = [1, 3, 100][rng.random_range(0..3)];
    let world = TestChannels::new(LogLimits { messages, ..WIDE });
    let mut models: [ChannelModel; CHANNELS.len()] = Default::default();
    let publishers = [
        Publisher::Operator,
        Publisher::User("alice".into()),
        Publisher::User("bob".into()),
        Publisher::Session(7),
    ];
    // A small set of keys leads to many repetitions, a large one to evictions.
    let keys = [4, 50, 3000][rng.random_range(0..3)];
    let mut now = Duration::ZERO;
    for _ in 0..6_000 {
        match rng.random_range(0..100) {
            0 => {
                let step = AGE.mul_f64(rng.random_range(0.0..1.2));
                world.time.advance(step);
                now += step;
            }
            1 => {
                world.expire_messages();
                models.iter_mut().for_each(|model| model.expire_messages(now));
            }
            _ => {
                let channel = rng.random_range(0..CHANNELS.len());
                let publisher = publishers[rng.random_range(0..publishers.len())].clone();
                let id = rng.random_bool(0.9).then(|| id(publisher, &rng.random_range(0..keys).to_string()));
                let published = world.publish(CHANNELS[channel], id.as_ref());
                let model = &mut models[channel];
                assert_eq!(published.offset, model.publish(now, messages, id.as_ref()));
                assert_eq!(&published.epoch, model.epoch.get_or_insert_with(|| published.epoch.clone()));
            }
        }
    }
    world.time.advance(AGE);
    world.expire_messages();
    assert_eq!((world.channels.len(), world.channels.bytes()), (0, 0), "all channels are removed");
}
