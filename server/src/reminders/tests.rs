//! Reminders on a wheel in simulated time: a worker acts on expiries when the test says so.

use std::collections::BTreeMap;
use std::task::Waker;

use crossbeam_channel::bounded;
use futures_util::FutureExt;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::channel::ChannelName;
use crate::clock::{Clock, SimulatedTime, UnixTime};
use crate::config::{Config, Settings};
use crate::context;
use crate::entropy::Entropy;
use crate::events::{HookSink, NoHooks, Sinks};
use crate::executor::Task;
use crate::seeds::with_seeds;
use crate::timeouts::{ActOnExpiry, SteppedWheel, Worker};

const BACKEND: &str = "backend";
const SECOND: Duration = Duration::from_secs(1);
/// Longer than any test advances the time at once: nothing is a stall.
const NO_STALL: Duration = Duration::from_hours(60 * 24);

/// What webhooks are told, as `key data`.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl WebhookSink for Told {
    fn has(&self, webhook: &str) -> bool {
        webhook == BACKEND
    }

    fn reminder_due(&self, webhook: &str, key: &ReminderKey, data: &Arc<RawValue>) {
        assert_eq!(webhook, BACKEND);
        self.0.lock().push(format!("{} {}", key.as_str(), data.get()));
    }
}

/// The memory engine answers at once, so tasks end when they begin; unless they are held.
#[derive(Debug, Default)]
struct AtOnce {
    held: Mutex<Option<Vec<Held>>>,
}

struct Held(Task);

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Held")
    }
}

impl Executor for AtOnce {
    fn spawn(&self, task: Task) {
        match &mut *self.held.lock() {
            Some(held) => held.push(Held(task)),
            None => task.now_or_never().expect("it has nothing to wait for"),
        }
    }
}

impl AtOnce {
    fn hold(&self) {
        *self.held.lock() = Some(Vec::new());
    }

    fn release(&self) {
        let held = self.held.lock().take();
        for Held(task) in held.into_iter().flatten() {
            task.now_or_never().expect("it has nothing to wait for");
        }
    }
}

struct Actor(Arc<Reminders>);

impl ActOnExpiry for Actor {
    fn act(&self, owner: TimerOwner, _: &mut Vec<Waker>) {
        if let TimerOwner::Reminder(key) = owner {
            self.0.handle_timeout(key);
        }
    }

    fn wake(&self, _: Vec<Waker>) {}

    fn received(&self, _: Timestamp) {}
}

struct World {
    time: Arc<SimulatedTime>,
    wheel: SteppedWheel,
    worker: Worker<Actor>,
    client: crate::client::Context,
    executor: Arc<AtOnce>,
    told: Arc<Told>,
    tick: Duration,
}

impl World {
    fn new() -> Self {
        Self::with("limits.max_reminders=1000")
    }

    fn with(setting: &str) -> Self {
        let settings = Settings { flags: vec![setting.to_owned()], ..Settings::default() };
        let config: Config = settings.resolve().expect("valid");
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(0)));
        let clock = Arc::new(Clock::simulated(Arc::clone(&time), NO_STALL));
        let (timeouts, to_arm) = Timeouts::new(clock, Duration::ZERO, config.limits.slots());
        let (told, executor) = (Arc::new(Told::default()), Arc::new(AtOnce::default()));
        let hooks = Box::new(HookSink(Box::new(NoHooks)));
        let sinks =
            Sinks { reminders: Some(Arc::clone(&told) as Arc<dyn WebhookSink>), ..Sinks::from(hooks) };
        let tasks = Arc::clone(&executor) as Arc<dyn Executor>;
        let client = context::client(&config, Arc::clone(&timeouts), Entropy::system(), tasks, sinks);
        let (sender, batches) = bounded(64);
        let actor = Arc::new(Actor(Arc::clone(&client.reminders)));
        let worker = Worker::new(0, batches, actor, Arc::clone(&timeouts));
        let wheel = SteppedWheel::new(config.wheel(), timeouts, to_arm, sender, Waker::noop().clone());
        Self { time, wheel, worker, client, executor, told, tick: config.timers.tick }
    }

    fn reminders(&self) -> &Arc<Reminders> {
        &self.client.reminders
    }

    fn tell(&self, at: &str, after: Duration, data: &str) -> Result<(), NotKept> {
        self.reminders().put(key(at), after, Action::Webhook { name: BACKEND.into(), data: json(data) })
    }

    fn publish(&self, at: &str, after: Duration, data: &str) -> Result<(), NotKept> {
        let channel = ChannelName::to_publish("news", 255).expect("a name");
        self.reminders().put(key(at), after, Action::Publish { channel, data: json(data) })
    }

    /// The wheel turns, but no worker acts.
    fn turn(&mut self) {
        let until = self.wheel.turn();
        self.wheel.fall_asleep(until);
        self.wheel.awake();
    }

    fn work(&mut self) {
        while self.worker.act_on_next() {}
    }

    fn pass(&mut self, duration: Duration) {
        self.turn();
        self.time.advance(duration);
        self.turn();
        self.work();
    }

    fn now(&self) -> Timestamp {
        self.client.timeouts.clock().now()
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.0.lock())
    }

    /// How many messages the channel has.
    fn published(&self) -> usize {
        let log = self.client.logs.channels.get("news");
        log.map_or(0, |log| log.history(crate::channel::HistoryPart::After(0), 100, self.now()).1.len())
    }
}

