//! Delivery times, in simulated time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use encke_base::metrics::Readings;
use encke_base::quota::QuotaOwner;
use encke_broker::channel::{ChannelName, LogMessage};
use encke_core::Timestamp;
use encke_core::dialect::{ServerEvent, StartPosition};
use encke_core::message::CompactJson;
use encke_timeouts::clock::{Clock, SimulatedTime, UnixTime};
use futures_util::FutureExt;

use super::test_services::{attach, attach_after, on_slow_engine_with};
use super::{Attachment, Services};
use crate::session::{Attached, Channel, CommandSource, DeliveryWriter, take_batch};

/// Discards what is sent.
struct Discard;

impl DeliveryWriter for Discard {
    fn len(&self) -> usize {
        0
    }

    fn message(&mut self, _: u64, _: &Channel, _: u64, _: &LogMessage) {}

    fn gap(&mut self, _: u64, _: &Channel, _: &ServerEvent<'_>, _: Option<u64>) {}

    fn notice(&mut self, _: u64, _: &ServerEvent<'_>) {}
}

struct World {
    time: Arc<SimulatedTime>,
    services: Arc<Services>,
    news: ChannelName,
}

impl World {
    fn new() -> Self {
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(1_000)));
        let (services, engine) =
            on_slow_engine_with(|threshold| Clock::simulated(Arc::clone(&time), threshold));
        engine.is_open.store(true, Ordering::Relaxed);
        let news = ChannelName::new("news", 255).expect("a name");
        Self { time, services: Arc::new(services), news }
    }

    fn attachment(&self, attached: Attached) -> Attachment {
        Attachment::new(attached, Arc::clone(&self.services))
    }

    /// Connects a client that is subscribed to `news`.
    fn subscriber(&self) -> Attachment {
        let attachment = self.attachment(attach(&self.services, None));
        let source = CommandSource::connection(&attachment.mailbox);
        let sessions = &self.services.sessions;
        let subscribed =
            sessions.subscriptions.subscribe(&attachment.session, source, &self.news, &StartPosition::Now);
        subscribed.into_future().now_or_never().expect("the engine answers").expect("it subscribes");
        assert_eq!(take(&attachment), []);
        attachment
    }

    fn publish(&self, count: usize) {
        for _ in 0..count {
            let data = CompactJson::parse("1").expect("JSON").into();
            let published = self.services.logs.engine.append(&self.news, &QuotaOwner::Operator, &data, None);
            published.into_future().now_or_never().expect("the engine answers").expect("it is published");
        }
    }

    fn advance(&self, millis: u64) {
        self.time.advance(Duration::from_millis(millis));
    }

    /// Returns the number and the sum of the measured times of WebSockets.
    fn measured(&self) -> [String; 2] {
        let text = self.services.metrics.encode(&Readings::default(), &[]);
        ["count", "sum"].map(|what| {
            let series = format!("encke_delivery_seconds_{what}{{transport=\"websocket\"}} ");
            let value = text.lines().find_map(|line| line.strip_prefix(&series));
            value.expect("present from the start").to_owned()
        })
    }
}

/// Takes everything that can be sent. Returns the samples.
fn take(attachment: &Attachment) -> Vec<Timestamp> {
    let mut samples = Vec::new();
    loop {
        let sessions = &attachment.services.sessions;
        let batch =
            sessions.lifecycle.take_outgoing(&attachment.session, &attachment.mailbox, |outbox: &mut _| {
                take_batch(&sessions.subscriptions, outbox, &mut Discard)
            });
        let batch = batch.expect("the session is attached");
        samples.extend(batch.published_at);
        if !batch.backlog.has_more {
            return samples;
        }
    }
}

#[test]
fn time_runs_from_the_publish_to_the_last_byte() {
    let world = World::new();
    let subscriber = world.subscriber();
    world.publish(127);
    assert_eq!(take(&subscriber), []);
    world.advance(1_000);
    world.publish(1);
    world.advance(200);
    world.publish(2);
    let samples = take(&subscriber);
    assert_eq!(samples.len(), 1, "one of 128 deliveries is measured");
    assert_eq!(world.measured(), ["0", "0.0"], "nothing is written yet");
    world.advance(50);
    subscriber.delivered(samples.first().copied());
    subscriber.delivered(None);
    assert_eq!(world.measured(), ["1", "0.25"]);
}

#[test]
fn messages_that_waited_for_their_client_are_not_measured() {
    let world = World::new();
    let subscriber = world.subscriber();
    let token = subscriber.session.resume_token().expose().to_string();
    drop(subscriber);
    world.publish(127);
    world.advance(60_000);
    let resumed = world.attachment(attach_after(&world.services, Some(token), Some(0)));
    world.publish(1);
    assert_eq!(take(&resumed), [], "the 128th delivery belongs to the backlog");
    world.publish(128);
    assert_eq!(take(&resumed).len(), 1, "the client has caught up");
}

#[test]
fn slow_clients_are_measured() {
    let world = World::new();
    let subscriber = world.subscriber();
    let published_at = world.services.timeouts.clock().now();
    world.publish(300);
    world.advance(10_000);
    assert_eq!(take(&subscriber), [published_at], "the batch has two samples, of which one is used");
}
