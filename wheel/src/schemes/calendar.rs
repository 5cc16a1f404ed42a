//! A hashed wheel that changes its size and the width of its slots.
//!
//! ```text
//!   a day of 4 ticks, a year of 8 days; now = 33
//!
//!   page   0    1    2    3    4    5    6    7
//!        [  ] [  ] [  ] [  ] [  ] [  ] [  ] [  ]
//!          |         |
//!          v         v
//!        [34]      [41]                               34: day 8, page 0
//!          |         |                                98: day 24, page 0 too, two years later
//!          v         v
//!        [98]      [43]
//!
//!   more than 2 timers a day: twice the days       each time, a day becomes three times as long
//!   fewer than 1 in 2 days:   half the days        as the next timers are apart
//! ```
//!
//! | | |
//! |---|---|
//! | source | R. Brown, *Calendar Queues*, CACM 31(10), 1988; an extension of timing wheels, as Varghese & Lauck 1997 see it in section VIII |
//! | start | O(n); O(1) on average |
//! | stop | O(n); O(1) on average |
//! | per tick | O(n); on average O(1), and O(1) for each timer due |
//! | memory | 24 bytes a timer and an `Option<T>`; 2 to 8 bytes a timer for the days |
//! | horizon | none |
//! | precision | exact |
//! | wakes | when a timer is due; finding out takes up to a year of days |
//! | bad when | no operation may take long, since one that changes the days moves all timers; or timers crowd in places |

use alloc::boxed::Box;
use alloc::vec;

use super::arena::NIL;
use super::list::{Link, List, ListNode};
use super::timers::{Scheme, Step, Timers, timer_queue};
use super::turn::Turn;
use crate::{Tick, Work};

/// A calendar: the days of a year on one page each, all years on the same pages, each page in order. Like
/// [`HashedSortedWheel`](super::HashedSortedWheel), but the number of days follows the number of timers, and the length of a
/// day how closely they follow each other, so that about every day has a timer. [The module](self) has its picture, source,
/// costs and limits. The means there are Brown's measurements, over many operations.
///
/// The days double when there are more than two timers a day, and halve when there are fewer than one in two. Their new
/// length is three times the mean distance of the next timers, 25 at most, leaving out distances of more than twice the
/// mean, as Brown has it, but rounded up to a power of two.
///
/// When a whole year has nothing, the calendar goes to the earliest timer. Days are not halved when that would take more
/// than the [`Work`] left, which pays for the moves.
pub struct CalendarQueue<T>(pub(super) Timers<Calendar, T>);

impl<T> CalendarQueue<T> {
    /// An empty calendar that stands at `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        CalendarQueue(Timers::new(
            now,
            Calendar {
                days: vec![List::EMPTY; FEWEST_DAYS].into(),
                length: 0,
                len: 0,
                turn: Turn::new(now.0),
            },
        ))
    }
}

timer_queue!(CalendarQueue);

const FEWEST_DAYS: usize = 2;

/// How many timers tell the length of a day.
const SAMPLE: usize = 25;

pub(super) struct Calendar {
    /// A power of two. Each is in order.
    days: Box<[List]>,
    /// A day is `2^length` ticks.
    length: u32,
    len: usize,
    /// Counts days since tick 0.
    turn: Turn,
}

impl Calendar {
    /// The number of a day since tick 0.
    fn day(&self, tick: Tick) -> u64 {
        tick.0 >> self.length
    }

    fn page(&self, day: u64) -> usize {
        let mask = self.days.len() as u64 - 1;
        usize::try_from(day & mask).expect("less than the days")
    }

    fn insert(&mut self, nodes: &mut [ListNode], index: u32) {
        let day = self.day(nodes[index as usize].due);
        self.turn.saw(day);
        self.days[self.page(day)].insert_sorted(nodes, index);
        self.len += 1;
    }

    fn remove(&mut self, nodes: &mut [ListNode], index: u32) {
        let day = self.day(nodes[index as usize].due);
        self.days[self.page(day)].unlink(nodes, index);
        self.len -= 1;
    }

    /// The earliest timer, from `now` on: the first of its day in the year that begins now, or else of all.
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

    /// How many there are, and how long.
    #[cfg(test)]
    pub(super) fn days(&self) -> (usize, u64) {
        (self.days.len(), 1 << self.length)
    }

    fn too_many_days(&self) -> bool {
        self.days.len() > FEWEST_DAYS && self.len < self.days.len() / 2
    }

    /// Makes a new calendar of all timers.
    fn resize(&mut self, nodes: &mut [ListNode], now: Tick, days: usize) {
        let mut sample = [NIL; SAMPLE];
        let count = if self.len <= 5 { self.len } else { (5 + self.len / 10).min(SAMPLE) };
        let mut from = now;
        for place in &mut sample[..count] {
            *place = self.earliest(nodes, from).expect("there are that many");
            from = nodes[*place as usize].due;
            self.remove(nodes, *place);
        }
        let sample = &sample[..count];
        self.length = day_length(sample.iter().map(|&index| nodes[index as usize].due));
        let old = core::mem::replace(&mut self.days, vec![List::EMPTY; days].into());
        self.len = 0;
        self.turn = Turn::new(self.day(now));
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

/// How long a day should be, as a power of two, for timers that are due like these, which are in order.
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

impl Scheme for Calendar {
    type Link = Link;

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

    fn advance(&mut self, nodes: &mut [ListNode], now: &mut Tick, until: Tick, work: &mut Work) -> Step {
        if self.len == 0 {
            return Step::UpToDate;
        }
        if self.too_many_days() && work.left() > self.len as u64 {
            (0..self.len).for_each(|_| assert!(work.spend(), "it is left"));
            self.resize(nodes, *now, self.days.len() / 2);
        }
        loop {
            let (today, last) = (self.day(*now), self.day(until));
            let List { first } = self.days[self.page(today)];
            if first != NIL {
                let due = nodes[first as usize].due;
                let this_year = self.day(due) == today;
                if if this_year { due > until } else { today == last } {
                    return Step::UpToDate;
                }
                if !work.spend() {
                    return Step::OutOfWork;
                }
                if this_year {
                    *now = due;
                    self.remove(nodes, first);
                    return Step::Due(first);
                }
                self.turn.saw(self.day(due));
            }
            if today == last {
                return Step::UpToDate;
            }
            let next = self.turn.skip(today, last, self.days.len() as u64).unwrap_or(today + 1);
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
