//! The slot of a timer, according to NHN's formula and in this crate.

use std::num::NonZeroU64;

use encke_wheel::Tick;
use encke_wheel::schemes::SimpleWheel;

pub(crate) const SLOTS: usize = 7;
pub(crate) const SLOT: NonZeroU64 = NonZeroU64::new(50).expect("not zero");
pub(crate) const CAP: u64 = SLOTS as u64 * SLOT.get();

/// NHN's formula: `targetSlot = (currentSlot + timeInterval / slotInterval) % timeSlotCount`.
///
/// The formula discards two amounts of time: the time since the current slot began, and the remainder of the
/// interval. Both make the timer early.
pub(crate) fn target_slot(now: Tick, interval: u64) -> u64 {
    (now.0 / SLOT + interval / SLOT) % SLOTS as u64
}

/// Returns the tick at which the wheel reaches the slot given by the formula. The wheel reaches the current
/// slot again only after a whole revolution.
pub(crate) fn expiry_by_formula(now: Tick, interval: u64) -> Tick {
    let current = now.0 / SLOT;
    let ahead = (target_slot(now, interval) + SLOTS as u64 - current % SLOTS as u64) % SLOTS as u64;
    let ahead = if ahead == 0 { SLOTS as u64 } else { ahead };
    Tick((current + ahead) * SLOT.get())
}

/// Creates a wheel of this crate with NHN's slots. It uses the first slot that begins at or after the
/// deadline, so that no timer is early, and refuses timers more than one revolution ahead, which the formula
/// would treat as near timers.
pub(crate) fn wheel<T>() -> SimpleWheel<T> {
    SimpleWheel::with_width(Tick(0), SLOTS, SLOT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use encke_wheel::{Expiry, TimerQueue, WorkBudget};

    /// Returns the tick at which a timer that is started at `now` expires in the wheel.
    fn expiry(now: u64, interval: u64) -> Option<u64> {
        let mut wheel = wheel();
        let _ = wheel.expire_next(Tick(now), &mut WorkBudget::unlimited());
        wheel.schedule(Tick(now + interval), ()).ok()?;
        match wheel.expire_next(Tick(now + CAP), &mut WorkBudget::unlimited()) {
            Expiry::Due(_) => Some(wheel.now().0),
            Expiry::OutOfBudget | Expiry::UpToDate => None,
        }
    }

    #[test]
    fn this_wheel_is_up_to_a_slot_late_and_the_formula_nearly_two_slots_early() {
        for now in 0..=CAP {
            for interval in SLOT.get()..=CAP {
                let deadline = CAP + now + interval;
                let theirs = expiry_by_formula(Tick(CAP + now), interval).0;
                assert!((deadline - 98..=deadline).contains(&theirs), "{interval} ms from {now}: {theirs}");
                if let Some(ours) = expiry(CAP + now, interval) {
                    assert!((deadline..deadline + 50).contains(&ours), "{interval} ms from {now}: {ours}");
                }
            }
        }
    }

    #[test]
    fn beyond_the_cap_the_formula_wraps_and_the_wheel_refuses() {
        assert_eq!(expiry_by_formula(Tick(0), 350), Tick(350));
        assert_eq!(expiry_by_formula(Tick(0), 400), Tick(50));
        assert_eq!((expiry(0, 350), expiry(0, 351)), (Some(350), None));
        // Start in the middle of a slot, where less than a revolution is left.
        assert_eq!((expiry(20, 330), expiry(20, 331)), (Some(350), None));
    }
}
