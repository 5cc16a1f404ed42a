//! Lock-free agreement between a timer's owner and the wheel thread on when the timer expires.
//!
//! The owner stores the deadline that it requests. It sends the timer to the wheel only if the wheel would
//! otherwise fire the timer too late. The wheel reads the request when it receives the timer and when the
//! timer fires. One rule ensures that no request is missed: the wheel moves a timer only to an *earlier*
//! time, unless it has first announced that the timer is disarmed ([`Arming::disarm`]). Then either the owner
//! sees the announcement and sends the timer, or the wheel sees the owner's new request.
//!
//! A timer that fires need not be disarmed before it is armed for a later time. The wheel reads the request,
//! announces the timer's next state ([`Arming::announce`]), and then checks the request again
//! ([`recheck_fence`]), for many timers at a time. If the request has changed by then, the timer is disarmed
//! after all, because its owner may have relied on the previous announcement. A timer may therefore be armed
//! for a later time even after its request has passed: an owner whose next deadline is usually at or after
//! that time need not send the timer.
//!
//! The wheel keeps a timer, armed or disarmed, until its owner no longer requests a deadline; every owner
//! withdraws its deadline when it ends. By the same rule, the wheel first announces that it has removed the
//! timer ([`Arming::remove`]), then reads the request again.
//!
//! This file, `wheel_sleep.rs` and `poll_expiry.rs` are compiled a second time against loom: see
//! `server/timeouts/tests/loom/`.

use std::ops::RangeInclusive;

use super::sync::{AtomicU64, Ordering, fence};

/// Deadline that an owner requests: a time in nanoseconds, and whether the timer must expire on its exact
/// tick or may expire within the slack after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedDeadline(u64);

impl RequestedDeadline {
    /// No deadline.
    pub const NONE: Self = Self(u64::MAX);

    const SOFT: u64 = 1;

    /// Requests an expiry on the first tick at or after `nanos`.
    pub const fn exact(nanos: u64) -> Self {
        Self::pack(nanos, false)
    }

    /// Requests an expiry at any time between `nanos` and the end of the slack after it.
    pub const fn soft(nanos: u64) -> Self {
        Self::pack(nanos, true)
    }

    /// Packs a deadline into 63 bits, which hold 292 years. Later deadlines count as [`Self::NONE`].
    const fn pack(nanos: u64, is_soft: bool) -> Self {
        let soft = if is_soft { Self::SOFT } else { 0 };
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

    /// Times at which the timer may expire, or `None` if there is no deadline.
    pub(crate) fn range(self, slack: u64) -> Option<RangeInclusive<u64>> {
        Some(self.earliest()?..=self.latest(slack)?)
    }

    /// Latest time of the expiry, or `None` if there is no deadline.
    pub(crate) const fn latest(self, slack: u64) -> Option<u64> {
        match self.earliest() {
            Some(nanos) if self.0 & Self::SOFT != 0 => Some(nanos.saturating_add(slack)),
            exact => exact,
        }
    }
}

/// Action that an owner must take after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ArmAction {
    /// Nothing: the wheel will read the request in time.
    Nothing,
    /// Wake the wheel if it would sleep too long. The timer is in the channel, or about to be.
    Wake,
    /// Send the timer, then wake the wheel if it would sleep too long.
    Send,
}

/// Marks a timer that the wheel does not have.
const ABSENT: u64 = u64::MAX;

/// Marks a timer that the wheel has but that is not armed. This value is greater than any deadline, so that
/// every request is sent to the wheel.
const DISARMED: u64 = ABSENT - 1;

/// State of a timer after it has fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextState {
    /// The timer is armed, and serves every request for this time or later.
    Armed(u64),
    Disarmed,
    /// The wheel has removed the timer.
    Removed,
}

/// Fence that the wheel executes after it has announced the next state of timers. After it, either the wheel
/// reads the owners' current requests, or the owners see the announcements.
pub(crate) fn recheck_fence() {
    fence(Ordering::SeqCst);
}

/// The deadline that a timer's owner requests, and the one that the wheel has armed.
#[derive(Debug)]
pub(crate) struct Arming {
    requested: AtomicU64,
    /// Earliest deadline that can be requested without sending the timer to the wheel. Written by the wheel
    /// thread.
    armed: AtomicU64,
    /// Whether the timer is [in the channel](QUEUED), and its [key in the wheel](Self::set_key_number).
    queued_and_key: AtomicU64,
}

