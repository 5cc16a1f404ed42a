//! Publishes with keys, against a model of what a channel knows of them, in virtual time.
//!
//! `ENCKE_SEED=<n>` runs one seed; without it, a fixed range and one fresh seed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use encke_core::message::CompactJson;
use encke_core::session::outbox::Slot;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::keys::MOST_KEYS;
use super::*;
use crate::admission::Holder;
use crate::clock::{Clock, SimulatedTime, UnixTime};
use crate::entropy::Entropy;
use crate::executor::NoTasks;
use crate::metrics::Metrics;
use crate::seeds::with_seeds;
use crate::timeouts::Timeouts;

const AGE: Duration = Duration::from_secs(300);
const WIDE: LogLimits = LogLimits { messages: 16, bytes: 1 << 20, age: Some(AGE), total_bytes: usize::MAX };

/// What these channels would be followed by.
#[derive(Clone, Copy, Debug)]
enum Nobody {}

impl Subscriber for Nobody {
    type Home = ();

    fn is_there(&self, (): &()) -> bool {
        match *self {}
    }

    fn tell_readable(&self, (): &(), _: Slot) -> Option<std::task::Waker> {
        match *self {}
    }

    fn move_on(&self, (): &(), _: &Arc<Channel<Self>>, _: &Arc<Channel<Self>>, _: Option<u64>) {
        match *self {}
    }

    fn member(&self, (): &(), _: &Channel<Self>) -> Option<super::Member> {
        match *self {}
    }
}

struct World {
    time: Arc<SimulatedTime>,
    channels: Channels<Nobody>,
}

