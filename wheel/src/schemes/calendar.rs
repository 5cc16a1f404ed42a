//! A hashed wheel that adapts its number of slots and their width.
//!
//! ```text
//!   a day of 4 ticks, a year of 8 days; now = 33
//!
//!   page   0    1    2    3    4    5    6    7
//!        [  ] [  ] [  ] [  ] [  ] [  ] [  ] [  ]
//!          |         |
//!          v         v
//!        [34]      [41]                               34: day 8, page 0
//!          |         |                                98: day 24, also page 0, two years later
//!          v         v
//!        [98]      [43]
//!
//!   more than 2 timers a day: twice the days       each time, the day length becomes three times
//!   fewer than 1 in 2 days:   half the days        the distance between the next timers
//! ```
//!
//! | | |
//! |---|---|
//! | source | R. Brown, *Calendar Queues*, CACM 31(10), 1988; called an extension of timing wheels by Varghese & Lauck 1997, section VIII |
//! | start | O(n); O(1) on average |
//! | stop | O(n); O(1) on average |
//! | per tick | O(n); on average O(1), plus O(1) per due timer |
//! | memory | 24 bytes and an `Option<T>` per timer; 2 to 8 bytes per timer for the days |
//! | horizon | none |
//! | precision | exact |
//! | wakes | when a timer is due; finding that tick takes up to a year of days |
//! | bad when | latency must be bounded, because resizing moves all timers; or deadlines are clustered |

use alloc::boxed::Box;
use alloc::vec;

use super::arena::NIL;
use super::list::{List, ListLink, ListNode};
use super::revolution::Revolution;
use super::timers::{AdvanceStep, SchemeTimers, TimerScheme, timer_queue};
use crate::{Tick, WorkBudget};

/// A calendar: each day of the year has one page, which all years share and which is kept in order. It
/// resembles [`HashedSortedWheel`](super::HashedSortedWheel), but the number of days adapts to the number of
/// timers, and the length of a day to the distance between timers, so that there is about one timer per day.
/// See the [module documentation](self), whose averages are Brown's measurements, amortised over many
/// operations.
///
/// The number of days doubles when there are more than two timers per day, and halves when there is less than
/// one timer per two days. The new length is three times the mean distance between the next timers, of which
/// at most 25 are sampled. As in Brown's paper, distances of more than twice the mean are ignored. Unlike in
/// the paper, the length is rounded up to a power of two.
///
/// After a whole year without a due timer, the calendar jumps to the earliest timer. The number of days is
/// not halved if that would exceed the remaining [`WorkBudget`], which pays for the moves.
pub struct CalendarQueue<T>(pub(super) SchemeTimers<Calendar, T>);

impl<T> CalendarQueue<T> {
    /// Creates an empty calendar at tick `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        CalendarQueue(SchemeTimers::new(
            now,
            Calendar {
                days: vec![List::EMPTY; MIN_DAYS].into(),
                length: 0,
                len: 0,
                revolution: Revolution::new(now.0),
            },
        ))
    }
}

timer_queue!(CalendarQueue);

const MIN_DAYS: usize = 2;

/// Maximum number of timers sampled to determine the length of a day.
const MAX_SAMPLE: usize = 25;

pub(super) struct Calendar {
    /// Pages of the days; their number is a power of two. Each list is in order.
    days: Box<[List]>,
    /// Binary logarithm of the length of a day in ticks.
    length: u32,
    len: usize,
    /// Earliest timer seen. Positions are days since tick 0.
    revolution: Revolution,
}

impl Calendar {
    fn day(&self, tick: Tick) -> u64 {
        tick.0 >> self.length
    }

    fn page(&self, day: u64) -> usize {
        let mask = self.days.len() as u64 - 1;
        usize::try_from(day & mask).expect("below the number of days")
    }

    fn insert(&mut self, nodes: &mut [ListNode], index: u32) {
        let day = self.day(nodes[index as usize].due);
        self.revolution.record(day);
        self.days[self.page(day)].insert_sorted(nodes, index);
        self.len += 1;
    }

    fn remove(&mut self, nodes: &mut [ListNode], index: u32) {
        let day = self.day(nodes[index as usize].due);
        self.days[self.page(day)].unlink(nodes, index);
        self.len -= 1;
    }