/// Flag of a timer that is in the channel. Each timer is queued at most once, so the number of timers bounds
/// the channel.
const QUEUED: u64 = 1 << 63;

/// Keep this type small: every session slot has an `Arming`.
const _: () = assert!(size_of::<Arming>() == 24);

impl Arming {
    pub(crate) fn new() -> Self {
        Self {
            requested: AtomicU64::new(RequestedDeadline::NONE.0),
            armed: AtomicU64::new(ABSENT),
            queued_and_key: AtomicU64::new(0),
        }
    }

    /// Stores the owner's request. Only one thread may call this at a time.
    pub(crate) fn request(&self, deadline: RequestedDeadline, slack: u64) -> ArmAction {
        self.requested.store(deadline.0, Ordering::Release);
        // Pair with the wheel's fences: either the wheel sees the request, or this thread sees that the wheel
        // has disarmed or removed the timer.
        fence(Ordering::SeqCst);
        let armed = self.armed.load(Ordering::Relaxed);
        let wheel_must_know = match deadline.latest(slack) {
            Some(latest) => latest < armed,
            // The wheel has the timer, and learns only from this request that it must remove the timer.
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

    /// Returns the newest request of any thread. Called by a thread that has sent the timer or found it
    /// queued.
    pub(crate) fn newest_request(&self) -> RequestedDeadline {
        // Another thread may have requested an earlier deadline while the wheel was awake, and the wheel may
        // have gone to sleep since, without the timer. In that case, the load after this fence sees that
        // thread's request.
        fence(Ordering::SeqCst);
        self.requested()
    }

    /// Returns the owner's request, which may change at any time. Called by the wheel when the timer fires.
    pub(crate) fn requested(&self) -> RequestedDeadline {
        RequestedDeadline(self.requested.load(Ordering::Acquire))
    }

    /// Allows the timer to be sent again, and returns the request. Called by the wheel after it has taken the
    /// timer from the channel.
    pub(crate) fn mark_received(&self) -> RequestedDeadline {
        self.queued_and_key.fetch_and(!QUEUED, Ordering::AcqRel);
        self.requested()
    }

    /// Announces the timer's next state, which holds unless the request has changed by the following
    /// [check](recheck_fence). Called by the wheel when the timer fires.
    pub(crate) fn announce(&self, next: NextState) {
        let armed = match next {
            NextState::Armed(nanos) => nanos,
            NextState::Disarmed => DISARMED,
            NextState::Removed => ABSENT,
        };
        self.armed.store(armed, Ordering::Release);
    }

    /// Announces that the timer is disarmed, and returns the current request. Called by the wheel before it
    /// postpones the timer.
    pub(crate) fn disarm(&self) -> RequestedDeadline {
        self.publish_armed(DISARMED)
    }

    /// Announces that the timer is removed, and returns the current request. Called by the wheel.
    pub(crate) fn remove(&self) -> RequestedDeadline {
        self.publish_armed(ABSENT)
    }

    /// Announces that the timer is armed and serves every request for `nanos` or later. Returns the current
    /// request: an owner that withdrew it just before, while the timer was absent, did not notify the wheel.
    /// Called by the wheel.
    pub(crate) fn set_armed(&self, nanos: u64) -> RequestedDeadline {
        self.publish_armed(nanos)
    }

    fn publish_armed(&self, armed: u64) -> RequestedDeadline {
        self.armed.store(armed, Ordering::Release);
        fence(Ordering::SeqCst);
        self.requested()
    }

    /// Returns the timer's key in the wheel, or 0 if it is not registered. Called by the wheel.
    pub(crate) fn key_number(&self) -> u64 {
        self.queued_and_key.load(Ordering::Relaxed) & !QUEUED
    }

    /// Sets the timer's key, a number below 2^63. Called only by the wheel, which alone writes the key. The
    /// timer may be sent at the same time.
    pub(crate) fn set_key_number(&self, number: u64) {
        self.queued_and_key.fetch_xor(self.key_number() ^ number, Ordering::Relaxed);
    }

    /// Returns the earliest request that the timer serves, if it is armed. Called by the wheel.
    pub(crate) fn armed(&self) -> Option<u64> {
        Some(self.armed.load(Ordering::Relaxed)).filter(|armed| *armed < DISARMED)
    }
}
