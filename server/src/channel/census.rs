//! Finds the subscribers without a connection when a traced message is published: the trace does not wait for
//! them.

use std::sync::{Arc, Weak};

use super::fan_out::FanOut;
use super::presence::MemberPhase;
use super::publish::LockedLog;
use super::state::Channel;
use super::subscribers::Subscriber;
use crate::executor::yield_now;
use crate::trace::{Delivery, PublishTrace, TracedLog};

/// Number of subscribers to examine before yielding.
const BATCH_SIZE: usize = 128;

impl<S: Subscriber> TracedLog for Channel<S> {
    fn forget(&self, delivery: &Arc<Delivery>) {
        self.state.lock().traced.forget(delivery);
    }
}

impl<S: Subscriber> LockedLog<'_, S> {
    /// Records that the newest message of this log was published by `publish`.
    pub(super) fn record_trace(&mut self, publish: &PublishTrace) {
        let Self { channel, state } = self;
        let state = &mut **state;
        let at = (channel.number(), state.log.bounds().last);
        let log = || {
            let log: Weak<Channel<S>> = Arc::downgrade(channel);
            log as Weak<dyn TracedLog>
        };
        state.traced.appended(publish, at, log, state.subscribers.indices());
    }
}

impl<S: Subscriber> FanOut<S> {
    /// At the end of a sweep, starts the search for subscribers without a connection: subscribers that have
    /// not received the message by now may not be connected.
    pub(super) fn start_census(self: &Arc<Self>, channel: &Arc<Channel<S>>) {
        let traced = channel.state.lock().traced.end_sweep();
        for (log_index, delivery) in
            traced.into_iter().filter(|(log_index, delivery)| delivery.fanned_out(*log_index))
        {
            let (registry, channel) = (Arc::clone(&self.registry), Arc::clone(channel));
            self.executor.spawn(Box::pin(async move {
                find_unconnected::<S>(&registry, &channel, log_index, &delivery).await
            }));
        }
    }
}

async fn find_unconnected<S: Subscriber>(
    registry: &S::Registry,
    channel: &Channel<S>,
    log_index: usize,
    delivery: &Arc<Delivery>,
) {
    let mut from = 0;
    loop {
        let awaited = delivery.awaited_from(log_index, from, BATCH_SIZE);
        let Some(last) = awaited.last() else { break };
        from = last + 1;
        for index in awaited {
            let subscriber = channel.state.lock().subscribers.at(index);
            let member = subscriber.and_then(|subscriber| subscriber.member(registry, channel));
            if member.is_none_or(|member| member.phase != MemberPhase::Attached) {
                delivery.exclude(log_index, index);
            }
        }
        yield_now().await;
    }
    delivery.absent_excluded();
}
