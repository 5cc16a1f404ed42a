//! Who is absent when a traced message is published: whoever follows the channel and has no connection is not awaited.

use std::sync::{Arc, Weak};

use super::fan_out::FanOut;
use super::presence::MemberPhase;
use super::publish::Open;
use super::state::Channel;
use super::subscribers::Subscriber;
use crate::executor::yield_now;
use crate::trace::{Delivery, Publish, TracedLog};

/// Subscribers that are looked at before others get their turn.
const LOOKED_AT_AT_ONCE: usize = 128;

impl<S: Subscriber> TracedLog for Channel<S> {
    fn forget(&self, delivery: &Arc<Delivery>) {
        self.state.lock().traced.forget(delivery);
    }
}

impl<S: Subscriber> Open<'_, S> {
    /// The newest message is that of this publish.
    pub(super) fn note_traced(&mut self, publish: &Publish) {
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
    /// A sweep is over. Whoever has not got the message by now may be absent.
    pub(super) fn begin_census(self: &Arc<Self>, channel: &Arc<Channel<S>>) {
        let traced = channel.state.lock().traced.swept();
        for (part, delivery) in traced.into_iter().filter(|(part, delivery)| delivery.fanned_out(*part)) {
            let (home, channel) = (Arc::clone(&self.home), Arc::clone(channel));
            self.executor
                .spawn(Box::pin(async move { look_through::<S>(&home, &channel, part, &delivery).await }));
        }
    }
}

async fn look_through<S: Subscriber>(
    home: &S::Home,
    channel: &Channel<S>,
    part: usize,
    delivery: &Arc<Delivery>,
) {
    let mut from = 0;
    loop {
        let awaited = delivery.awaited_from(part, from, LOOKED_AT_AT_ONCE);
        let Some(last) = awaited.last() else { break };
        from = last + 1;
        for index in awaited {
            let subscriber = channel.state.lock().subscribers.at(index);
            let member = subscriber.and_then(|subscriber| subscriber.member(home, channel));
            if member.is_none_or(|member| member.phase != MemberPhase::Attached) {
                delivery.is_gone(part, index);
            }
        }
        yield_now().await;
    }
    delivery.was_looked_through();
}