fn key(text: &str) -> ReminderKey {
    ReminderKey::new(text).expect("a key")
}

fn json(text: &str) -> Arc<RawValue> {
    let raw: &RawValue = serde_json::from_str(text).expect("JSON");
    compact(raw).expect("such as every parser takes")
}

#[test]
fn it_fires_once_not_early_and_within_a_tick() {
    let mut world = World::new();
    world.tell("a", SECOND, "{ \"x\": 1 }").expect("there is room");
    world.publish("b", SECOND, "2").expect("there is room");
    world.pass(SECOND - Duration::from_nanos(1));
    assert_eq!((world.told(), world.published()), (vec![], 0));
    world.pass(world.tick);
    assert_eq!((world.told(), world.published()), (vec!["a {\"x\":1}".to_owned()], 1));
    assert!(world.reminders().get(&key("a")).is_none());
    world.pass(100 * SECOND);
    assert_eq!((world.told(), world.published(), world.reminders().len()), (vec![], 1, 0));
}

#[test]
fn the_shortest_and_the_longest_time_are_kept() {
    let mut world = World::new();
    world.tell("now", Duration::ZERO, "1").expect("there is room");
    world.tell("late", LONGEST, "2").expect("there is room");
    world.pass(world.tick);
    assert_eq!(world.told(), ["now 1"]);
    world.pass(LONGEST - 2 * world.tick);
    assert_eq!(world.told(), [""; 0]);
    world.pass(2 * world.tick);
    assert_eq!(world.told(), ["late 2"]);
}

#[test]
fn a_later_put_moves_it_and_replaces_what_it_does() {
    let mut world = World::new();
    world.tell("later", SECOND, "1").expect("there is room");
    world.tell("earlier", 9 * SECOND, "1").expect("there is room");
    world.pass(SECOND / 2);
    world.tell("later", 3 * SECOND, "2").expect("it is there");
    world.tell("earlier", SECOND / 2, "2").expect("it is there");
    let waiting = world.reminders().get(&key("later")).expect("it waits");
    assert_eq!(waiting.due_in, 3 * SECOND);
    world.pass(SECOND / 2 + world.tick);
    assert_eq!(world.told(), ["earlier 2"]);
    world.pass(5 * SECOND / 2);
    assert_eq!(world.told(), ["later 2"]);
    world.pass(20 * SECOND);
    assert_eq!(world.told(), [""; 0]);
}

#[test]
fn a_deleted_one_does_not_fire_and_leaves_nothing() {
    let mut world = World::new();
    world.tell("a", SECOND, "1").expect("there is room");
    world.pass(SECOND / 2);
    assert_eq!(world.reminders().delete(&key("a")), Ok(true));
    assert_eq!(world.reminders().delete(&key("a")), Ok(false));
    world.pass(2 * SECOND);
    assert_eq!(world.told(), [""; 0]);
    assert_eq!((world.reminders().owners.len(), world.client.timeouts.entries()), (0, 0));
}

/// What was put or deleted before a worker acts on an expiry counts, though the expiry has left the wheel.
#[test]
fn an_expiry_that_is_on_its_way_finds_what_is_there_by_then() {
    let mut world = World::new();
    for at in ["moved", "deleted", "replaced", "due"] {
        world.tell(at, SECOND, "1").expect("there is room");
    }
    world.turn();
    world.time.advance(SECOND + world.tick);
    world.turn();
    world.tell("moved", SECOND, "2").expect("it is there");
    assert_eq!(world.reminders().delete(&key("deleted")), Ok(true));
    assert_eq!(world.reminders().delete(&key("replaced")), Ok(true));
    world.tell("replaced", SECOND, "2").expect("there is room");
    world.work();
    assert_eq!(world.told(), ["due 1"]);
    world.pass(SECOND + world.tick);
    let mut told = world.told();
    told.sort();
    assert_eq!(told, ["moved 2", "replaced 2"]);
}

#[test]
fn there_are_so_many_and_no_more() {
    let mut world = World::with("limits.max_reminders=2");
    world.tell("a", SECOND, "1").expect("there is room");
    world.tell("b", SECOND, "1").expect("there is room");
    assert_eq!(world.tell("c", SECOND, "1"), Err(NotKept::TooMany(2)));
    assert!(world.reminders().get(&key("c")).is_none());
    world.tell("a", 2 * SECOND, "2").expect("it is there already");
    world.pass(SECOND + world.tick);
    assert_eq!(world.told(), ["b 1"]);
    world.tell("c", SECOND, "3").expect("there is room again");
}

