//! Sweeps of crowds: by one task or by several, on threads and one poll at a time.
//!
//! `ENCKE_SEED=<n>` runs one seed of the random test; without it, a fixed range and one fresh seed.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use encke_core::message::CompactJson;
use encke_core::session::Outbox;
use encke_core::session::outbox::Slot;
use parking_lot::{Condvar, Mutex};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::admission::Holder;
use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::executor::{Executor, Sharing, Task};
use crate::metrics::Metrics;
use crate::seeds::with_seeds;
use crate::timeouts::Timeouts;

const LIMITS: LogLimits = LogLimits { messages: 16, bytes: 1 << 20, age: None, total_bytes: usize::MAX };

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// So many are told by the publisher.
const FIRST_RUN: usize = 128;

/// A subscriber, by its number.
#[derive(Clone, Copy, Debug)]
struct One(usize);

/// All subscribers of one channel. Each reads to the end when it is told.
#[derive(Debug, Default)]
struct Crowd {
    channel: OnceLock<Arc<Channel<One>>>,
    ones: Vec<Reads>,
    /// Whoever tells one of these fails.
    faulty: Vec<usize>,
    /// Those that tasks tell keep these until so many are told at the same time.
    stay_until: usize,
    inside: Mutex<Inside>,
    entered: Condvar,
}

/// What a subscriber has read.
#[derive(Debug, Default)]
struct Reads {
    key: Mutex<Option<SubscriberKey>>,
    is_told: AtomicBool,
    last: AtomicU64,
    times: AtomicUsize,
}

/// Those that are being told by tasks.
#[derive(Debug, Default)]
struct Inside {
    now: usize,
    most: usize,
}

impl Crowd {
    fn of(size: usize) -> Self {
        Self { ones: (0..size).map(|_| Reads::default()).collect(), ..Self::default() }
    }

    fn channel(&self) -> &Arc<Channel<One>> {
        self.channel.get().expect("it is known from the start")
    }

    fn subscribe(&self, number: usize) {
        let one = &self.ones[number];
        let mut key = one.key.lock();
        let joined = self.channel().join(One(number), |_, add| add(slot()));
        self.read_to_the_end(one, *key.insert(joined.expect("the channel is held")));
    }

    fn unsubscribe(&self, number: usize) {
        if let Some(key) = self.ones[number].key.lock().take() {
            self.channel().remove_subscriber(key);
        }
    }

    /// As a connection does, which asks to be told once it has read to the end.
    fn read_to_the_end(&self, one: &Reads, key: SubscriberKey) {
        let mut log = self.channel().read();
        one.last.store(log.bounds().last, Ordering::Release);
        log.wait(key);
    }

    /// Subscribers that have not read to the end.
    fn behind(&self) -> usize {
        let last = self.channel().last_offset();
        let is_behind = |one: &&Reads| one.key.lock().is_some() && one.last.load(Ordering::Acquire) < last;
        self.ones.iter().filter(is_behind).count()
    }

    fn until_all_have_read(&self) {
        self.until_all_but(0);
    }

    fn until_all_but(&self, untold: usize) {
        while self.behind() > untold {
            std::thread::yield_now();
        }
    }

    /// Nobody goes on before so many are told at the same time.
    fn meet(&self) {
        let mut inside = self.inside.lock();
        inside.now += 1;
        inside.most = inside.most.max(inside.now);
        self.entered.notify_all();
        let too_few = |inside: &mut Inside| inside.most < self.stay_until;
        let late = self.entered.wait_while_for(&mut inside, too_few, PATIENCE);
        assert!(!late.timed_out(), "at most {} were told at the same time", inside.most);
        inside.now -= 1;
    }
}

fn slot() -> Slot {
    Outbox::new(1).subscribe((), 0, false)
}

impl Subscriber for One {
    type Home = Crowd;

    fn is_there(&self, _: &Crowd) -> bool {
        true
    }

    fn tell_readable(&self, crowd: &Crowd, _: Slot) -> Option<Waker> {
        assert!(!crowd.faulty.contains(&self.0), "it is told, and fails");
        let one = &crowd.ones[self.0];
        assert!(!one.is_told.swap(true, Ordering::AcqRel), "told by two at the same time");
        if self.0 >= FIRST_RUN {
            crowd.meet();
        }
        one.times.fetch_add(1, Ordering::Relaxed);
        let key = one.key.lock();
        one.is_told.store(false, Ordering::Release);
        if let Some(key) = *key {
            crowd.read_to_the_end(one, key);
        }
        None
    }

