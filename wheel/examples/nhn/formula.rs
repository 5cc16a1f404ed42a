//! Where a timer goes: by NHN's formula, and in this crate.

use std::num::NonZeroU64;

use encke_wheel::Tick;
use encke_wheel::schemes::SimpleWheel;

pub(crate) const SLOTS: usize = 7;
pub(crate) const SLOT: NonZeroU64 = NonZeroU64::new(50).expect("not zero");
/// The longest timeout: all the way around.
pub(crate) const CAP: u64 = SLOTS as u64 * SLOT.get();

/// Theirs: `targetSlot = (currentSlot + timeInterval / slotInterval) % timeSlotCount`.
///
/// Two things are rounded off, what has passed of the current slot and what is left of the interval, both towards now.
pub(crate) fn target_slot(now: Tick, interval: u64) -> u64 {
    (now.0 / SLOT + interval / SLOT) % SLOTS as u64
}

/// When the wheel comes to that slot. It comes to the current one only after a whole turn.
pub(crate) fn comes_by_formula(now: Tick, interval: u64) -> Tick {
    let current = now.0 / SLOT;
    let ahead = (target_slot(now, interval) + SLOTS as u64 - current % SLOTS as u64) % SLOTS as u64;
    let ahead = if ahead == 0 { SLOTS as u64 } else { ahead };
    Tick((current + ahead) * SLOT.get())
}

/// Ours: the first slot that begins at the deadline or later, so that no timer comes early; and what lies further ahead than a turn
/// is refused, where the formula would take it for something near.
pub(crate) fn wheel<T>() -> SimpleWheel<T> {
    SimpleWheel::with_width(Tick(0), SLOTS, SLOT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use encke_wheel::{Expire, TimerQueue, Work};

    /// When a timer that starts now comes out of the wheel.
    fn comes(now: u64, interval: u64) -> Option<u64> {
        let mut wheel = wheel();
        let _ = wheel.expire_next(Tick(now), &mut Work::unlimited());
        wheel.schedule(Tick(now + interval), ()).ok()?;
        match wheel.expire_next(Tick(now + CAP), &mut Work::unlimited()) {
            Expire::Due(_) => Some(wheel.now().0),
            Expire::OutOfWork | Expire::UpToDate => None,
        }
    }

    #[test]
    fn ours_is_up_to_a_slot_late_and_theirs_nearly_two_early() {
        for now in 0..=CAP {
            for interval in SLOT.get()..=CAP {
                let deadline = CAP + now + interval;
                let theirs = comes_by_formula(Tick(CAP + now), interval).0;
                assert!((deadline - 98..=deadline).contains(&theirs), "{interval} ms from {now}: {theirs}");
                if let Some(ours) = comes(CAP + now, interval) {
                    assert!((deadline..deadline + 50).contains(&ours), "{interval} ms from {now}: {ours}");
                }
            }
        }
    }

    #[test]
    fn beyond_the_cap_the_formula_goes_around_and_the_wheel_refuses() {
        assert_eq!(comes_by_formula(Tick(0), 350), Tick(350));
        assert_eq!(comes_by_formula(Tick(0), 400), Tick(50));
        assert_eq!((comes(0, 350), comes(0, 351)), (Some(350), None));
        // Between two slots there is less of a turn ahead.
        assert_eq!((comes(20, 330), comes(20, 331)), (Some(350), None));
    }
}
