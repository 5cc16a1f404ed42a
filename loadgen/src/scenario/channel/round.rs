//! One run of publishing to everyone.

use std::cell::{Cell, OnceCell, RefCell};

use tokio::time::Instant;

use super::course::Course;
use crate::counts::Counter;

/// What is published in it, and how far that has come.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Set when everyone is subscribed.
    pub(super) course: OnceCell<Course>,
    /// Connections that got a hello.
    pub(super) connected: Counter,
    /// Subscriptions that were answered, or will not be any more.
    pub(super) settled: Counter,
    /// Subscribers who should have every message.
    pub(super) counted: Counter,
    /// Each message once a subscriber who counts, however often it came.
    pub(super) received: Counter,
    /// When each message was really sent.
    pub(super) sent: RefCell<Vec<Option<Instant>>>,
    /// When each message reached the last subscriber so far.
    pub(super) last_of: RefCell<Vec<Option<Instant>>>,
    pub(super) last: Cell<Option<Instant>>,
    pub(super) is_published: Cell<bool>,
}

impl Round {
    /// The first message is due.
    pub(crate) fn start(&self) -> Option<Instant> {
        self.course.get().map(Course::start)
    }

    /// The last message is due.
    pub(crate) fn last_due(&self) -> Option<Instant> {
        self.course.get().map(Course::last_due)
    }

    pub(super) fn expected(&self) -> u64 {
        self.counted.get() * self.course.get().map_or(0, |course| course.len() as u64)
    }

    pub(super) fn note_sent(&self, number: u32) {
        note(&self.sent, self.course.get(), number);
    }

    pub(super) fn note_arrival(&self, number: u32) {
        note(&self.last_of, self.course.get(), number);
        self.last.set(Some(Instant::now()));
    }
}

fn note(list: &RefCell<Vec<Option<Instant>>>, course: Option<&Course>, number: u32) {
    let mut list = list.borrow_mut();
    if list.is_empty() {
        list.resize(course.map_or(0, Course::len), None);
    }
    if let Some(entry) = list.get_mut(number as usize) {
        *entry = Some(Instant::now());
    }
}
