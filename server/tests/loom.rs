//! The two lock-free handshakes of `timeouts/`, under every interleaving that loom can find.
//!
//! The files under test are compiled a second time here, on loom's atomics. A test of the whole crate under
//! `--cfg loom` would build tokio for loom, too, which then has no sockets.

mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
}

#[allow(dead_code, reason = "nothing has slack here")]
#[path = "../src/timeouts/arming.rs"]
mod arming;
#[path = "../src/timeouts/parking.rs"]
mod parking;

use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicUsize;

use loom::sync::Arc;
use loom::thread;

use arming::{Arming, Told, Wish};
use parking::Parking;
use sync::{AtomicU64, Ordering};

/// Nothing has slack here.
const NO_SLACK: u64 = 0;

/// The channel of names, which knows only one name here: how often it is in it. It orders no more than any channel
/// must: what was written before a send is seen after the receive.
#[derive(Default)]
struct Names(AtomicU64);

impl Names {
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

/// The wheel thread's part, as `timeouts/wheel.rs` plays it, with a single entry.
#[derive(Default)]
struct Wheel {
    entry: Option<u64>,
    expired: Vec<u64>,
}

impl Wheel {
    fn take_up(&mut self, arming: &Arming) {
        let wish = arming.received();
        match (arming.armed(), wish.latest(NO_SLACK)) {
            (None, None) => {}
            (None, Some(_)) => self.schedule(arming, wish),
            (Some(armed), Some(latest)) if armed <= latest => {}
            (Some(_), _) => {
                self.entry = None;
                let wish = arming.forget();
                self.schedule(arming, wish);
            }
        }
    }

    fn schedule(&mut self, arming: &Arming, mut wish: Wish) {
        while let Some(at) = wish.earliest() {
            self.entry = Some(at);
            if arming.set_armed(at) != Wish::NONE {
                return;
            }
            self.entry = None;
            wish = arming.forget();
        }
    }

    fn advance(&mut self, arming: &Arming, now: u64) {
        if self.entry.take_if(|at| *at <= now).is_some() {
            let wish = arming.forget();
            match wish.earliest() {
                Some(due) if due <= now => self.expired.push(due),
                _ => self.schedule(arming, wish),
            }
        }
    }
}

/// The owner wishes one instant after another while the wheel takes up names and fires. When all is quiet, the last
/// wish must have been acted on, or be armed, or be on its way.
fn last_wish_is_kept(first: Wish, wishes: &[Wish]) {
    let wishes = wishes.to_vec();
    loom::model(move || {
        let last = wishes.last().and_then(|wish| wish.earliest());
        let arming = Arc::new(Arming::new());
        let names = Arc::new(Names::default());
        let mut wheel = Wheel::default();
        if arming.want(first, NO_SLACK) == Told::Send {
            wheel.take_up(&arming);
        }

        let owner = {
            let (arming, names, wishes) = (Arc::clone(&arming), Arc::clone(&names), wishes.clone());
            thread::spawn(move || {
                for wish in wishes {
                    if arming.want(wish, NO_SLACK) == Told::Send {
                        names.send();
                    }
                }
            })
        };
        // One turn in the middle of it.
        if names.take() {
            wheel.take_up(&arming);
        }
        wheel.advance(&arming, 50);
        owner.join().expect("the owner does not panic");

        // And one after it.
        let mut received = 0;
        while names.take() {
            received += 1;
            wheel.take_up(&arming);
        }
        assert!(received <= 1, "a name is in the channel once");
        wheel.advance(&arming, last.unwrap_or(1_000));

        match last {
            Some(last) => assert_eq!(wheel.expired.last(), Some(&last), "late: armed for {:?}", wheel.entry),
            None => assert_eq!(wheel.entry, None, "an entry that no one wants is left behind"),
        }
    });
}

#[test]
fn an_earlier_wish_is_never_missed() {
    last_wish_is_kept(Wish::NONE, &[Wish::exact(80), Wish::exact(60)]);
    last_wish_is_kept(Wish::exact(40), &[Wish::exact(45)]);
    last_wish_is_kept(Wish::exact(100), &[Wish::exact(45)]);
    last_wish_is_kept(Wish::exact(100), &[Wish::exact(200), Wish::exact(60)]);
    last_wish_is_kept(Wish::exact(100), &[Wish::exact(80), Wish::exact(60)]);
}

#[test]
fn a_later_wish_is_found_when_the_entry_fires() {
    last_wish_is_kept(Wish::exact(40), &[Wish::exact(300)]);
    last_wish_is_kept(Wish::exact(40), &[Wish::exact(300), Wish::exact(200)]);
}

#[test]
fn a_wish_for_nothing_and_one_after_it_are_kept() {
    last_wish_is_kept(Wish::exact(40), &[Wish::NONE]);
    last_wish_is_kept(Wish::exact(100), &[Wish::NONE, Wish::exact(70)]);
}

/// A sender whose deadline comes before the planned wake-up wakes the wheel, or the wheel finds the name before it
/// sleeps. A lost wake-up would leave the wheel parked for good, which loom reports as a deadlock.
#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let parking = Arc::new(Parking::new());
        let names = Arc::new(Names::default());
        let wheel = {
            let (parking, names) = (Arc::clone(&parking), Arc::clone(&names));
            thread::spawn(move || {
                loop {
                    if names.take() {
                        return;
                    }
                    parking.announce(100);
                    if !names.take() {
                        thread::park();
                        parking.awake();
                        continue;
                    }
                    parking.awake();
                    return;
                }
            })
        };
        names.send();
        if parking.sleeps_beyond(50) {
            wheel.thread().unpark();
        }
        wheel.join().expect("the wheel does not panic");
    });
}

