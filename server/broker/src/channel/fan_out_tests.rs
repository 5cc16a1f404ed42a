//! Tests of sweeps through large audiences: with one task and with several, on threads and polled one at a
//! time.
//!
//! By default, the random test runs a fixed range of seeds and a new one. `ENCKE_SEED=<n>` runs only that
//! seed.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use encke_base::entropy::Entropy;
use encke_base::executor::{BoxedTask, Executor, WorkSharing};
use encke_base::metrics::Metrics;
use encke_base::quota::QuotaOwner;
use encke_core::message::CompactJson;
use encke_core::session::Outbox;
use encke_core::session::outbox::SubscriptionSlot;
use encke_seeds::with_seeds;
use encke_timeouts::Timeouts;
use encke_timeouts::clock::Clock;
use parking_lot::{Condvar, Mutex};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;

const LIMITS: LogLimits =
    LogLimits { messages: 16, bytes: 1 << 20, age: None, total_bytes: usize::MAX, kept_positions: 0 };

/// Timeout for events that must happen.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Number of subscribers notified by the publisher.
const FIRST_RUN: usize = 128;

/// A subscriber, identified by its number.
#[derive(Clone, Copy, Debug)]
struct CrowdMember(usize);

/// All subscribers of one channel. Each reads to the end when it is notified.
#[derive(Debug, Default)]
struct Crowd {
    channel: OnceLock<Arc<Channel<CrowdMember>>>,
    members: Vec<Reads>,
    /// Subscribers whose notification panics.
    panicking: Vec<usize>,
    /// Minimum number of concurrent notifications by tasks. Notifications block until it is reached.
    min_concurrent: usize,
    notifications: Mutex<Notifications>,
    entered: Condvar,
}

/// State of a subscriber.
#[derive(Debug, Default)]
struct Reads {
    key: Mutex<Option<SubscriberKey>>,
    is_notified: AtomicBool,
    last: AtomicU64,
    times: AtomicUsize,
}

/// Number of notifications that tasks are running: currently, and the maximum so far.
#[derive(Debug, Default)]
struct Notifications {
    now: usize,
    most: usize,
}

impl Crowd {
    fn of(size: usize) -> Self {
        Self { members: (0..size).map(|_| Reads::default()).collect(), ..Self::default() }
    }

    fn channel(&self) -> &Arc<Channel<CrowdMember>> {
        self.channel.get().expect("set by the constructor")
    }

    fn subscribe(&self, number: usize) {
        let member = &self.members[number];
        let mut key = member.key.lock();
        let joined = self.channel().join(CrowdMember(number), |_, add| add(slot()));
        self.read_to_the_end(member, *key.insert(joined.expect("the channel has a guard")));
    }

    fn unsubscribe(&self, number: usize) {
        if let Some(key) = self.members[number].key.lock().take() {
            self.channel().remove_subscriber(key);
        }
    }

    /// Reads all messages, and then waits for a notification, like a connection.
    fn read_to_the_end(&self, member: &Reads, key: SubscriberKey) {
        let mut log = self.channel().read();
        member.last.store(log.bounds().last, Ordering::Release);
        log.set_waiting(key);
    }

    /// Number of subscribers that have not read to the end.
    fn behind(&self) -> usize {
        let last = self.channel().last_offset();
        let is_behind =
            |member: &&Reads| member.key.lock().is_some() && member.last.load(Ordering::Acquire) < last;
        self.members.iter().filter(is_behind).count()
    }

    fn await_all(&self) {
        self.await_all_but(0);
    }

    fn await_all_but(&self, unnotified: usize) {
        while self.behind() > unnotified {
            std::thread::yield_now();
        }
    }

    /// Blocks until `min_concurrent` notifications have run at the same time.
    fn meet(&self) {
        let mut notifications = self.notifications.lock();
        notifications.now += 1;
        notifications.most = notifications.most.max(notifications.now);
        self.entered.notify_all();
        let too_few = |notifications: &mut Notifications| notifications.most < self.min_concurrent;
        let late = self.entered.wait_while_for(&mut notifications, too_few, TIMEOUT);
        assert!(!late.timed_out(), "at most {} notifications ran at the same time", notifications.most);
        notifications.now -= 1;
    }
}

fn slot() -> SubscriptionSlot {
    Outbox::new(1).subscribe((), 0, false)
}

impl Subscriber for CrowdMember {
    type Registry = Crowd;

    fn exists(&self, _: &Crowd) -> bool {
        true
    }

    fn notify_readable(&self, crowd: &Crowd, _: SubscriptionSlot) -> Option<Waker> {
        assert!(!crowd.panicking.contains(&self.0), "simulated panic");
        let member = &crowd.members[self.0];
        assert!(!member.is_notified.swap(true, Ordering::AcqRel), "notified twice at the same time");
        if self.0 >= FIRST_RUN {
            crowd.meet();
        }
        member.times.fetch_add(1, Ordering::Relaxed);
        let key = member.key.lock();
        member.is_notified.store(false, Ordering::Release);
        if let Some(key) = *key {
            crowd.read_to_the_end(member, key);
        }
        None
    }

    fn move_to(&self, _: &Crowd, _: &Arc<Channel<Self>>, _: &Arc<Channel<Self>>, _: Option<u64>) {
        unreachable!("the channel does not end")
    }

    fn member(&self, _: &Crowd, _: &Channel<Self>) -> Option<Member> {
        unreachable!("presence is not queried")
    }
}

struct TestChannels {
    crowd: Arc<Crowd>,
    channels: Arc<Channels<CrowdMember>>,
    _guard: ChannelGuard<CrowdMember>,
}

