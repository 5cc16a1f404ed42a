use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;
use slab::Slab;

use super::history::History;
use super::viewer::Viewer;
use crate::timeouts::{RingView, RingWatch, Timeouts};

/// State shared by all viewers: the samples, and the tasks that wait for the next one.
///
/// Viewers pull samples and have no queues: a slow viewer skips to the newest sample. No other lock is taken
/// while this one is held.
#[derive(Debug, Default)]
pub(crate) struct Feed(Mutex<FeedState>);

#[derive(Debug, Default)]
struct FeedState {
    history: History,
    /// Event with the newest sample, the same for all viewers.
    newest: Bytes,
    /// All viewers, each with its task if that is waiting.
    viewers: Slab<Option<Waker>>,
    /// Makes the wheel report the contents of its slots, while there are viewers.
    watch: Option<Arc<RingWatch>>,
    /// The server is draining, so there will be no more samples.
    is_over: bool,
}

/// A sample, and the number of the next one.
type NumberedSample = (Bytes, u64);

impl Feed {
    /// Returns the contents of the wheel's slots. `None` if there are no viewers, or the wheel has not
    /// reported them yet.
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
        state.watch.get_or_insert_with(|| Arc::new(timeouts.watch_rings()));
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
        // Outside of the lock, because a task may own viewers.
        drop(waiting);
    }

    /// Returns the first available sample with this number or a later one. `None` if no such sample
    /// exists, or at the end of the stream.
    pub(super) fn first_from(&self, number: u64) -> Option<NumberedSample> {
        let state = self.0.lock();
        let (number, sample) = state.history.first_from(number).filter(|_| !state.is_over)?;
        Some((sample.clone(), number + 1))
    }

    /// Returns the newest sample, once there is one with this number or a later one. `None` at the end of the
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
