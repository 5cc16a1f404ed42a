//! Tests the lock-free synchronization under every interleaving that loom can find.
//!
//! The files under test are compiled a second time, on loom's atomics. Testing the whole crate under `--cfg
//! loom` is not possible: that would also build its dependencies for loom.

mod sync;

#[allow(dead_code, unreachable_pub, reason = "no deadline has slack in these tests, which export nothing")]
#[path = "../../src/arming.rs"]
mod arming;
#[path = "../../src/poll_expiry.rs"]
mod poll_expiry;
#[path = "../../src/wheel_sleep.rs"]
mod wheel_sleep;

use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicUsize;
use std::task::{Poll, Waker};

use loom::sync::Arc;
use loom::thread;

use arming::{ArmAction, Arming, NextState, RequestedDeadline, recheck_fence};
use poll_expiry::poll_expiry;
use sync::{AtomicU64, AtomicWaker, Ordering, WakeFlag};
use wheel_sleep::WheelSleep;

const NO_SLACK: u64 = 0;

/// Models the channel of timers to arm, for a single timer: counts how often the timer is queued. It provides
/// only the ordering that every channel provides: writes before a send are visible after the receive.
#[derive(Default)]
struct TimerChannel(AtomicU64);

impl TimerChannel {
    fn send(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    fn take(&self) -> bool {
        let any = self.0.load(Ordering::Acquire) > 0;
        if any {
            self.0.fetch_sub(1, Ordering::AcqRel);
        }
        any
    }
}

/// Treatment of a timer that has fired. In the server, it depends on the timer's owner (see
/// `WheelLoop::announced_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum ExpiryPolicy {
    Rearm,
    #[default]
    Disarm,
    Remove,
}

/// Delay after an expiry at which a session's timer is armed again.
const REARM_DELAY: u64 = 20;

/// Models the wheel thread (`wheel_loop/mod.rs`) with a single timer.
#[derive(Default)]
struct WheelModel {
    policy: ExpiryPolicy,
    is_registered: bool,
    entry: Option<u64>,
    expired: Vec<u64>,
}

impl WheelModel {
    fn update(&mut self, arming: &Arming) {
        let requested = arming.mark_received();
        match (self.is_registered, requested.latest(NO_SLACK)) {
            (false, None) => {}
            (false, Some(_)) => {
                self.is_registered = true;
                self.arm(arming, requested);
            }
            (true, Some(latest)) if arming.armed().is_some_and(|armed| armed <= latest) => {}
            (true, _) => self.arm(arming, arming.disarm()),
        }
    }

    fn arm(&mut self, arming: &Arming, mut requested: RequestedDeadline) {
        loop {
            if let Some(at) = requested.earliest() {
                self.entry = Some(at);
                requested = arming.set_armed(at);
                if requested != RequestedDeadline::NONE {
                    return;
                }
            } else {
                (self.is_registered, self.entry) = (false, None);
                requested = arming.remove();
                if requested == RequestedDeadline::NONE {
                    return;
                }
                self.is_registered = true;
            }
        }
    }

    fn advance(&mut self, arming: &Arming, now: u64) {
        if self.entry.take_if(|at| *at <= now).is_some() {
            let requested = arming.requested();
            let next = self.announced_state(requested, now);
            arming.announce(next);
            recheck_fence();
            if arming.requested() != requested {
                self.entry = None;
                self.arm(arming, arming.disarm());
            } else {
                self.is_registered = next != NextState::Removed;
                self.expired.extend(requested.earliest().filter(|due| *due <= now));
            }
        }
    }

    fn announced_state(&mut self, requested: RequestedDeadline, now: u64) -> NextState {
        self.entry = match (requested.earliest(), self.policy) {
            (Some(due), ExpiryPolicy::Rearm) if due <= now => Some(now + REARM_DELAY),
            (Some(due), ExpiryPolicy::Disarm) if due <= now => return NextState::Disarmed,
            (Some(due), ExpiryPolicy::Remove) if due <= now => None,
            (deadline, _) => deadline,
        };
        self.entry.map_or(NextState::Removed, NextState::Armed)
    }
}

