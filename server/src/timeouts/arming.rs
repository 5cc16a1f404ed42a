//! Lock-free agreement between a timer's owner and the wheel thread on when the timer expires.
//!
//! The owner stores the deadline that it requests. It sends the timer to the wheel only if the wheel would
//! otherwise fire it too late. The wheel reads the request when it receives the timer and when the timer
//! fires. One rule ensures that no request is missed: the wheel moves a timer only to an *earlier* time,
//! unless it has first announced that the timer is disarmed ([`Arming::disarm`]). Then either the owner sees
//! the announcement and sends the timer, or the wheel sees the owner's new request.
//!
//! A timer that fires need not be disarmed before it is armed for a later time. The wheel reads the request,
//! announces the timer's next state ([`Arming::announce`]), and then checks the request again
//! ([`recheck_fence`]), for many timers at a time. If the request has changed by then, the timer is disarmed
//! after all, because its owner may have relied on the previous announcement. A timer may therefore be armed
//! beyond a request that has passed: an owner whose next deadline is usually about that time or later need
//! not send the timer.
//!
//! The wheel keeps a timer, armed or disarmed, until its owner requests no deadline any more, as every owner
//! does when it ends. By the same rule the wheel first announces that it has removed the timer
//! ([`Arming::remove`]), then reads the request again.
//!
//! This file, `wheel_sleep.rs` and `poll_expiry.rs` are compiled a second time against loom: see
//! `server/tests/loom.rs`.

use super::sync::{AtomicU64, Ordering, fence};

/// Deadline that an owner requests: a time in nanoseconds, either exact to the tick or followed by the slack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestedDeadline(u64);

impl RequestedDeadline {
    /// No deadline.
    pub(crate) const NONE: Self = Self(u64::MAX);

    const SOFT: u64 = 1;

    /// Expires on the first tick at or after `nanos`.
    pub(crate) const fn exact(nanos: u64) -> Self {
        Self::pack(nanos, 0)
    }

    /// Expires at any time between `nanos` and the end of the slack after it.
    pub(crate) const fn soft(nanos: u64) -> Self {
        Self::pack(nanos, Self::SOFT)
    }

    /// 63 bits hold 292 years; later deadlines count as none.
    const fn pack(nanos: u64, soft: u64) -> Self {
        if nanos >= u64::MAX >> 1 { Self::NONE } else { Self(nanos << 1 | soft) }
    }

    /// Earliest time of the expiry, or `None` if there is no deadline.
    pub(crate) const fn earliest(self) -> Option<u64> {
        if self.0 == Self::NONE.0 { None } else { Some(self.0 >> 1) }
    }

    /// Whether the earliest time has passed.
    pub(crate) const fn is_due(self, now: u64) -> bool {
        self.0 != Self::NONE.0 && self.0 >> 1 <= now
    }

    /// Latest time of the expiry, or `None` if there is no deadline.
    pub(crate) const fn latest(self, slack: u64) -> Option<u64> {
        match self.earliest() {
            Some(nanos) if self.0 & Self::SOFT != 0 => Some(nanos.saturating_add(slack)),
            exact => exact,
        }
    }
}

/// Action required of the owner after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum ArmAction {
    /// Nothing: the wheel will read the request in time.
    Nothing,
    /// Wake the wheel if it sleeps too long. The timer is in the channel, or about to be.
    Wake,
    /// Send the timer, then wake the wheel if it sleeps too long.
    Send,
}

/// The wheel does not have the timer.
const ABSENT: u64 = u64::MAX;

/// The wheel has the timer, but it is not armed. Greater than any deadline, so that every request is sent to
/// the wheel.
const DISARMED: u64 = ABSENT - 1;

/// State of a timer after it has fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextState {
    /// Armed: serves every request for this time or later.
    Armed(u64),
    Disarmed,
    /// The wheel has removed the timer.
    Removed,
}

/// Fence for the wheel after it has announced the next state of timers. From here on, either the wheel reads
/// their current requests, or their owners see the announcements.
pub(crate) fn recheck_fence() {
    fence(Ordering::SeqCst);
}

/// The deadline that a timer's owner requests, and the one that the wheel has armed.
#[derive(Debug)]
pub(crate) struct Arming {
    requested: AtomicU64,
    /// Requests for this time or later need not reach the wheel. Written by the wheel thread.
    armed: AtomicU64,
    /// Whether the timer is [in the channel](QUEUED), and its [key in the wheel](Self::set_key_number).
    queued_and_key: AtomicU64,
}

