//! How a timer's owner and the wheel thread agree on when the timer expires, without a lock.
//!
//! The owner stores the deadline that it requests. It sends the timer to the wheel only if the wheel would otherwise
//! come too late. The wheel reads the request when it receives the timer and when the timer fires. One rule
//! keeps a request from being missed: the wheel moves a timer only to an *earlier* instant, unless it has first
//! said that the timer rests ([`Arming::rest`]). Then either the owner sees that and sends the timer, or the
//! wheel sees the owner's new request.
//!
//! A timer that fires need not rest before it is armed for later. The wheel reads the request, says what becomes of the timer
//! ([`Arming::becomes`]), and looks at the request again ([`look_again`]), of many timers at a time. If that is another by now, the timer rests after
//! all: its owner may have relied on what was said before. So a timer may be armed beyond a request that has passed: an owner that mostly
//! requests its next deadline for about then or later need not send it.
//!
//! The wheel keeps a timer, armed or at rest, until its owner requests no deadline any more, as every owner does at its end.
//! By the same rule it first says that it has let the timer go ([`Arming::leave`]), and then looks at the request again.
//!
//! This file, `parking.rs` and `waiting.rs` are compiled a second time against loom: see `server/tests/loom.rs`.

use super::sync::{AtomicU64, Ordering, fence};

/// When a timer is to expire: an instant in nanoseconds, exact to the tick or with slack after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestedDeadline(u64);

impl RequestedDeadline {
    /// Not at all.
    pub(crate) const NONE: Self = Self(u64::MAX);

    const SOFT: u64 = 1;

    /// As soon as the tick after `nanos` has come.
    pub(crate) const fn exact(nanos: u64) -> Self {
        Self::pack(nanos, 0)
    }

    /// At any time from `nanos` to the slack after it.
    pub(crate) const fn soft(nanos: u64) -> Self {
        Self::pack(nanos, Self::SOFT)
    }

    /// 63 bits hold 292 years; anything later counts as never.
    const fn pack(nanos: u64, soft: u64) -> Self {
        if nanos >= u64::MAX >> 1 { Self::NONE } else { Self(nanos << 1 | soft) }
    }

    /// The earliest instant, or `None` for not at all.
    pub(crate) const fn earliest(self) -> Option<u64> {
        if self.0 == Self::NONE.0 { None } else { Some(self.0 >> 1) }
    }

    /// Whether the earliest instant has passed.
    pub(crate) const fn is_due(self, now: u64) -> bool {
        self.0 != Self::NONE.0 && self.0 >> 1 <= now
    }

    /// The latest instant.
    pub(crate) const fn latest(self, slack: u64) -> Option<u64> {
        match self.earliest() {
            Some(nanos) if self.0 & Self::SOFT != 0 => Some(nanos.saturating_add(slack)),
            exact => exact,
        }
    }
}

/// What the owner has to do after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum ArmAction {
    /// Nothing: the wheel will read the request in time.
    Nothing,
    /// Wake the wheel if it sleeps too long: the timer is in the channel, or about to be.
    Wake,
    /// Send the timer, then wake the wheel if it sleeps too long.
    Send,
}

/// The wheel does not have the timer.
const ABSENT: u64 = u64::MAX;

/// The wheel has the timer, which is not armed. Later than any deadline: whatever is requested, the wheel must know.
const AT_REST: u64 = ABSENT - 1;

/// What becomes of a timer that fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It serves every request for this instant or a later one.
    Armed(u64),
    AtRest,
    /// The wheel does not have it any longer.
    Gone,
}

/// For the wheel, after it has said what becomes of timers: from here on it reads their requests as they are now, or their owners see what
/// it has said.
pub(crate) fn look_again() {
    fence(Ordering::SeqCst);
}

/// The deadline that one timer's owner requests, and the one that the wheel has armed.
#[derive(Debug)]
pub(crate) struct Arming {
    requested: AtomicU64,
    /// No request for this instant or a later one needs the wheel. Written by the wheel thread.
    armed: AtomicU64,
    /// Whether the timer is [in the channel](QUEUED), and what the wheel has [noted](Self::note).
    notes: AtomicU64,
}