impl World {
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
        Self { time, channels }
    }

    fn publish(&self, channel: &str, id: Option<&PublishId>) -> Published {
        let name = ChannelName::new(channel, 255).expect("a good name");
        let data = CompactJson::parse("1").expect("good JSON").into();
        self.channels.publish(&name, &Holder::Operator, &data, id).expect("there is room")
    }

    /// As workers do once the oldest message of a log has its age.
    fn look_at_ages(&self) {
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
fn a_repeat_gets_the_first_answer_and_nothing_is_published() {
    let world = World::new(WIDE);
    let first = world.publish("a", Some(&operator("k")));
    assert_eq!(first.offset, 1);
    assert_eq!(world.publish("a", None).offset, 2);
    assert_eq!(world.publish("a", Some(&operator("k"))), first);
    assert_eq!(world.publish("a", Some(&operator("l"))).offset, 3);
    assert_eq!(world.publish("b", Some(&operator("k"))).offset, 1, "on another channel it is another");
    for other in [
        Publisher::User("k".into()),
        Publisher::User("l".into()),
        Publisher::Session(1),
        Publisher::Session(2),
    ] {
        let other = id(other, "k");
        let first = world.publish("a", Some(&other));
        assert!(first.offset > 3, "of another publisher it is another");
        assert_eq!(world.publish("a", Some(&other)), first);
    }
}

#[test]
fn a_key_is_known_for_as_long_as_a_message_may_be_there() {
    let world = World::new(WIDE);
    world.publish("a", Some(&operator("k")));
    world.time.advance(AGE - Duration::from_nanos(1));
    world.look_at_ages();
    assert_eq!(world.publish("a", Some(&operator("k"))).offset, 1);
    assert_eq!(world.publish("a", None).offset, 2);
    world.time.advance(Duration::from_nanos(1));
    assert_eq!(world.publish("a", Some(&operator("k"))).offset, 3, "a repeat has not put it off");
}

#[test]
fn a_message_that_had_to_make_room_is_known_still() {
    let world = World::new(LogLimits { messages: 1, ..WIDE });
    world.publish("a", Some(&operator("k")));
    world.publish("a", None);
    assert_eq!(world.publish("a", Some(&operator("k"))).offset, 1);
}

#[test]
fn the_oldest_key_makes_room() {
    let world = World::new(LogLimits { age: None, ..WIDE });
    for number in 0..=MOST_KEYS {
        world.publish("a", Some(&operator(&number.to_string())));
    }
    let last = MOST_KEYS as u64 + 1;
    assert_eq!(world.publish("a", Some(&operator("1"))).offset, 2);
    assert_eq!(world.publish("a", Some(&operator(&MOST_KEYS.to_string()))).offset, last);
    assert_eq!(world.publish("a", Some(&operator("0"))).offset, last + 1, "the first is forgotten");
    assert_eq!(world.publish("a", Some(&operator("1"))).offset, last + 2, "and gave room to it");
}

#[test]
fn what_stands_for_a_key_stays_as_it_is() {
    let digest = |publisher, key: &str| PublishId { publisher, key: key.into() }.digest();
    assert_eq!(digest(Publisher::Operator, "k"), "MAHwVX8ctPEJFS99ENYnnW8MCaJtSaQRXft4DMd6MRk");
    let users = [("a", "b c"), ("a b", "c"), ("a", "bc")]
        .map(|(user, key)| digest(Publisher::User(user.into()), key));
    assert!(users[0] != users[1] && users[1] != users[2] && users[0] != users[2], "{users:?}");
}

#[test]
fn keys_count_as_what_logs_hold_and_go_with_the_messages_that_are_as_old() {
    let total_bytes = 100_000;
    let world = World::new(LogLimits { messages: 1, total_bytes, ..WIDE });
    for number in 0..500 {
        for channel in ["a", "b", "c", "d"] {
            world.time.advance(Duration::from_millis(1));
            world.publish(channel, Some(&operator(&number.to_string())));
            assert!(world.channels.bytes() <= total_bytes, "{} bytes", world.channels.bytes());
        }
    }
    assert!(world.channels.get("d").is_some(), "it was published to last");
    world.time.advance(AGE);
    world.look_at_ages();
    assert_eq!((world.channels.len(), world.channels.bytes()), (0, 0));
}

#[test]
fn a_channel_whose_publishes_have_no_keys_has_none() {
    let world = World::new(WIDE);
    world.publish("a", None);
    let before = world.channels.bytes();
    world.publish("b", Some(&operator("k")));
    assert!(world.channels.bytes() > 2 * before);
    world.publish("a", None);
    let channel = world.channels.get("a").expect("it is there");
    assert!(!channel.state.lock().log.has_keys());
}

#[test]
fn a_log_that_is_written_down_knows_its_keys() {
    let world = World::new(LogLimits { messages: 2, ..WIDE });
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
        records.push(minicbor::to_vec(record).expect("it can be written"));
        Ok(())
    };
    world.channels.snapshot(&mut LogsWritten::default(), write).expect("nothing fails");

    let next = World::new(LogLimits { messages: 2, ..WIDE });
    // A process that began long ago, so that there is time before this.
    next.time.advance(2 * AGE);
    let mut restored = RestoredLogs::default();
    for record in &records {
        let record = minicbor::decode(record).expect("it was written");
        next.channels.restore(record, &mut restored).expect("it is good");
    }
    next.channels.settle(restored);
    assert_eq!(next.channels.bytes(), world.channels.bytes());
    for (id, first) in ids.iter().zip(&first) {
        assert_eq!(next.publish("a", Some(id)), *first);
    }
    // The first was two tenths of its time old.
    next.time.advance(AGE.mul_f64(0.8));
    assert_eq!(next.publish("a", Some(&ids[1])), first[1]);
    assert_eq!(next.publish("a", Some(&ids[0])).offset, 4);
}

/// What one channel is to know.
#[derive(Default)]
struct Model {
    /// Of the messages in its log, from the oldest on.
    messages: VecDeque<Duration>,
    last: u64,
    epoch: Option<Box<str>>,
    keys: VecDeque<(Duration, PublishId, u64)>,
}

impl Model {
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
            if self.keys.len() > MOST_KEYS {
                self.keys.pop_front();
            }
        }
        self.last
    }

    fn look_at_ages(&mut self, now: Duration) {
        self.messages.retain(|at| *at + AGE > now);
        if self.messages.is_empty() {
            *self = Self::default();
        }
    }
}

#[test]
fn channels_know_what_the_model_knows() {
    with_seeds(0..20, |seed| run(SmallRng::seed_from_u64(seed)));
}

fn run(mut rng: SmallRng) {
    const CHANNELS: [&str; 3] = ["a", "b", "c"];
    let messages = [1, 3, 100][rng.random_range(0..3)];
    let world = World::new(LogLimits { messages, ..WIDE });
    let mut models: [Model; CHANNELS.len()] = Default::default();
    let publishers = [
        Publisher::Operator,
        Publisher::User("alice".into()),
        Publisher::User("bob".into()),
        Publisher::Session(7),
    ];
    // Few, so that they come again, or so many that they have to make room.
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
                world.look_at_ages();
                models.iter_mut().for_each(|model| model.look_at_ages(now));
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
    world.look_at_ages();
    assert_eq!((world.channels.len(), world.channels.bytes()), (0, 0), "nothing is left behind");
}