    fn move_on(&self, _: &Crowd, _: &Arc<Channel<Self>>, _: &Arc<Channel<Self>>, _: Option<u64>) {
        unreachable!("the channel does not end")
    }

    fn member(&self, _: &Crowd, _: &Channel<Self>) -> Option<Member> {
        unreachable!("nobody asks")
    }
}

struct World {
    crowd: Arc<Crowd>,
    channels: Arc<Channels<One>>,
    _hold: Hold<One>,
}

impl World {
    /// The first `subscribers` of the crowd have subscribed.
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
        let hold = channels.hold(&name(), &Holder::Operator).expect("there is room");
        crowd.channel.set(Arc::clone(hold.channel())).expect("it is the first");
        (0..subscribers).for_each(|number| crowd.subscribe(number));
        Self { crowd, channels, _hold: hold }
    }

    fn publish(&self) {
        let data = CompactJson::parse("1").expect("good JSON").into();
        self.channels.publish(&name(), &Holder::Operator, &data, None).expect("there is room");
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
fn a_large_audience_is_told_by_as_many_tasks_as_it_is_worth_and_threads_run() {
    for (threads, subscribers, tasks) in [(4, 5_000, 4), (4, 2_100, 2), (4, 2_047, 1), (1, 5_000, 1)] {
        let runtime = runtime(threads);
        let crowd = Crowd { stay_until: tasks, ..Crowd::of(subscribers) };
        let world = World::new(crowd, subscribers, Arc::new(runtime.handle().clone()));
        for _ in 0..3 {
            world.publish();
            world.crowd.until_all_have_read();
        }
        assert_eq!(world.crowd.inside.lock().most, tasks, "{subscribers} on {threads} threads");
        assert!(world.crowd.ones.iter().all(|one| one.times.load(Ordering::Relaxed) <= 3));
    }
}

#[test]
fn whoever_publishes_while_a_crowd_is_told_everyone_is_told_of_the_last() {
    let runtime = runtime(4);
    let world = World::new(Crowd::of(5_000), 4_500, Arc::new(runtime.handle().clone()));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..100).for_each(|_| world.publish()));
        }
        // Some leave meanwhile, and others come.
        for (gone, new) in (0..4_500).step_by(9).zip(4_500..5_000) {
            world.crowd.unsubscribe(gone);
            world.crowd.subscribe(new);
        }
    });
    world.crowd.until_all_have_read();
}

/// In the publisher's run, at its end, and in those of tasks.
#[test]
fn a_fault_in_one_subscriber_leaves_no_other_untold() {
    let runtime = runtime(2);
    let crowd = Crowd { faulty: vec![5, 127, 130, 2_500, 2_501, 2_999], ..Crowd::of(3_000) };
    let world = World::new(crowd, 3_000, Arc::new(runtime.handle().clone()));
    for _ in 0..3 {
        world.publish();
        world.crowd.until_all_but(6);
    }
}

/// Tasks that are polled when the test says so.
#[derive(Default)]
struct Tasks {
    threads: usize,
    tasks: Mutex<Vec<Task>>,
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tasks")
    }
}

impl Executor for Tasks {
    fn spawn(&self, task: Task) {
        self.tasks.lock().push(task);
    }

    fn sharing(&self) -> Sharing {
        Sharing::one_by_one(self.threads)
    }
}

impl Tasks {
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

/// Publishes, tasks, and subscribers that come and go, in any order.
fn in_any_order(mut rng: SmallRng) {
    let tasks = Arc::new(Tasks { threads: rng.random_range(1..=4), ..Tasks::default() });
    let world = World::new(Crowd::of(FEW), rng.random_range(0..FEW), Arc::clone(&tasks) as Arc<dyn Executor>);
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
            _ => assert_eq!(world.crowd.behind(), 0, "nobody will tell them"),
        }
        assert!(tasks.len() <= tasks.threads, "{} tasks on {} threads", tasks.len(), tasks.threads);
    }
    while tasks.len() > 0 {
        tasks.poll(rng.random_range(0..tasks.len()));
    }
    assert_eq!(world.crowd.behind(), 0);
}

#[test]
fn in_any_order_of_tasks_everyone_is_told_and_there_are_no_more_tasks_than_threads() {
    with_seeds(0..300, |seed| in_any_order(SmallRng::seed_from_u64(seed)));
}