/// Two owners of a name, in turn: a far wish, then a near one. The one sends the name, the other may find it sent;
/// between them they wake the wheel for the near wish.
#[test]
fn the_second_owners_earlier_wish_wakes_the_wheel() {
    // Three threads have too many interleavings for all of them; those with few preemptions find what is wrong.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let arming = Arc::new(Arming::new());
        let parking = Arc::new(Parking::new());
        let names = Arc::new(Names::default());
        let wheel = {
            let (arming, parking, names) = (Arc::clone(&arming), Arc::clone(&parking), Arc::clone(&names));
            thread::spawn(move || sleep_until_near_wish(&arming, &parking, &names))
        };
        let far = arming.want(Wish::exact(FAR), NO_SLACK);
        let second = {
            let (arming, parking, names) = (Arc::clone(&arming), Arc::clone(&parking), Arc::clone(&names));
            let wheel = wheel.thread().clone();
            thread::spawn(move || {
                let near = arming.want(Wish::exact(NEAR), NO_SLACK);
                if must_wake(near, &arming, &parking, &names) {
                    wheel.unpark();
                }
            })
        };
        if must_wake(far, &arming, &parking, &names) {
            wheel.thread().unpark();
        }
        second.join().expect("an owner does not panic");
        wheel.join().expect("the wheel does not panic");
    });
}

const NEAR: u64 = 50;
const PLANNED: u64 = 100;
const FAR: u64 = 200;

/// What `Timeouts::tell_wheel` does, but for the unparking.
fn must_wake(told: Told, arming: &Arming, parking: &Parking, names: &Names) -> bool {
    if told == Told::Send {
        names.send();
    }
    told != Told::Enough && arming.newest_wish().latest(NO_SLACK).is_some_and(|at| parking.sleeps_beyond(at))
}

/// The wheel thread's loop: it plans to wake up at [`PLANNED`], which never comes, and ends when it knows of the near
/// wish. Were no one to wake it for that, it would be parked for good, which loom reports as a deadlock.
fn sleep_until_near_wish(arming: &Arming, parking: &Parking, names: &Names) {
    let mut wheel = Wheel::default();
    loop {
        while names.take() {
            wheel.take_up(arming);
        }
        if wheel.entry == Some(NEAR) {
            return;
        }
        parking.announce(PLANNED);
        if names.take() {
            wheel.take_up(arming);
        } else {
            thread::park();
        }
        parking.awake();
    }
}

/// A sender whose deadline comes after the planned wake-up makes no system call.
#[test]
fn a_later_deadline_wakes_no_one() {
    let unparked = StdArc::new(AtomicUsize::new(0));
    let count = StdArc::clone(&unparked);
    loom::model(move || {
        let parking = Arc::new(Parking::new());
        let wheel = {
            let parking = Arc::clone(&parking);
            thread::spawn(move || {
                parking.announce(100);
                parking.awake();
            })
        };
        if parking.sleeps_beyond(100) {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        wheel.join().expect("the wheel does not panic");
    });
    assert_eq!(unparked.load(std::sync::atomic::Ordering::Relaxed), 0);
}