/// Runs an owner that requests several deadlines while the wheel receives the timer and fires it. In the end,
/// the last request must have expired at its deadline, or, if the owner withdrew the deadline, the timer must
/// have left the wheel.
fn last_request_is_kept(first: RequestedDeadline, requests: &[RequestedDeadline]) {
    for policy in [ExpiryPolicy::Rearm, ExpiryPolicy::Disarm, ExpiryPolicy::Remove] {
        last_request_is_kept_if(policy, first, requests);
    }
}

fn last_request_is_kept_if(policy: ExpiryPolicy, first: RequestedDeadline, requests: &[RequestedDeadline]) {
    let requests = requests.to_vec();
    loom::model(move || {
        let last = requests.last().and_then(|deadline| deadline.earliest());
        let arming = Arc::new(Arming::new());
        let channel = Arc::new(TimerChannel::default());
        let mut wheel = WheelModel { policy, ..WheelModel::default() };
        if arming.request(first, NO_SLACK) == ArmAction::Send {
            wheel.update(&arming);
        }

        let owner = {
            let (arming, channel, requests) = (Arc::clone(&arming), Arc::clone(&channel), requests.clone());
            thread::spawn(move || {
                for deadline in requests {
                    if arming.request(deadline, NO_SLACK) == ArmAction::Send {
                        channel.send();
                    }
                }
            })
        };
        // Run one turn while the owner is active.
        if channel.take() {
            wheel.update(&arming);
        }
        wheel.advance(&arming, 50);
        owner.join().expect("the owner does not panic");

        // Run one turn after the owner has finished.
        let mut received = 0;
        while channel.take() {
            received += 1;
            wheel.update(&arming);
        }
        assert!(received <= 1, "a timer is in the channel once");
        wheel.advance(&arming, last.unwrap_or(1_000));

        match last {
            Some(last) => assert_eq!(wheel.expired.last(), Some(&last), "late: armed for {:?}", wheel.entry),
            None => assert!(!wheel.is_registered, "a timer without a deadline is left in the wheel"),
        }
    });
}

#[test]
fn an_earlier_deadline_is_never_missed() {
    last_request_is_kept(
        RequestedDeadline::NONE,
        &[RequestedDeadline::exact(80), RequestedDeadline::exact(60)],
    );
    last_request_is_kept(RequestedDeadline::exact(40), &[RequestedDeadline::exact(45)]);
    last_request_is_kept(RequestedDeadline::exact(100), &[RequestedDeadline::exact(45)]);
    last_request_is_kept(
        RequestedDeadline::exact(100),
        &[RequestedDeadline::exact(200), RequestedDeadline::exact(60)],
    );
    last_request_is_kept(
        RequestedDeadline::exact(100),
        &[RequestedDeadline::exact(80), RequestedDeadline::exact(60)],
    );
}

#[test]
fn a_later_deadline_is_found_when_the_entry_fires() {
    last_request_is_kept(RequestedDeadline::exact(40), &[RequestedDeadline::exact(300)]);
    last_request_is_kept(
        RequestedDeadline::exact(40),
        &[RequestedDeadline::exact(300), RequestedDeadline::exact(200)],
    );
}

/// While the owner requests another deadline, the timer fires and is armed again for 70.
#[test]
fn deadlines_before_and_after_the_rearmed_time_are_kept() {
    let expired = RequestedDeadline::exact(40);
    for next in [60, 70, 90] {
        let next = RequestedDeadline::exact(next);
        last_request_is_kept(expired, &[next]);
        last_request_is_kept(expired, &[RequestedDeadline::exact(300), next]);
        last_request_is_kept(expired, &[RequestedDeadline::NONE, next]);
    }
}

#[test]
fn a_withdrawn_deadline_and_the_next_one_are_kept() {
    last_request_is_kept(RequestedDeadline::exact(40), &[RequestedDeadline::NONE]);
    last_request_is_kept(
        RequestedDeadline::exact(100),
        &[RequestedDeadline::NONE, RequestedDeadline::exact(70)],
    );
}

