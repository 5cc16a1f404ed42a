//! How subscribers learn that there is something to read.
//!
//! One sweep a channel goes through its subscribers and wakes those that wait, some at a time, so that a channel with ten
//! thousand of them delays neither pings nor other channels. What is published meanwhile makes it go round once more. A
//! subscriber is told once, and again only after it has read to the end: however much is published, a slow one is not told
//! twice.
//!
//! The publisher begins the sweep, and a task goes on with it; of a large audience as many tasks as can run at the same time, which claim one
//! run of subscribers after another ([`Sweep`](super::sweep::Sweep)).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use arrayvec::ArrayVec;

use super::state::Channel;
use super::subscribers::{Call, Subscriber};
use crate::executor::{Executor, Sharing, yield_now};

/// Places looked at under one lock, when few of them wait.
const LOOKED_AT_AT_ONCE: usize = 4096;

/// What all sweeps need.
#[derive(Debug)]
pub(super) struct FanOut<S: Subscriber> {
    /// Where subscribers are found.
    pub(super) home: Arc<S::Home>,
    pub(super) executor: Arc<dyn Executor>,
    /// Of the executor.
    sharing: Sharing,
}

/// A part in a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// That of the publisher: the first run.
    First,
    /// That of a task: one run after another, for as long as there are any.
    Task,
}

/// What comes after a run.
enum Next {
    /// Nothing is left to claim. `traced` is whether that is to be told.
    Over { traced: bool },
    /// There is more, for which so many tasks are to be started.
    More { missing: usize },
}

impl<S: Subscriber> FanOut<S> {
    /// Large audiences are told on `executor`.
    pub(super) fn new(home: Arc<S::Home>, executor: Arc<dyn Executor>) -> Self {
        let sharing = executor.sharing();
        Self { home, executor, sharing }
    }

    /// Wakes everyone who waits for the channel. The caller has just begun its sweep. Returns soon: most of a large audience is woken later, by
    /// tasks.
    pub(super) fn sweep(self: &Arc<Self>, channel: &Arc<Channel<S>>) {
        match channel.wake_some(self, Part::First) {
            Next::More { missing } => self.start(missing, channel),
            Next::Over { traced } => self.over(channel, traced),
        }
    }

    fn start(self: &Arc<Self>, tasks: usize, channel: &Arc<Channel<S>>) {
        for _ in 0..tasks {
            let (fan_out, channel) = (Arc::clone(self), Arc::clone(channel));
            self.executor.spawn(Box::pin(async move {
                // Before the next are woken, those that are woken already get to run.
                yield_now().await;
                loop {
                    match channel.wake_some(&fan_out, Part::Task) {
                        Next::More { missing } => fan_out.start(missing, &channel),
                        Next::Over { traced } => return fan_out.over(&channel, traced),
                    }
                    yield_now().await;
                }
            }));
        }
    }

    #[cfg(not(feature = "otlp"))]
    #[inline]
    fn over(&self, _: &Channel<S>, _traced: bool) {}

    /// Those that waited for what is traced were woken.
    #[cfg(feature = "otlp")]
    fn over(self: &Arc<Self>, channel: &Arc<Channel<S>>, traced: bool) {
        if traced {
            self.begin_census(channel);
        }
    }
}

impl<S: Subscriber> Channel<S> {
    /// Goes on with the sweep by one run.
    fn wake_some(&self, FanOut { home, sharing, .. }: &FanOut<S>, part: Part) -> Next {
        let mut calls = ArrayVec::<Call<S>, { Sharing::MOST_AT_ONCE }>::new();
        let next = {
            let mut state = self.state.lock();
            let state = &mut *state;
            let subscribers = &mut state.subscribers;
            let has_more = state.sweep.claim(|mut at| {
                while calls.len() < sharing.at_once() {
                    let (next, call) = subscribers.next_waiting(at, LOOKED_AT_AT_ONCE)?;
                    at = next;
                    let Some(call) = call else { break };
                    calls.push(call);
                }
                Some(at)
            });
            if has_more {
                Next::More { missing: state.sweep.join(sharing.tasks(subscribers.len())) }
            } else {
                if part == Part::Task {
                    state.sweep.leave();
                }
                Next::Over { traced: !state.traced.is_empty() }
            }
        };
        // After the lock is released: a subscriber has a lock of its own.
        let mut wakers =
            calls.into_iter().filter_map(|(subscriber, slot)| subscriber.tell_readable(home, slot));
        // A fault in one session must not leave all others untold: nobody else would go on with this sweep, nor begin another.
        while catch_unwind(AssertUnwindSafe(|| wakers.by_ref().for_each(Waker::wake))).is_err() {
            tracing::error!(channel = %self.name(), "telling a subscriber that there is something new led to a panic");
        }
        next
    }
}
