//! Tests of reminders on a wheel in simulated time. The test decides when a worker handles expiries.

use std::collections::BTreeMap;
use std::task::Waker;

use crossbeam_channel::bounded;
use encke_base::entropy::Entropy;
use encke_base::executor::BoxedTask;
use encke_broker::channel::ChannelName;
use encke_seeds::with_seeds;
use encke_timeouts::clock::{Clock, SimulatedTime, UnixTime};
use encke_timeouts::{ExpiryHandler, ExpiryWorker, SteppedWheel};
use futures_util::FutureExt;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::config::{Config, Settings};
use crate::events::{HookSink, NoHooks, Sinks};
use crate::server::assembly;

const BACKEND: &str = "backend";
const SECOND: Duration = Duration::from_secs(1);
/// Stall threshold longer than any step of the simulated time, so that no step counts as a stall.
const NO_STALL: Duration = Duration::from_hours(60 * 24);

/// Reminders that webhooks receive, as `key data`.
#[derive(Debug, Default)]
struct RecordedReminders(Mutex<Vec<String>>);

impl WebhookSink for RecordedReminders {
    fn has(&self, webhook: &str) -> bool {
        webhook == BACKEND
    }

    fn reminder_due(&self, webhook: &str, key: &ReminderKey, data: &Arc<RawValue>) {
        assert_eq!(webhook, BACKEND);
        self.0.lock().push(format!("{} {}", key.as_str(), data.get()));
    }
}

/// Executor that runs a task to completion when it is spawned, which is possible because the memory engine
/// responds immediately. It can also hold tasks until they are released.
#[derive(Debug, Default)]
struct ImmediateExecutor {
    held: Mutex<Option<Vec<HeldTask>>>,
}

struct HeldTask(BoxedTask);

impl std::fmt::Debug for HeldTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Held")
    }
}

impl Executor for ImmediateExecutor {
    fn spawn(&self, task: BoxedTask) {
        if let Some(held) = &mut *self.held.lock() {
            held.push(HeldTask(task));
            return;
        }
        task.now_or_never().expect("the memory engine answers immediately");
    }
}

impl ImmediateExecutor {
    fn hold(&self) {
        *self.held.lock() = Some(Vec::new());
    }

    fn release(&self) {
        let held = self.held.lock().take();
        for HeldTask(task) in held.into_iter().flatten() {
            task.now_or_never().expect("the memory engine answers immediately");
        }
    }
}

struct Actor(Arc<Reminders>);

impl ExpiryHandler for Actor {
    fn handle_expiry(&self, owner: TimerOwner, _: &mut Vec<Waker>) {
        if let TimerOwner::Reminder(key) = owner {
            self.0.handle_timeout(key);
        }
    }

    fn wake(&self, _: Vec<Waker>) {}

    fn batch_received(&self, _: Timestamp) {}
}

struct ReminderWorld {
    time: Arc<SimulatedTime>,
    wheel: SteppedWheel,
    worker: ExpiryWorker<Actor>,
    client: crate::client::Services,
    executor: Arc<ImmediateExecutor>,
    received: Arc<RecordedReminders>,
    tick: Duration,
}

impl ReminderWorld {
    fn new() -> Self {
        Self::with("limits.max_reminders=1000")
    }

    fn with(setting: &str) -> Self {
        let settings = Settings { flags: vec![setting.to_owned()], ..Settings::default() };
        let config: Config = settings.resolve().expect("valid");
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(0)));
        let clock = Arc::new(Clock::simulated(Arc::clone(&time), NO_STALL));
        let (timeouts, to_arm) = Timeouts::new(clock, Duration::ZERO, config.limits.session_slots());
        let (received, executor) =
            (Arc::new(RecordedReminders::default()), Arc::new(ImmediateExecutor::default()));
        let hooks = Box::new(HookSink(Box::new(NoHooks)));
        let sinks =
            Sinks { reminders: Some(Arc::clone(&received) as Arc<dyn WebhookSink>), ..Sinks::from(hooks) };
        let tasks = Arc::clone(&executor) as Arc<dyn Executor>;
        let client =
            assembly::client_services(&config, Arc::clone(&timeouts), Entropy::system(), tasks, sinks);
        let (sender, batches) = bounded(64);
        let actor = Arc::new(Actor(Arc::clone(&client.reminders)));
        let worker = ExpiryWorker::new(0, batches, actor, Arc::clone(&timeouts));
        let wheel =
            SteppedWheel::new(config.wheel_settings(), timeouts, to_arm, sender, Waker::noop().clone());
        Self { time, wheel, worker, client, executor, received, tick: config.timers.tick }
    }

    fn reminders(&self) -> &Arc<Reminders> {
        &self.client.reminders
    }

    fn remind(&self, at: &str, after: Duration, data: &str) -> Result<(), ReminderRejected> {
        self.reminders().put(
            key(at),
            after,
            ReminderAction::Webhook { name: BACKEND.into(), data: json(data) },
        )
    }

    fn publish(&self, at: &str, after: Duration, data: &str) -> Result<(), ReminderRejected> {
        let channel = ChannelName::for_publish("news", 255).expect("a name");
        self.reminders().put(key(at), after, ReminderAction::Publish { channel, data: json(data) })
    }

    /// Turns the wheel without letting a worker act.
    fn turn(&mut self) {
        let until = self.wheel.turn();
        self.wheel.prepare_sleep(until);
        self.wheel.end_sleep();
    }

    fn work(&mut self) {
        while self.worker.handle_next() {}
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

    fn received(&self) -> Vec<String> {
        std::mem::take(&mut *self.received.0.lock())
    }

    /// Number of messages in the channel.
    fn published(&self) -> usize {
        let log = self.client.logs.channels.get("news");
        log.map_or(0, |log| {
            log.history(encke_broker::channel::HistoryPart::After(0), 100, self.now()).1.len()
        })
    }
}