/// The wheel arms the timer, finds the request withdrawn, and removes the timer, while the owner sees that
/// the timer is armed and relies on it.
#[test]
fn a_deadline_requested_while_the_wheel_removes_the_timer_is_kept() {
    last_request_is_kept(
        RequestedDeadline::NONE,
        &[RequestedDeadline::exact(80), RequestedDeadline::NONE, RequestedDeadline::exact(90)],
    );
}

/// Covers an owner that ends before the wheel has received its timer, while the timer fires, after it has
/// fired, and while it is sent for an earlier deadline.
#[test]
fn an_owner_that_ends_at_any_time_leaves_nothing_behind() {
    last_request_is_kept(RequestedDeadline::NONE, &[RequestedDeadline::exact(80), RequestedDeadline::NONE]);
    last_request_is_kept(RequestedDeadline::NONE, &[RequestedDeadline::exact(40), RequestedDeadline::NONE]);
    last_request_is_kept(
        RequestedDeadline::exact(40),
        &[RequestedDeadline::exact(45), RequestedDeadline::NONE],
    );
    last_request_is_kept(
        RequestedDeadline::exact(40),
        &[RequestedDeadline::exact(300), RequestedDeadline::NONE],
    );
    last_request_is_kept(
        RequestedDeadline::exact(100),
        &[RequestedDeadline::exact(45), RequestedDeadline::NONE],
    );
}

/// Either a sender whose deadline precedes the planned wake-up wakes the wheel, or the wheel finds the timer
/// before it sleeps. A lost wake-up would leave the wheel parked forever, which loom reports as a deadlock.
#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let wheel_sleep = Arc::new(WheelSleep::new());
        let channel = Arc::new(TimerChannel::default());
        let wheel = {
            let (wheel_sleep, channel) = (Arc::clone(&wheel_sleep), Arc::clone(&channel));
            thread::spawn(move || {
                loop {
                    if channel.take() {
                        return;
                    }
                    wheel_sleep.announce(100);
                    if !channel.take() {
                        thread::park();
                        wheel_sleep.mark_awake();
                        continue;
                    }
                    wheel_sleep.mark_awake();
                    return;
                }
            })
        };
        channel.send();
        if wheel_sleep.sleeps_beyond(50) {
            wheel.thread().unpark();
        }
        wheel.join().expect("the wheel does not panic");
    });
}

/// Two threads request a far and a near deadline for one timer. The first thread sends the timer, and the
/// second may find it queued; together they must wake the wheel for the near deadline.
#[test]
fn the_second_owners_earlier_deadline_wakes_the_wheel() {
    // Bound the preemptions, because three threads have too many interleavings to explore all of them. Those
    // with few preemptions find the known errors.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let arming = Arc::new(Arming::new());
        let wheel_sleep = Arc::new(WheelSleep::new());
        let channel = Arc::new(TimerChannel::default());
        let wheel = {
            let (arming, wheel_sleep, channel) =
                (Arc::clone(&arming), Arc::clone(&wheel_sleep), Arc::clone(&channel));
            thread::spawn(move || sleep_until_near_deadline(&arming, &wheel_sleep, &channel))
        };
        let far = arming.request(RequestedDeadline::exact(FAR), NO_SLACK);
        let second = {
            let (arming, wheel_sleep, channel) =
                (Arc::clone(&arming), Arc::clone(&wheel_sleep), Arc::clone(&channel));
            let wheel = wheel.thread().clone();
            thread::spawn(move || {
                let near = arming.request(RequestedDeadline::exact(NEAR), NO_SLACK);
                if must_wake(near, &arming, &wheel_sleep, &channel) {
                    wheel.unpark();
                }
            })
        };
        if must_wake(far, &arming, &wheel_sleep, &channel) {
            wheel.thread().unpark();
        }
        second.join().expect("an owner does not panic");
        wheel.join().expect("the wheel does not panic");
    });
}

const NEAR: u64 = 50;
const PLANNED: u64 = 100;
const FAR: u64 = 200;

