//! Tests the sweeps of `channel/` under every interleaving that loom can find.
//!
//! The file under test is compiled a second time, on loom's atomics.

#[path = "../src/channel/sweep.rs"]
mod sweep;

use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicUsize;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use sweep::Sweep;

/// Models a channel with subscribers as swept by `channel/fan_out.rs`, one subscriber at a time.
struct ChannelModel {
    state: loom::sync::Mutex<ChannelModelState>,
    /// Maximum number of tasks that share a sweep.
    most_tasks: usize,
    /// Whether a task leaves the sweep only the next time it takes the lock, which is too late.
    leaves_late: bool,
    /// Tasks that were started.
    tasks: loom::sync::Mutex<Vec<thread::JoinHandle<()>>>,
    is_notifying: [AtomicBool; SUBSCRIBERS],
}

const SUBSCRIBERS: usize = 2;

/// State guarded by the channel's lock.
#[derive(Default)]
struct ChannelModelState {
    sweep: Sweep,
    last: u32,
    has_read: [u32; SUBSCRIBERS],
    is_waiting: [bool; SUBSCRIBERS],
}

impl ChannelModel {
    fn new(most_tasks: usize, leaves_late: bool) -> Self {
        let state = ChannelModelState { is_waiting: [true; SUBSCRIBERS], ..ChannelModelState::default() };
        Self {
            state: loom::sync::Mutex::new(state),
            most_tasks,
            leaves_late,
            tasks: loom::sync::Mutex::default(),
            is_notifying: std::array::from_fn(|_| AtomicBool::new(false)),
        }
    }

    fn lock(&self) -> loom::sync::MutexGuard<'_, ChannelModelState> {
        self.state.lock().expect("no panic")
    }

    fn publish(this: &Arc<Self>) {
        let begins = {
            let mut state = this.lock();
            state.last += 1;
            state.sweep.published()
        };
        if begins {
            Self::wake_some(this, false);
        }
    }

    /// Continues the sweep by one subscriber. Returns whether there may be more to notify.
    fn wake_some(this: &Arc<Self>, by_task: bool) -> bool {
        let mut run = None;
        let (has_more, missing) = {
            let mut state = this.lock();
            let ChannelModelState { sweep, is_waiting, .. } = &mut *state;
            let has_more = sweep.claim(|at| {
                run = (at..SUBSCRIBERS).find(|one| std::mem::take(&mut is_waiting[*one]));
                run.map(|one| one + 1)
            });
            if by_task && !has_more && !this.leaves_late {
                sweep.leave();
            }
            (has_more, if has_more { sweep.join(this.most_tasks) } else { 0 })
        };
        if let Some(one) = run {
            this.notify(one);
        }
        for _ in 0..missing {
            let audience = Arc::clone(this);
            let task = thread::spawn(move || {
                while Self::wake_some(&audience, true) {}
                if audience.leaves_late {
                    audience.lock().sweep.leave();
                }
            });
            this.tasks.lock().expect("no panic").push(task);
        }
        has_more
    }

    /// Makes a subscriber read to the end of the log, then wait again.
    fn notify(&self, one: usize) {
        assert!(
            !self.is_notifying[one].swap(true, Ordering::AcqRel),
            "two tasks notify one subscriber at the same time"
        );
        self.is_notifying[one].swap(false, Ordering::AcqRel);
        let mut state = self.lock();
        state.has_read[one] = state.last;
        state.is_waiting[one] = true;
    }

    /// Waits for all tasks. Returns whether every subscriber has read everything.
    fn is_quiet(&self) -> bool {
        loop {
            let Some(task) = self.tasks.lock().expect("no panic").pop() else { break };
            task.join().expect("no panic");
        }
        let mut state = self.lock();
        let all_have_read = state.has_read == [state.last; SUBSCRIBERS];
        assert!(!all_have_read || state.sweep.published(), "no sweep is in progress");
        all_have_read
    }
}

/// Publishes twice from one thread, or once each from two threads. Returns the number of interleavings in
/// which a subscriber was not notified.
fn missed_notifications(most_tasks: usize, has_other: bool, leaves_late: bool) -> usize {
    let missed_notifications = StdArc::new(AtomicUsize::new(0));
    let count = StdArc::clone(&missed_notifications);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let audience = Arc::new(ChannelModel::new(most_tasks, leaves_late));
        let other = has_other.then(|| {
            let audience = Arc::clone(&audience);
            thread::spawn(move || ChannelModel::publish(&audience))
        });
        ChannelModel::publish(&audience);
        if !has_other {
            ChannelModel::publish(&audience);
        }
        other.into_iter().for_each(|other| other.join().expect("no panic"));
        if !audience.is_quiet() {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    });
    missed_notifications.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn every_subscriber_receives_the_last_message_for_any_number_of_tasks() {
    for (most_tasks, has_other) in [(1, false), (1, true), (2, false)] {
        assert_eq!(missed_notifications(most_tasks, has_other, false), 0);
    }
}

/// Shows why a task must leave the sweep without releasing the lock after it has found nothing more to claim.
#[test]
fn a_task_that_leaves_too_late_misses_a_subscriber() {
    assert!(missed_notifications(1, true, true) > 0, "the model must detect this");
}