/// The timer is in the channel. It goes in once, so the number of timers bounds the channel.
const QUEUED: u64 = 1 << 63;

/// A server has one of it a session.
const _: () = assert!(size_of::<Arming>() == 24);

impl Arming {
    pub(crate) fn new() -> Self {
        Self {
            requested: AtomicU64::new(RequestedDeadline::NONE.0),
            armed: AtomicU64::new(ABSENT),
            notes: AtomicU64::new(0),
        }
    }

    /// For the owner, one thread at a time.
    pub(crate) fn request(&self, deadline: RequestedDeadline, slack: u64) -> ArmAction {
        self.requested.store(deadline.0, Ordering::Release);
        // Pairs with the fences of the wheel: it sees the request, or we see that it has put the timer to rest, or let it go.
        fence(Ordering::SeqCst);
        let armed = self.armed.load(Ordering::Relaxed);
        let wheel_must_know = match deadline.latest(slack) {
            Some(latest) => latest < armed,
            // It has the timer, and nobody else tells it that it need not any longer.
            None => armed != ABSENT,
        };
        if !wheel_must_know {
            ArmAction::Nothing
        } else if self.notes.fetch_or(QUEUED, Ordering::AcqRel) & QUEUED != 0 {
            ArmAction::Wake
        } else {
            ArmAction::Send
        }
    }

    /// For a thread that has sent the timer, or found it sent: the newest request, by whichever thread.
    pub(crate) fn newest_request(&self) -> RequestedDeadline {
        // Another thread may have requested something earlier and seen the wheel awake, and the wheel may since have
        // gone to sleep without the timer. Then this sees that request.
        fence(Ordering::SeqCst);
        self.requested()
    }

    /// For the wheel, when the timer fires. The owner may request another deadline at any time.
    pub(crate) fn requested(&self) -> RequestedDeadline {
        RequestedDeadline(self.requested.load(Ordering::Acquire))
    }

    /// For the wheel, after it took the timer from the channel: from here on it may be sent again.
    pub(crate) fn received(&self) -> RequestedDeadline {
        self.notes.fetch_and(!QUEUED, Ordering::AcqRel);
        self.requested()
    }

    /// For the wheel, when the timer fires: what becomes of it, unless the request is another by now, when the wheel has
    /// [looked again](look_again).
    pub(crate) fn becomes(&self, next: Next) {
        let armed = match next {
            Next::Armed(nanos) => nanos,
            Next::AtRest => AT_REST,
            Next::Gone => ABSENT,
        };
        self.armed.store(armed, Ordering::Release);
    }

    /// For the wheel, when the timer is about to be put off: the request as it is now.
    pub(crate) fn rest(&self) -> RequestedDeadline {
        self.now_is(AT_REST)
    }

    /// For the wheel, when it lets the timer go: the request as it is now.
    pub(crate) fn leave(&self) -> RequestedDeadline {
        self.now_is(ABSENT)
    }

    /// For the wheel: the timer as it is armed serves every request for `nanos` or later. Returns the request as it is now: an
    /// owner that has just withdrawn its request may have seen that the wheel has no such timer.
    pub(crate) fn set_armed(&self, nanos: u64) -> RequestedDeadline {
        self.now_is(nanos)
    }

    fn now_is(&self, armed: u64) -> RequestedDeadline {
        self.armed.store(armed, Ordering::Release);
        fence(Ordering::SeqCst);
        self.requested()
    }

    /// For the wheel: what it has noted of the timer last; 0 at first.
    pub(crate) fn noted(&self) -> u64 {
        self.notes.load(Ordering::Relaxed) & !QUEUED
    }

    /// For the wheel, which alone notes anything: a number below 2^63. The timer may be sent meanwhile.
    pub(crate) fn note(&self, number: u64) {
        self.notes.fetch_xor(self.noted() ^ number, Ordering::Relaxed);
    }

    /// For the wheel: the earliest request that the timer serves, if it is armed.
    pub(crate) fn armed(&self) -> Option<u64> {
        Some(self.armed.load(Ordering::Relaxed)).filter(|armed| *armed < AT_REST)
    }
}