impl TestChannels {
    /// Subscribes the first `subscribers` members of the crowd.
    fn new(crowd: Crowd, subscribers: usize, executor: Arc<dyn Executor>) -> Self {
        let crowd = Arc::new(crowd);
        let clock = Arc::new(Clock::new(Duration::from_millis(500)));
        let (timeouts, _to_arm) = Timeouts::new(clock, Duration::ZERO, 0);
        let channels = Arc::new(Channels::new(
            Arc::clone(&crowd),
            10,
            usize::MAX,
            Arc::new(Namespaces::new(LIMITS, Vec::new())),
            timeouts,
            Arc::new(Metrics::new()),
            Entropy::system(),
            executor,
        ));
        let guard = channels.acquire(&name(), &QuotaOwner::Operator).expect("there is room");
        crowd.channel.set(Arc::clone(guard.channel())).expect("set only once");
        (0..subscribers).for_each(|number| crowd.subscribe(number));
        Self { crowd, channels, _guard: guard }
    }

    fn publish(&self) {
        let data = CompactJson::parse("1").expect("good JSON").into();
        self.channels.publish(&name(), &QuotaOwner::Operator, &data, None).expect("there is room");
    }
}

fn name() -> ChannelName {
    ChannelName::new("crowd", 255).expect("a good name")
}

fn runtime(threads: usize) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads).build().expect("a runtime")
}

#[test]
fn number_of_tasks_depends_on_audience_and_threads() {
    for (threads, subscribers, tasks) in [(4, 5_000, 4), (4, 2_100, 2), (4, 2_047, 1), (1, 5_000, 1)] {
        let runtime = runtime(threads);
        let crowd = Crowd { min_concurrent: tasks, ..Crowd::of(subscribers) };
        let world = TestChannels::new(crowd, subscribers, Arc::new(runtime.handle().clone()));
        for _ in 0..3 {
            world.publish();
            world.crowd.await_all();
        }
        assert_eq!(world.crowd.notifications.lock().most, tasks, "{subscribers} on {threads} threads");
        assert!(world.crowd.members.iter().all(|member| member.times.load(Ordering::Relaxed) <= 3));
    }
}

#[test]
fn publishes_during_a_sweep_reach_all_subscribers() {
    let runtime = runtime(4);
    let world = TestChannels::new(Crowd::of(5_000), 4_500, Arc::new(runtime.handle().clone()));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..100).for_each(|_| world.publish()));
        }
        // Let some subscribers leave and others join while the threads publish.
        for (leaving, joining) in (0..4_500).step_by(9).zip(4_500..5_000) {
            world.crowd.unsubscribe(leaving);
            world.crowd.subscribe(joining);
        }
    });
    world.crowd.await_all();
}

/// The panics occur in the publisher's run, at its end, and in the runs of tasks.
#[test]
fn panic_in_one_subscriber_does_not_affect_others() {
    let runtime = runtime(2);
    let crowd = Crowd { panicking: vec![5, 127, 130, 2_500, 2_501, 2_999], ..Crowd::of(3_000) };
    let world = TestChannels::new(crowd, 3_000, Arc::new(runtime.handle().clone()));
    for _ in 0..3 {
        world.publish();
        world.crowd.await_all_but(6);
    }
}

/// Executor whose tasks the test polls one at a time.
#[derive(Default)]
struct ManualExecutor {
    threads: usize,
    tasks: Mutex<Vec<BoxedTask>>,
}

impl std::fmt::Debug for ManualExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ManualExecutor")
    }
}

impl Executor for ManualExecutor {
    fn spawn(&self, task: BoxedTask) {
        self.tasks.lock().push(task);
    }

    fn work_sharing(&self) -> WorkSharing {
        WorkSharing::one_by_one(self.threads)
    }
}

impl ManualExecutor {
    fn len(&self) -> usize {
        self.tasks.lock().len()
    }

    fn poll(&self, index: usize) {
        let mut task = self.tasks.lock().swap_remove(index);
        if task.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending {
            self.tasks.lock().push(task);
        }
    }
}

const FEW: usize = 8;

/// Interleaves publishes, tasks, and subscribers that join and leave, in random order.
fn run_in_random_order(mut rng: SmallRng) {
    let tasks = Arc::new(ManualExecutor { threads: rng.random_range(1..=4), ..ManualExecutor::default() });
    let world =
        TestChannels::new(Crowd::of(FEW), rng.random_range(0..FEW), Arc::clone(&tasks) as Arc<dyn Executor>);
    for _ in 0..200 {
        match rng.random_range(0..10) {
            0..2 => world.publish(),
            2 => world.crowd.unsubscribe(rng.random_range(0..FEW)),
            3 => {
                let number = rng.random_range(0..FEW);
                world.crowd.unsubscribe(number);
                world.crowd.subscribe(number);
            }
            _ if tasks.len() > 0 => tasks.poll(rng.random_range(0..tasks.len())),
            _ => assert_eq!(world.crowd.behind(), 0, "no task is left to notify them"),
        }
        assert!(tasks.len() <= tasks.threads, "{} tasks on {} threads", tasks.len(), tasks.threads);
    }
    while tasks.len() > 0 {
        tasks.poll(rng.random_range(0..tasks.len()));
    }
    assert_eq!(world.crowd.behind(), 0);
}

#[test]
fn random_orders_notify_all_with_at_most_one_task_per_thread() {
    with_seeds(0..300, |seed| run_in_random_order(SmallRng::seed_from_u64(seed)));
}