fn key(text: &str) -> ReminderKey {
    ReminderKey::new(text).expect("a key")
}

fn json(text: &str) -> Arc<RawValue> {
    let raw: &RawValue = serde_json::from_str(text).expect("JSON");
    compact(raw).expect("JSON that every parser accepts")
}

#[test]
fn reminder_fires_once_never_early_and_within_a_tick() {
    let mut world = ReminderWorld::new();
    world.remind("a", SECOND, "{ \"x\": 1 }").expect("there is room");
    world.publish("b", SECOND, "2").expect("there is room");
    world.pass(SECOND - Duration::from_nanos(1));
    assert_eq!((world.received(), world.published()), (vec![], 0));
    world.pass(world.tick);
    assert_eq!((world.received(), world.published()), (vec!["a {\"x\":1}".to_owned()], 1));
    assert!(world.reminders().get(&key("a")).is_none());
    world.pass(100 * SECOND);
    assert_eq!((world.received(), world.published(), world.reminders().len()), (vec![], 1, 0));
}

#[test]
fn shortest_and_longest_delays_are_respected() {
    let mut world = ReminderWorld::new();
    world.remind("now", Duration::ZERO, "1").expect("there is room");
    world.remind("late", MAX_DELAY, "2").expect("there is room");
    world.pass(world.tick);
    assert_eq!(world.received(), ["now 1"]);
    world.pass(MAX_DELAY - 2 * world.tick);
    assert_eq!(world.received(), [""; 0]);
    world.pass(2 * world.tick);
    assert_eq!(world.received(), ["late 2"]);
}

#[test]
fn put_with_the_same_key_moves_the_reminder_and_replaces_its_action() {
    let mut world = ReminderWorld::new();
    world.remind("later", SECOND, "1").expect("there is room");
    world.remind("earlier", 9 * SECOND, "1").expect("there is room");
    world.pass(SECOND / 2);
    world.remind("later", 3 * SECOND, "2").expect("an existing key");
    world.remind("earlier", SECOND / 2, "2").expect("an existing key");
    let waiting = world.reminders().get(&key("later")).expect("pending");
    assert_eq!(waiting.due_in, 3 * SECOND);
    world.pass(SECOND / 2 + world.tick);
    assert_eq!(world.received(), ["earlier 2"]);
    world.pass(5 * SECOND / 2);
    assert_eq!(world.received(), ["later 2"]);
    world.pass(20 * SECOND);
    assert_eq!(world.received(), [""; 0]);
}

#[test]
fn deleted_reminder_does_not_fire_and_frees_its_timer() {
    let mut world = ReminderWorld::new();
    world.remind("a", SECOND, "1").expect("there is room");
    world.pass(SECOND / 2);
    assert_eq!(world.reminders().delete(&key("a")), Ok(true));
    assert_eq!(world.reminders().delete(&key("a")), Ok(false));
    world.pass(2 * SECOND);
    assert_eq!(world.received(), [""; 0]);
    assert_eq!((world.reminders().owners.count(), world.client.timeouts.entries()), (0, 0));
}

/// A put or delete takes effect if it precedes the handling of the expiry by a worker, even if the expiry has
/// already left the wheel.
#[test]
fn pending_expiry_respects_changes_made_before_it_is_handled() {
    let mut world = ReminderWorld::new();
    for at in ["moved", "deleted", "replaced", "due"] {
        world.remind(at, SECOND, "1").expect("there is room");
    }
    world.turn();
    world.time.advance(SECOND + world.tick);
    world.turn();
    world.remind("moved", SECOND, "2").expect("an existing key");
    assert_eq!(world.reminders().delete(&key("deleted")), Ok(true));
    assert_eq!(world.reminders().delete(&key("replaced")), Ok(true));
    world.remind("replaced", SECOND, "2").expect("there is room");
    world.work();
    assert_eq!(world.received(), ["due 1"]);
    world.pass(SECOND + world.tick);
    let mut received = world.received();
    received.sort();
    assert_eq!(received, ["moved 2", "replaced 2"]);
}