    /// Returns the earliest timer: the first timer within the year that begins at `now`, otherwise the first
    /// of all.
    fn earliest(&self, nodes: &[ListNode], now: Tick) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let today = self.day(now);
        let of_day = |day: &u64| self.days[self.page(*day)].first;
        let in_year = (today..=today.saturating_add(self.days.len() as u64 - 1))
            .find(|day| of_day(day) != NIL && self.day(nodes[of_day(day) as usize].due) == *day);
        if let Some(day) = in_year {
            return Some(of_day(&day));
        }
        let firsts = self.days.iter().map(|list| list.first).filter(|&first| first != NIL);
        firsts.min_by_key(|&first| nodes[first as usize].due)
    }

    #[cfg(test)]
    pub(super) fn days(&self) -> (usize, u64) {
        (self.days.len(), 1 << self.length)
    }

    fn too_many_days(&self) -> bool {
        self.days.len() > MIN_DAYS && self.len < self.days.len() / 2
    }

    fn resize(&mut self, nodes: &mut [ListNode], now: Tick, days: usize) {
        let mut sample = [NIL; MAX_SAMPLE];
        let count = if self.len <= 5 { self.len } else { (5 + self.len / 10).min(MAX_SAMPLE) };
        let mut from = now;
        for place in &mut sample[..count] {
            *place = self.earliest(nodes, from).expect("enough timers");
            from = nodes[*place as usize].due;
            self.remove(nodes, *place);
        }
        let sample = &sample[..count];
        self.length = day_length(sample.iter().map(|&index| nodes[index as usize].due));
        let old = core::mem::replace(&mut self.days, vec![List::EMPTY; days].into());
        self.len = 0;
        self.revolution = Revolution::new(self.day(now));
        for &index in sample {
            self.insert(nodes, index);
        }
        for List { first: mut index } in old {
            while index != NIL {
                let next = nodes[index as usize].link.next;
                self.insert(nodes, index);
                index = next;
            }
        }
    }
}

/// Returns the binary logarithm of a suitable day length for timers due at these ticks, which must be in
/// order.
fn day_length(sample: impl Iterator<Item = Tick> + Clone) -> u32 {
    let distances = || sample.clone().zip(sample.clone().skip(1)).map(|(one, next)| next.0 - one.0);
    let mean = |limit: u64| {
        let kept = || distances().filter(|&distance| distance <= limit);
        kept().map(u128::from).sum::<u128>() / kept().count().max(1) as u128
    };
    let limit = u64::try_from(2 * mean(u64::MAX)).unwrap_or(u64::MAX);
    let length = (3 * mean(limit)).max(1).next_power_of_two().ilog2();
    length.min(u64::BITS - 1)
}

impl TimerScheme for Calendar {
    type Link = ListLink;

    fn link(&mut self, nodes: &mut [ListNode], now: Tick, index: u32) {
        self.insert(nodes, index);
        if self.len > 2 * self.days.len() {
            self.resize(nodes, now, 2 * self.days.len());
        }
    }

    fn unlink(&mut self, nodes: &mut [ListNode], now: Tick, index: u32) {
        self.remove(nodes, index);
        if self.too_many_days() {
            self.resize(nodes, now, self.days.len() / 2);
        }
    }

    fn advance(
        &mut self,
        nodes: &mut [ListNode],
        now: &mut Tick,
        until: Tick,
        work: &mut WorkBudget,
    ) -> AdvanceStep {
        if self.len == 0 {
            return AdvanceStep::UpToDate;
        }
        if self.too_many_days() && work.remaining() > self.len as u64 {
            (0..self.len).for_each(|_| assert!(work.spend(), "within the budget"));
            self.resize(nodes, *now, self.days.len() / 2);
        }
        loop {
            let (today, last) = (self.day(*now), self.day(until));
            let List { first } = self.days[self.page(today)];
            if first != NIL {
                let due = nodes[first as usize].due;
                let this_year = self.day(due) == today;
                if if this_year { due > until } else { today == last } {
                    return AdvanceStep::UpToDate;
                }
                if !work.spend() {
                    return AdvanceStep::OutOfBudget;
                }
                if this_year {
                    *now = due;
                    self.remove(nodes, first);
                    return AdvanceStep::Due(first);
                }
                self.revolution.record(self.day(due));
            }
            if today == last {
                return AdvanceStep::UpToDate;
            }
            let next = self.revolution.skip(today, last, self.days.len() as u64).unwrap_or(today + 1);
            *now = Tick(next << self.length);
        }
    }

    fn next_wakeup(&self, nodes: &[ListNode], now: Tick) -> Option<Tick> {
        self.earliest(nodes, now).map(|index| nodes[index as usize].due)
    }

    #[cfg(test)]
    fn check(&self, nodes: &[ListNode], now: Tick) -> alloc::vec::Vec<u32> {
        let mut all = alloc::vec::Vec::new();
        for (page, list) in self.days.iter().enumerate() {
            let held = list.check_sorted(nodes);
            for &index in &held {
                let due = nodes[index as usize].due;
                assert!(due >= now && self.page(self.day(due)) == page, "{due} on page {page} at {now}");
            }
            all.extend(held);
        }
        assert_eq!(all.len(), self.len);
        all
    }
}
