use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;
use slab::Slab;

use super::history::History;
use super::viewer::Viewer;
use crate::timeouts::{RingView, RingWatch, Timeouts};

/// What all viewers share: the samples, and who waits for the next one.
///
/// Viewers take what they have not sent yet: none has a queue, and one that is slow gets the newest sample when it comes to it. Nothing else
/// is locked meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Feed(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    history: History,
    /// The last sample, as the event that all viewers get.
    newest: Bytes,
    /// Those who watch, each with its task if that waits.
    viewers: Slab<Option<Waker>>,
    /// As long as there are any: the wheel says what its slots hold.
    watch: Option<Arc<RingWatch>>,
    /// The server drains: there will be no more.
    is_over: bool,
}

/// A sample, and the number of the next one.
type Numbered = (Bytes, u64);

impl Feed {
    /// What the wheel's slots hold; nothing, while nobody watches or it has not said that yet.
    pub(super) fn rings(&self) -> Option<Vec<RingView>> {
        let watch = self.0.lock().watch.clone();
        Some(watch?.rings()?.rings)
    }

    #[cfg(test)]
    pub(super) fn is_watched(&self) -> bool {
        self.0.lock().watch.is_some()
    }

    /// Adds a sample, as it is kept and as the event that all viewers get.
    pub(super) fn add(&self, kept: Bytes, event: Bytes) {
        self.change(|state| {
            state.history.push(kept);
            state.newest = event;
        });
    }

    /// Ends the streams of all viewers, and of those to come.
    pub(super) fn end(&self) {
        self.change(|state| state.is_over = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.0.lock();
        change(&mut state);
        let waiting: Vec<_> = state.viewers.iter_mut().filter_map(|(_, waiting)| waiting.take()).collect();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Adds a viewer, which is told `about` first.
    pub(super) fn view(self: &Arc<Self>, about: Bytes, timeouts: &Arc<Timeouts>) -> Viewer {
        let mut state = self.0.lock();
        state.watch.get_or_insert_with(|| Arc::new(timeouts.watch_rings()));
        let place = state.viewers.insert(None);
        drop(state);
        Viewer::new(Arc::clone(self), place, about)
    }

    /// A viewer is gone.
    pub(super) fn leave(&self, place: usize) {
        let mut state = self.0.lock();
        let waiting = state.viewers.try_remove(place);
        if state.viewers.is_empty() {
            state.watch = None;
        }
        drop(state);
        // Not under the lock: a task may own viewers.
        drop(waiting);
    }

    /// The first sample of this number or a later one that is still kept; nothing at the end of all.
    pub(super) fn kept(&self, number: u64) -> Option<Numbered> {
        let state = self.0.lock();
        let (number, sample) = state.history.from(number).filter(|_| !state.is_over)?;
        Some((sample.clone(), number + 1))
    }

    /// The newest sample, as soon as it is of this number or a later one; nothing at the end of all.
    pub(super) fn poll_newest(
        &self,
        place: usize,
        number: u64,
        task: &Context<'_>,
    ) -> Poll<Option<Numbered>> {
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
