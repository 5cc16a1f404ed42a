//! Periods in which this process did not run, because it was stopped by a signal or another process used its
//! core. Data that arrived in such a period was read late, so times measured from it are known only within
//! bounds.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

/// Gap between calls of [`Stalls::turn`] above which the process counts as stalled. Normally calls are 10 ms
/// apart.
const STALL: Duration = Duration::from_millis(15);
/// How long after a stall there may still be unread data that arrived during it, because there may be a lot
/// of it.
const SETTLE: Duration = Duration::from_millis(250);

/// Recent stalls. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stalls(Rc<RefCell<StallState>>);

#[derive(Debug, Default)]
struct StallState {
    last_turn: Option<Instant>,
    /// Start and end of each stall that may still matter.
    recent: VecDeque<(Instant, Instant)>,
}

impl Stalls {
    /// Reports that this thread is running. Must be called at least every 10 ms.
    pub(crate) fn turn(&self, now: Instant) {
        let StallState { last_turn, recent } = &mut *self.0.borrow_mut();
        if let Some(last) = last_turn.replace(now)
            && now.saturating_duration_since(last) > STALL
        {
            recent.push_back((last, now));
        }
        while recent.front().is_some_and(|(_, end)| *end + SETTLE < now) {
            recent.pop_front();
        }
    }

    /// Returns the earliest time at which data read at `read_at` may have arrived. `read_at` must be about
    /// the current time.
    pub(crate) fn earliest(&self, read_at: Instant) -> Instant {
        let StallState { last_turn, recent } = &*self.0.borrow();
        let first = recent.iter().find(|(_, end)| *end + SETTLE >= read_at).map(|(start, _)| *start);
        // The data may be read before the `turn` call that ends the stall.
        let present = last_turn.filter(|last| read_at.saturating_duration_since(*last) > STALL);
        first.into_iter().chain(present).fold(read_at, Instant::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_read_after_a_stall_may_have_arrived_during_it() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let stalls = Stalls::default();
        assert_eq!(stalls.earliest(at(0)), at(0), "no turn yet");
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
        assert_eq!(stalls.earliest(at(695)), at(695), "all data has been read");
    }

    #[test]
    fn the_first_recent_stall_counts() {
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