#[test]
fn another_process_goes_on_with_what_remains() {
    let (mut before, mut after) = (World::new(), World::new());
    before.tell("a", 3 * SECOND, "[1, 2]").expect("there is room");
    before.publish("b", 9 * SECOND, "3").expect("there is room");
    before.pass(SECOND);
    before.reminders().close();
    before.pass(20 * SECOND);
    assert_eq!((before.told(), before.published()), (vec![], 0), "nothing is due any more");
    assert_eq!(before.tell("a", SECOND, "2"), Err(NotKept::Draining));
    assert_eq!(before.reminders().delete(&key("a")), Err(NotKept::Draining));
    let records: Vec<_> = before.reminders().records().collect();
    for record in &records {
        after.reminders().restore(record).expect("it is right");
    }
    after.pass(after.tick);
    assert_eq!((after.told(), after.published()), (vec![], 0), "another may take them over yet");
    // Both were overdue when they were written down.
    after.reminders().begin();
    after.pass(after.tick);
    assert_eq!((after.told(), after.published()), (vec!["a [1,2]".to_owned()], 1));
}

#[test]
fn what_remains_of_the_time_is_written_down() {
    let mut world = World::new();
    world.tell("a", 3 * SECOND, "1").expect("there is room");
    world.pass(SECOND);
    let record = world.reminders().records().next().expect("one");
    assert_eq!((&*record.key, record.remaining()), ("a", 2 * SECOND));
}

/// It was due, and has not been published when the channels are closed: it is in the snapshot, and was not done.
#[test]
fn what_was_due_too_late_to_be_published_waits_again() {
    let mut world = World::new();
    world.executor.hold();
    world.publish("a", SECOND, "1").expect("there is room");
    world.pass(SECOND + world.tick);
    assert_eq!(world.reminders().len(), 0);
    assert!(world.reminders().settled().now_or_never().is_none(), "it is under way");
    world.reminders().close();
    world.client.logs.channels.close();
    world.executor.release();
    assert!(world.reminders().settled().now_or_never().is_some());
    assert_eq!((world.published(), world.reminders().records().count()), (0, 1));
}

#[test]
fn a_record_that_says_something_else_is_refused() {
    let world = World::new();
    world
        .reminders()
        .put(key("a"), SECOND, Action::Webhook { name: "gone".into(), data: json("1") })
        .expect("room");
    let record = world.reminders().records().next().expect("one");
    let error = World::new().reminders().restore(&record).expect_err("there is no such webhook");
    assert_eq!(error.to_string(), "there is no webhook \"gone\" any more");
}

#[test]
fn keys_are_checked() {
    let long = "k".repeat(255);
    for (text, is_good) in [
        ("a", true),
        ("user/7: é", true),
        (&*long, true),
        (&*(long.clone() + "k"), false),
        ("", false),
        ("a\nb", false),
        ("a\u{85}", false),
    ] {
        assert_eq!(ReminderKey::new(text).is_ok(), is_good, "{text:?}");
    }
}

/// Puts and deletions at random, while expiries are on their way or not, beside a list that is searched.
#[test]
fn whatever_is_put_and_deleted_each_is_done_as_it_was_put_last() {
    const STEPS: u32 = 2_000;
    with_seeds(0..6, |seed| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut world = World::new();
        let mut model: BTreeMap<String, (Timestamp, u32)> = BTreeMap::new();
        for step in 0..STEPS {
            let at = rng.random_range(0..8).to_string();
            match rng.random_range(0..8) {
                0..4 => {
                    let after = Duration::from_micros(rng.random_range(0..60_000));
                    world.tell(&at, after, &step.to_string()).expect("there is room");
                    model.insert(at, (world.now() + after, step));
                }
                4 => {
                    let was_there = model.remove(&at).is_some();
                    assert_eq!(world.reminders().delete(&key(&at)), Ok(was_there), "step {step}");
                }
                5 => world.time.advance(Duration::from_micros(rng.random_range(0..20_000))),
                6 => world.turn(),
                _ => {
                    let passes = rng.random_bool(0.5);
                    if passes {
                        world.pass(world.tick);
                    } else {
                        world.work();
                    }
                    let now = world.now();
                    for told in world.told() {
                        let (at, data) = told.split_once(' ').expect("key and data");
                        let (due, expected) =
                            model.remove(at).unwrap_or_else(|| panic!("step {step}: {told}"));
                        assert_eq!(data, expected.to_string(), "step {step}: an old one");
                        assert!(due <= now, "step {step}: early");
                    }
                    let late = model.values().filter(|(due, _)| passes && *due + world.tick <= now).count();
                    assert_eq!(late, 0, "step {step}");
                }
            }
            assert_eq!(world.reminders().len(), model.len(), "step {step}");
        }
        assert_eq!(world.reminders().owners.len(), model.len());
    });
}
