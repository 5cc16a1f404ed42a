//! How subscribers learn that there is something to read.
//!
//! One sweep a channel goes through its subscribers and wakes those that wait, some at a time, so that a channel with ten
//! thousand of them delays neither pings nor other channels. What is published meanwhile makes it go round once more. A
//! subscriber is told once, and again only after it has read to the end: however much is published, a slow one is not told
//! twice.

use std::sync::Arc;
use std::task::Waker;

use arrayvec::ArrayVec;

use super::state::Channel;
use super::subscribers::{Call, Subscriber};
use crate::executor::{Executor, yield_now};

/// Subscribers woken before others get their turn. At some 7 µs a delivery that is a millisecond.
const WOKEN_AT_ONCE: usize = 128;

/// Places looked at under one lock, when few of them wait.
const LOOKED_AT_AT_ONCE: usize = 4096;

/// Where a channel's sweep is.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// The index it continues from; `None` when no sweep is under way.
    at: Option<usize>,
    /// Something was published since it began.
    again: bool,
}

impl Sweep {
    /// Something was published. Returns whether there was no sweep under way: then the caller has begun one.
    pub(super) fn published(&mut self) -> bool {
        self.again = self.at.is_some();
        self.at.get_or_insert(0);
        !self.again
    }
}

/// Wakes everyone who waits for the channel. Returns soon: most of a large audience is woken later, by a task.
pub(super) fn sweep<S: Subscriber>(channel: Arc<Channel<S>>, home: &Arc<S::Home>, executor: &dyn Executor) {
    if channel.wake_some(home) {
        let home = Arc::clone(home);
        executor.spawn(Box::pin(async move {
            loop {
                // Before the next are woken, those that are woken already get to run.
                yield_now().await;
                if !channel.wake_some(&home) {
                    break;
                }
            }
        }));
    }
}

impl<S: Subscriber> Channel<S> {
    /// Goes on with the sweep. Returns whether there is more to do.
    fn wake_some(&self, home: &S::Home) -> bool {
        let mut calls = ArrayVec::<Call<S>, WOKEN_AT_ONCE>::new();
        let more = {
            let mut state = self.state.lock();
            let state = &mut *state;
            let Some(mut at) = state.sweep.at else { return false };
            state.sweep.at = loop {
                match state.subscribers.next_waiting(at, LOOKED_AT_AT_ONCE) {
                    Some((next, call)) => {
                        at = next;
                        let Some(call) = call else { break Some(at) };
                        calls.push(call);
                        if calls.is_full() {
                            break Some(at);
                        }
                    }
                    None if std::mem::take(&mut state.sweep.again) => at = 0,
                    None => break None,
                }
            };
            state.sweep.at.is_some()
        };
        // After the lock is released: a subscriber has a lock of its own.
        for (subscriber, slot) in calls {
            if let Some(waker) = subscriber.tell_readable(home, slot) {
                Waker::wake(waker);
            }
        }
        more
    }
}