/// Does the same as `Timeouts::carry_out`, but returns whether to unpark the wheel.
fn must_wake(action: ArmAction, arming: &Arming, wheel_sleep: &WheelSleep, channel: &TimerChannel) -> bool {
    if action == ArmAction::Send {
        channel.send();
    }
    action != ArmAction::Nothing
        && arming.newest_request().latest(NO_SLACK).is_some_and(|at| wheel_sleep.sleeps_beyond(at))
}

/// Runs a wheel that plans to wake up at [`PLANNED`], which is never reached, and stops when it knows the
/// near deadline. If the wheel is not woken for that deadline, it stays parked, which loom reports as a
/// deadlock.
fn sleep_until_near_deadline(arming: &Arming, wheel_sleep: &WheelSleep, channel: &TimerChannel) {
    let mut wheel = WheelModel::default();
    loop {
        while channel.take() {
            wheel.update(arming);
        }
        if wheel.entry == Some(NEAR) {
            return;
        }
        wheel_sleep.announce(PLANNED);
        if channel.take() {
            wheel.update(arming);
        } else {
            thread::park();
        }
        wheel_sleep.mark_awake();
    }
}

/// A sender whose deadline follows the planned wake-up makes no system call.
#[test]
fn a_later_deadline_does_not_wake_the_wheel() {
    let unparked = StdArc::new(AtomicUsize::new(0));
    let count = StdArc::clone(&unparked);
    loom::model(move || {
        let wheel_sleep = Arc::new(WheelSleep::new());
        let wheel = {
            let wheel_sleep = Arc::clone(&wheel_sleep);
            thread::spawn(move || {
                wheel_sleep.announce(100);
                wheel_sleep.mark_awake();
            })
        };
        if wheel_sleep.sleeps_beyond(100) {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        wheel.join().expect("the wheel does not panic");
    });
    assert_eq!(unparked.load(std::sync::atomic::Ordering::Relaxed), 0);
}

/// Function that polls a sleep, given the registered waker, the polling task, and a check of the deadline.
type PollSleep = fn(&AtomicWaker, &Waker, &dyn Fn() -> bool) -> Poll<()>;

/// A task takes over a sleep polled by another task, while a worker handles an early expiry and the expiry at
/// the deadline. Returns the number of interleavings in which the waiting task is not woken.
fn lost_wake_ups(poll: PollSleep) -> usize {
    const DEADLINE: u64 = 1;
    let lost = StdArc::new(AtomicUsize::new(0));
    let count = StdArc::clone(&lost);
    loom::model(move || {
        let registered = Arc::new(AtomicWaker::default());
        // Reading the clock implies no ordering.
        let clock = Arc::new(AtomicU64::new(0));
        registered.register(Waker::noop());
        let worker = {
            let (registered, clock) = (Arc::clone(&registered), Arc::clone(&clock));
            thread::spawn(move || {
                for now in [0, DEADLINE] {
                    clock.store(now, Ordering::Relaxed);
                    registered.take().into_iter().for_each(Waker::wake);
                }
            })
        };
        let task = WakeFlag::new();
        let waker = Waker::from(StdArc::clone(&task));
        let mut worker = Some(worker);
        while poll(&registered, &waker, &|| clock.load(Ordering::Relaxed) >= DEADLINE).is_pending() {
            if !task.take() {
                // The task waits. Once the worker has finished, every wake-up has happened.
                worker.take().into_iter().for_each(|worker| worker.join().expect("no panic"));
                if !task.take() {
                    count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    break;
                }
            }
        }
    });
    lost.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn a_sleep_loses_no_wake_up() {
    assert_eq!(lost_wake_ups(|registered, task, is_due| poll_expiry(registered, task, is_due)), 0);
}

/// Shows why `poll_expiry` registers first.
#[test]
fn reading_the_clock_before_registering_loses_a_wake_up() {
    let lost = lost_wake_ups(|registered, task, is_due| {
        if is_due() {
            return Poll::Ready(());
        }
        registered.register(task);
        Poll::Pending
    });
    assert!(lost > 0, "the model must detect this");
}