#[test]
fn number_of_reminders_is_limited() {
    let mut world = ReminderWorld::with("limits.max_reminders=2");
    world.remind("a", SECOND, "1").expect("there is room");
    world.remind("b", SECOND, "1").expect("there is room");
    assert_eq!(world.remind("c", SECOND, "1"), Err(ReminderRejected::TooMany(2)));
    assert!(world.reminders().get(&key("c")).is_none());
    world.remind("a", 2 * SECOND, "2").expect("an existing key");
    world.pass(SECOND + world.tick);
    assert_eq!(world.received(), ["b 1"]);
    world.remind("c", SECOND, "3").expect("there is room again");
}

#[test]
fn next_process_restores_reminders() {
    let (mut before, mut after) = (ReminderWorld::new(), ReminderWorld::new());
    before.remind("a", 3 * SECOND, "[1, 2]").expect("there is room");
    before.publish("b", 9 * SECOND, "3").expect("there is room");
    before.pass(SECOND);
    before.reminders().close();
    before.pass(20 * SECOND);
    assert_eq!((before.received(), before.published()), (vec![], 0), "a closed table does not fire");
    assert_eq!(before.remind("a", SECOND, "2"), Err(ReminderRejected::Draining));
    assert_eq!(before.reminders().delete(&key("a")), Err(ReminderRejected::Draining));
    let records: Vec<_> = before.reminders().records().collect();
    for record in &records {
        after.reminders().restore(record).expect("a valid record");
    }
    after.pass(after.tick);
    assert_eq!(
        (after.received(), after.published()),
        (vec![], 0),
        "nothing fires before the start is complete"
    );
    // Both were overdue when the records were written.
    after.reminders().arm_restored();
    after.pass(after.tick);
    assert_eq!((after.received(), after.published()), (vec!["a [1,2]".to_owned()], 1));
}

#[test]
fn record_contains_the_remaining_time() {
    let mut world = ReminderWorld::new();
    world.remind("a", 3 * SECOND, "1").expect("there is room");
    world.pass(SECOND);
    let record = world.reminders().records().next().expect("one");
    assert_eq!((&*record.key, record.remaining()), ("a", 2 * SECOND));
}

/// A reminder that was due but not published before the channels closed is in the snapshot, and was not
/// executed.
#[test]
fn reminder_due_after_channels_closed_is_put_back() {
    let mut world = ReminderWorld::new();
    world.executor.hold();
    world.publish("a", SECOND, "1").expect("there is room");
    world.pass(SECOND + world.tick);
    assert_eq!(world.reminders().len(), 0);
    assert!(world.reminders().settled().now_or_never().is_none(), "still being executed");
    world.reminders().close();
    world.client.logs.channels.close();
    world.executor.release();
    assert!(world.reminders().settled().now_or_never().is_some());
    assert_eq!((world.published(), world.reminders().records().count()), (0, 1));
}

#[test]
fn record_with_an_unknown_webhook_is_rejected() {
    let world = ReminderWorld::new();
    world
        .reminders()
        .put(key("a"), SECOND, ReminderAction::Webhook { name: "gone".into(), data: json("1") })
        .expect("room");
    let record = world.reminders().records().next().expect("one");
    let error = ReminderWorld::new().reminders().restore(&record).expect_err("unknown webhook");
    assert_eq!(error.to_string(), "webhook \"gone\" is not configured any more");
}

#[test]
fn keys_are_validated() {
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

/// Random puts and deletes, with and without pending expiries, compared with a simple model.
#[test]
fn random_operations_agree_with_a_model() {
    const STEPS: u32 = 2_000;
    with_seeds(0..6, |seed| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut world = ReminderWorld::new();
        let mut model: BTreeMap<String, (Timestamp, u32)> = BTreeMap::new();
        for step in 0..STEPS {
            let at = rng.random_range(0..8).to_string();
            match rng.random_range(0..8) {
                0..4 => {
                    let after = Duration::from_micros(rng.random_range(0..60_000));
                    world.remind(&at, after, &step.to_string()).expect("there is room");
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
                    for received in world.received() {
                        let (at, data) = received.split_once(' ').expect("key and data");
                        let (due, expected) =
                            model.remove(at).unwrap_or_else(|| panic!("step {step}: {received}"));
                        assert_eq!(data, expected.to_string(), "step {step}: outdated data");
                        assert!(due <= now, "step {step}: early");
                    }
                    let late = model.values().filter(|(due, _)| passes && *due + world.tick <= now).count();
                    assert_eq!(late, 0, "step {step}");
                }
            }
            assert_eq!(world.reminders().len(), model.len(), "step {step}");
        }
        assert_eq!(world.reminders().owners.count(), model.len());
    });
}