/// The timer is in the channel. It is queued at most once, so the number of timers bounds the channel.
const QUEUED: u64 = 1 << 63;

/// Every session slot has one.
const _: () = assert!(size_of::<Arming>() == 24);

impl Arming {
    pub(crate) fn new() -> Self {
        Self {
            requested: AtomicU64::new(RequestedDeadline::NONE.0),
            armed: AtomicU64::new(ABSENT),
            queued_and_key: AtomicU64::new(0),
        }
    }

    /// For the owner: stores its request. Only one thread may call this at a time.
    pub(crate) fn request(&self, deadline: RequestedDeadline, slack: u64) -> ArmAction {
        self.requested.store(deadline.0, Ordering::Release);
        // Pairs with the wheel's fences: either the wheel sees the request, or this thread sees that the
        // wheel has disarmed or removed the timer.
        fence(Ordering::SeqCst);
        let armed = self.armed.load(Ordering::Relaxed);
        let wheel_must_know = match deadline.latest(slack) {
            Some(latest) => latest < armed,
            // The wheel has the timer, and only this request tells it to remove the timer.
            None => armed != ABSENT,
        };
        if !wheel_must_know {
            ArmAction::Nothing
        } else if self.queued_and_key.fetch_or(QUEUED, Ordering::AcqRel) & QUEUED != 0 {
            ArmAction::Wake
        } else {
            ArmAction::Send
        }
    }

    /// For a thread that has sent the timer or found it queued: the newest request of any thread.
    pub(crate) fn newest_request(&self) -> RequestedDeadline {
        // Another thread may have requested an earlier deadline and seen the wheel awake, and the wheel may
        // since have gone to sleep without the timer. In that case this load sees that thread's request.
        fence(Ordering::SeqCst);
        self.requested()
    }

    /// For the wheel, when the timer fires: the owner's request, which may change at any time.
    pub(crate) fn requested(&self) -> RequestedDeadline {
        RequestedDeadline(self.requested.load(Ordering::Acquire))
    }

    /// For the wheel, after it has taken the timer from the channel: allows it to be sent again, and returns
    /// the request.
    pub(crate) fn mark_received(&self) -> RequestedDeadline {
        self.queued_and_key.fetch_and(!QUEUED, Ordering::AcqRel);
        self.requested()
    }

    /// For the wheel, when the timer fires: announces its next state. Holds unless the request has changed by
    /// the [check](recheck_fence) that follows.
    pub(crate) fn announce(&self, next: NextState) {
        let armed = match next {
            NextState::Armed(nanos) => nanos,
            NextState::Disarmed => DISARMED,
            NextState::Removed => ABSENT,
        };
        self.armed.store(armed, Ordering::Release);
    }

    /// For the wheel, before it postpones the timer: announces that the timer is disarmed, and returns the
    /// current request.
    pub(crate) fn disarm(&self) -> RequestedDeadline {
        self.publish_armed(DISARMED)
    }

    /// For the wheel, when it removes the timer: announces that, and returns the current request.
    pub(crate) fn remove(&self) -> RequestedDeadline {
        self.publish_armed(ABSENT)
    }

    /// For the wheel: announces that the timer is armed and serves every request for `nanos` or later.
    /// Returns the current request: an owner that has just withdrawn its request may have seen that the wheel
    /// had no such timer.
    pub(crate) fn set_armed(&self, nanos: u64) -> RequestedDeadline {
        self.publish_armed(nanos)
    }

    fn publish_armed(&self, armed: u64) -> RequestedDeadline {
        self.armed.store(armed, Ordering::Release);
        fence(Ordering::SeqCst);
        self.requested()
    }

    /// For the wheel: the timer's key in the wheel, 0 if it is not registered.
    pub(crate) fn key_number(&self) -> u64 {
        self.queued_and_key.load(Ordering::Relaxed) & !QUEUED
    }

    /// For the wheel, which alone writes it: sets the timer's key, a number below 2^63. The timer may be sent
    /// at the same time.
    pub(crate) fn set_key_number(&self, number: u64) {
        self.queued_and_key.fetch_xor(self.key_number() ^ number, Ordering::Relaxed);
    }

    /// For the wheel: the earliest request that the timer serves, if it is armed.
    pub(crate) fn armed(&self) -> Option<u64> {
        Some(self.armed.load(Ordering::Relaxed)).filter(|armed| *armed < DISARMED)
    }
}
