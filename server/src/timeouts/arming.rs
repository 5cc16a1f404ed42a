//! How the owner of a name and the wheel thread agree on when the name is to expire, without a lock.
//!
//! The owner writes down its wish and sends the name only if the wheel would otherwise come too late. The wheel
//! looks at the wish whenever the name arrives or its entry fires. The law that keeps a wish from being missed:
//! the wheel moves an entry only to an *earlier* instant, unless it has first forgotten it ([`Arming::forget`]);
//! then either the owner sees that there is no entry and sends the name, or the wheel sees the owner's new wish.
//!
//! This file and `parking.rs` are compiled a second time against loom: see `server/tests/loom.rs`.

use super::sync::{AtomicBool, AtomicU64, Ordering, fence};

/// When a name wants to expire: an instant in nanoseconds, exact to the tick or with slack after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish(u64);

impl Wish {
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

    /// 63 bits hold 292 years; what lies beyond never comes.
    const fn pack(nanos: u64, soft: u64) -> Self {
        if nanos >= u64::MAX >> 1 { Self::NONE } else { Self(nanos << 1 | soft) }
    }

    /// The earliest instant, or `None` for not at all.
    pub(crate) const fn earliest(self) -> Option<u64> {
        if self.0 == Self::NONE.0 { None } else { Some(self.0 >> 1) }
    }

    /// The latest instant.
    pub(crate) const fn latest(self, slack: u64) -> Option<u64> {
        match self.earliest() {
            Some(nanos) if self.0 & Self::SOFT != 0 => Some(nanos.saturating_add(slack)),
            exact => exact,
        }
    }
}

/// What the owner of a name has to do about its new wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Told {
    /// Nothing: the wheel will find it in time.
    Enough,
    /// See that the wheel does not oversleep it: the name is in the channel, or about to be.
    Wake,
    /// Send the name, then see that the wheel does not oversleep it.
    Send,
}

/// No entry in the wheel.
const UNARMED: u64 = u64::MAX;

/// One name's wish, and what the wheel has made of it.
#[derive(Debug)]
pub(crate) struct Arming {
    wish: AtomicU64,
    /// No wish for this instant or a later one needs another entry. Written by the wheel thread.
    armed: AtomicU64,
    /// The name is in the channel: it goes in once, so the channel is bounded by the number of names.
    queued: AtomicBool,
}

impl Arming {
    pub(crate) fn new() -> Self {
        Self {
            wish: AtomicU64::new(Wish::NONE.0),
            armed: AtomicU64::new(UNARMED),
            queued: AtomicBool::new(false),
        }
    }

    /// For the owner, one thread at a time.
    pub(crate) fn want(&self, wish: Wish, slack: u64) -> Told {
        self.wish.store(wish.0, Ordering::Release);
        // Pairs with the fence in `forget`: the wheel sees the wish, or we see what it forgot.
        fence(Ordering::SeqCst);
        let armed = self.armed.load(Ordering::Relaxed);
        let wheel_must_know = match wish.latest(slack) {
            Some(latest) => latest < armed,
            // Nothing would go wrong, but the entry would stay until it fires.
            None => armed != UNARMED,
        };
        if !wheel_must_know {
            Told::Enough
        } else if self.queued.swap(true, Ordering::AcqRel) {
            Told::Wake
        } else {
            Told::Send
        }
    }

    /// For an owner that has sent the name, or found it sent: the newest wish, by whichever owner.
    pub(crate) fn newest_wish(&self) -> Wish {
        // If another owner wished for something earlier and saw the wheel awake, and the wheel has since gone to sleep
        // without the name, then this sees that wish.
        fence(Ordering::SeqCst);
        self.wish()
    }

    fn wish(&self) -> Wish {
        Wish(self.wish.load(Ordering::Acquire))
    }

    /// For the wheel, having taken the name from the channel: from here on it may be sent again.
    pub(crate) fn received(&self) -> Wish {
        self.queued.swap(false, Ordering::AcqRel);
        self.wish()
    }

    /// For the wheel, when its entry has fired or is about to be dropped or put off: the wish as it is now.
    pub(crate) fn forget(&self) -> Wish {
        self.armed.store(UNARMED, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.wish()
    }

    /// For the wheel: its entry serves every wish for `nanos` or later. Returns the wish as it is now: an owner that
    /// has just dropped its wish may have seen no entry to take back.
    pub(crate) fn set_armed(&self, nanos: u64) -> Wish {
        self.armed.store(nanos, Ordering::Release);
        fence(Ordering::SeqCst);
        self.wish()
    }

    /// For the wheel: from when on its entry serves, if there is one.
    pub(crate) fn armed(&self) -> Option<u64> {
        Some(self.armed.load(Ordering::Relaxed)).filter(|armed| *armed != UNARMED)
    }
}
