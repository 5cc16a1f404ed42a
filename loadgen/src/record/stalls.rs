//! When this process did not run: stopped by a signal, or kept from its core. What arrived meanwhile was read late, and from when to when
//! something took can then be told only within bounds.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

/// Turns that lie further apart than this have a stall between them; when nothing is amiss they are 10 ms apart.
const STALL: Duration = Duration::from_millis(15);
/// How long after a stall what arrived in it may still be read: there may be much of it.
const SETTLE: Duration = Duration::from_millis(250);

/// A clone is the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stalls(Rc<RefCell<State>>);

#[derive(Debug, Default)]
struct State {
    last_turn: Option<Instant>,
    /// Those that may still matter: from when to when.
    recent: VecDeque<(Instant, Instant)>,
}

impl Stalls {
    /// This thread runs now. To be called at least every 10 ms.
    pub(crate) fn turn(&self, now: Instant) {
        let State { last_turn, recent } = &mut *self.0.borrow_mut();
        if let Some(last) = last_turn.replace(now)
            && now.saturating_duration_since(last) > STALL
        {
            recent.push_back((last, now));
        }
        while recent.front().is_some_and(|(_, end)| *end + SETTLE < now) {
            recent.pop_front();
        }
    }

    /// When something that is read at this instant, which is about now, may have arrived at the earliest.
    pub(crate) fn earliest(&self, read_at: Instant) -> Instant {
        let State { last_turn, recent } = &*self.0.borrow();
        let first = recent.iter().find(|(_, end)| *end + SETTLE >= read_at).map(|(start, _)| *start);
        // The turn that ends a stall may come after what is read then.
        let present = last_turn.filter(|last| read_at.saturating_duration_since(*last) > STALL);
        first.into_iter().chain(present).fold(read_at, Instant::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_after_a_stall_may_have_arrived_in_it() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let stalls = Stalls::default();
        assert_eq!(stalls.earliest(at(0)), at(0), "nothing is known yet");
        for ms in [0, 10, 20] {
            stalls.turn(at(ms));
        }
        assert_eq!(stalls.earliest(at(29)), at(29));
        assert_eq!(stalls.earliest(at(420)), at(20), "read before the turn that ends the stall");
        stalls.turn(at(421));
        for ms in [422, 600, 671] {
            assert_eq!(stalls.earliest(at(ms)), at(20), "read {ms}");
        }
        for ms in (431..=691).step_by(10) {
            stalls.turn(at(ms));
        }
        assert_eq!(stalls.earliest(at(695)), at(695), "all of it has been read by now");
    }

    #[test]
    fn of_several_stalls_the_first_that_matters_counts() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let stalls = Stalls::default();
        for ms in [0, 100, 110, 200] {
            stalls.turn(at(ms));
        }
        assert_eq!(stalls.earliest(at(205)), at(0));
        assert_eq!(stalls.earliest(at(360)), at(110));
    }
}
