use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use encke_timeouts::{RingView, RingWatch, Timeouts};
use slab::Slab;

use super::history::History;
use super::viewer::Viewer;
use crate::locks::Mutex;

/// State shared by all viewers: the samples, and the tasks that wait for the next sample.
///
/// Viewers pull samples and have no queues: a slow viewer skips to the newest sample.
#[derive(Debug, Default)]
pub(crate) struct Feed(Mutex<FeedState>);

#[derive(Debug, Default)]
struct FeedState {
    history: History,
    /// Event with the newest sample, the same for all viewers.
    newest: Bytes,
    /// All viewers, each with the waker of its task if the task is waiting.
    viewers: Slab<Option<Waker>>,
    /// Makes the wheel report the contents of its slots. `None` if there are no viewers.
    watch: Option<Arc<RingWatch>>,
    /// Whether the stream has ended: the server is draining, and no more samples are taken.
    is_over: bool,
}

/// A sample, and the number of the sample after it.
type NumberedSample = (Bytes, u64);

impl Feed {
    /// Returns the contents of the wheel's slots, or `None` if there are no viewers or the wheel has not
    /// reported the contents yet.
    pub(super) fn rings(&self) -> Option<Vec<RingView>> {
        let watch = self.0.lock().watch.clone();
        Some(watch?.rings()?.rings)
    }

    #[cfg(test)]
    pub(super) fn is_watched(&self) -> bool {
        self.0.lock().watch.is_some()
    }

    /// Adds a sample: its encoded form for the history, and the event for viewers.
    pub(super) fn add(&self, kept: Bytes, event: Bytes) {
        self.change(|state| {
            state.history.push(kept);
            state.newest = event;
        });
    }

    /// Ends all streams, including those that are opened later.
    pub(super) fn end(&self) {
        self.change(|state| state.is_over = true);
    }

    fn change(&self, change: impl FnOnce(&mut FeedState)) {
        let mut state = self.0.lock();
        change(&mut state);
        let waiting: Vec<_> = state.viewers.iter_mut().filter_map(|(_, waiting)| waiting.take()).collect();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Adds a viewer, which receives `about` first.
    pub(super) fn add_viewer(self: &Arc<Self>, about: Bytes, timeouts: &Arc<Timeouts>) -> Viewer {
        let mut state = self.0.lock();
        state.watch.get_or_insert_with(|| Arc::new(RingWatch::new(Arc::clone(timeouts))));
        let place = state.viewers.insert(None);
        drop(state);
        Viewer::new(Arc::clone(self), place, about)
    }

    pub(super) fn remove_viewer(&self, place: usize) {
        let mut state = self.0.lock();
        let waiting = state.viewers.try_remove(place);
        if state.viewers.is_empty() {
            state.watch = None;
        }
        drop(state);
        // Drop the wakers without holding the lock, because a task may own viewers.
        drop(waiting);
    }

    /// Returns the first available sample with this or a higher number. Returns `None` if there is no such
    /// sample, or at the end of the stream.
    pub(super) fn first_from(&self, number: u64) -> Option<NumberedSample> {
        let state = self.0.lock();
        let (number, sample) = state.history.first_from(number).filter(|_| !state.is_over)?;
        Some((sample.clone(), number + 1))
    }

    /// Returns the newest sample as soon as its number is at least `number`. Returns `None` at the end of the
    /// stream.
    pub(super) fn poll_newest(
        &self,
        place: usize,
        number: u64,
        task: &Context<'_>,
    ) -> Poll<Option<NumberedSample>> {
        let mut state = self.0.lock();
        let next = state.history.next();
        if state.is_over {
            return Poll::Ready(None);
        }
        if next > number {
            return Poll::Ready(Some((state.newest.clone(), next)));
        }
        if let Some(waiting) = state.viewers.get_mut(place) {
            *waiting = Some(task.waker().clone());
        }
        Poll::Pending
    }
}
