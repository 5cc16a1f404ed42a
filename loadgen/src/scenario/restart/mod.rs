//! Restarts the server while messages are published, and counts which clients resume, and which messages they
//! receive.
//!
//! [`operator`] restarts the server; [`subscriber`] runs a subscriber, [`publisher`] a publisher; both
//! reconnect with [`reconnecting`].

mod operator;
mod publisher;
mod reconnecting;
mod subscriber;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, sleep_until};

use self::operator::ServerOperator;
use self::publisher::RestartPublisher;
use self::reconnecting::{Returns, ReturnsOutcome};
use super::channel::{ConnectionsOutcome, PublishRound, Schedule, SubscriberGroup, SubscribersOutcome};
use super::{Figures, Scenario, ScenarioOutcome, ScenarioRun, Setup};
use crate::args;
use crate::client::ClientFailure;
use crate::progress::Bar;
use crate::record::{Counter, Latency, Recorder};
use crate::result::{Distribution, Group, seconds};

/// Time from the last subscription to the first message.
const LEAD: Duration = Duration::from_millis(100);
/// How often to check whether the run is over.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// How long to keep reading after everything has arrived: duplicates arrive late.
const SETTLE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Restart {
    options: args::RestartOptions,
    subscribers: SubscriberGroup,
    returns: Returns,
    /// Number of publishes that were repeated, because the server did not accept them or its reply was lost.
    repeated: Counter,
    /// Time from when a message was due until the server confirmed it.
    publish: Latency,
    /// Number of publishers that have published everything, or cannot continue.
    finished: Counter,
    /// Time from SIGTERM until the process exits, or until the restart command has finished.
    ended: Cell<Option<Duration>>,
    is_over: Cell<bool>,
}

/// A channel, its subscribers, and the messages published to it.
#[derive(Debug)]
struct RestartChannel {
    name: String,
    subscribers: SubscriberGroup,
    round: Rc<PublishRound>,
}

impl Scenario for Restart {
    fn record(&self, recorder: &Recorder) {
        self.subscribers.register(recorder);
        self.returns.register(recorder);
        recorder.counter("repeated", &self.repeated);
        recorder.latency("publish", &self.publish);
    }

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> ScenarioRun {
        Box::pin(async move {
            match ServerOperator::open(&self.options, &setup).await {
                Ok(operator) => self.publish_over_restart(operator, setup).await,
                Err(why) => {
                    setup.refuse_if(Some(why));
                    std::future::pending().await
                }
            }
        })
    }

    fn figures(&self) -> Figures {
        Figures::of_phases(["subscribe", "publish", "restart"])
    }

    fn connected(&self) -> u64 {
        self.subscribers.connected.get()
    }

    fn bars(&self, setup: &Setup) -> Vec<Bar> {
        let mut bars = self.subscribers.bars(setup);
        bars.push(Bar { label: "back", done: self.returns.back(), of: self.returns.lost() });
        bars
    }

    fn outcome(&self, setup: &Setup) -> ScenarioOutcome {
        ScenarioOutcome::Single(Group::of(&RestartOutcome {
            subscribers: self.subscribers.outcome(setup),
            ended_seconds: self.ended.get().map(seconds),
            returns: self.returns.outcome(),
            repeated: self.repeated.get(),
            publish_ms: self.publish.since_due(),
            publish_from_start_ms: self.publish.since_start(),
            connections: self.subscribers.connections(),
        }))
    }
}

#[derive(Serialize)]
struct RestartOutcome {
    #[serde(flatten)]
    subscribers: SubscribersOutcome,
    ended_seconds: Option<f64>,
    #[serde(flatten)]
    returns: ReturnsOutcome,
    repeated: u64,
    publish_ms: Distribution,
    publish_from_start_ms: Distribution,
    #[serde(flatten)]
    connections: ConnectionsOutcome,
}

impl Restart {
    pub(crate) fn new(options: args::RestartOptions) -> Self {
        Self {
            subscribers: SubscriberGroup::new(options.channel_load.clone()),
            options,
            returns: Returns::default(),
            repeated: Counter::default(),
            publish: Latency::default(),
            finished: Counter::default(),
            ended: Cell::new(None),
            is_over: Cell::new(false),
        }
    }

    async fn publish_over_restart(self: Rc<Self>, mut operator: ServerOperator, setup: Rc<Setup>) {
        let all = Rc::<PublishRound>::default();
        let channels = self.channels(&all);
        let mut tasks = JoinSet::new();
        self.subscribers
            .connect_all(&setup, &all, |opened| {
                let channel = channels[opened.index as usize % channels.len()].clone();
                tasks.spawn_local(self.clone().run_subscriber(setup.clone(), channel, opened));
            })
            .await;
        self.subscribers.begin(channels.iter().map(|channel| channel.round.clone()).collect());
        let publishers = self.open_publishers(&setup).await;
        if self.subscribers.subscribed.get() == 0 || publishers.is_empty() {
            return;
        }
        setup.recorder.phase("publish");
        let start = Instant::now() + LEAD;
        let last_due = self.plan(&channels, start);
        for (index, publisher) in publishers.into_iter().enumerate() {
            let own_channels = channels.iter().skip(index).step_by(self.options.publishers as usize);
            let own_channels = own_channels.cloned().collect();
            tasks.spawn_local(self.clone().publish(setup.clone(), publisher, own_channels));
        }
        tokio::select! {
            () = self.wait_for_end(&channels, last_due) => {}
            () = self.restart(&mut operator, &setup, start + self.options.restart_after) => {
                self.wait_for_end(&channels, last_due).await;
            }
        }
        // Stop the clients first, so that they do not reconnect when the server exits.
        drop(tasks);
        operator.end().await;
    }

    fn channels(&self, all: &PublishRound) -> Vec<Rc<RestartChannel>> {
        let channel = |index| {
            let name = self.options.channel(index);
            let subscribers = self.subscribers.in_another_channel(name.clone());
            Rc::new(RestartChannel { name, subscribers, round: Rc::new(all.in_another_channel()) })
        };
        (0..self.options.channels).map(channel).collect()
    }

    async fn open_publishers(&self, setup: &Rc<Setup>) -> Vec<RestartPublisher> {
        let mut publishers = Vec::new();
        for _ in 0..self.options.publishers {
            match RestartPublisher::open(&self.options.channel_load, setup).await {
                Ok(publisher) => publishers.push(publisher),
                Err(failure) => setup.failures.record(&failure),
            }
        }
        publishers
    }

    /// Distributes the messages over the channels in turn, the same number to each. Returns the time at which
    /// the last message is due.
    fn plan(&self, channels: &[Rc<RestartChannel>], start: Instant) -> Instant {
        let args::ChannelLoad { messages, publish_rate, size, .. } = self.options.channel_load;
        let count = self.options.channels;
        let each = messages.div_ceil(count);
        let apart = Duration::from_secs_f64(1.0 / publish_rate);
        for (channel, index) in channels.iter().zip(0..) {
            let rate = publish_rate / f64::from(count);
            channel.round.plan(Schedule::new(start + apart * index, each, rate, size as usize));
        }
        start + apart * (each * count - 1)
    }

    async fn restart(&self, operator: &mut ServerOperator, setup: &Setup, at: Instant) {
        sleep_until(at).await;
        setup.recorder.brief_phase("restart");
        self.returns.note_restart();
        let begun = Instant::now();
        let restarted = operator.restart(|| self.ended.set(Some(begun.elapsed()))).await;
        if let Err(why) = restarted {
            setup.failures.record(&ClientFailure::Restart(why));
        }
        self.is_over.set(true);
    }

    /// Returns when all clients have reconnected and received everything, or when nothing has happened for
    /// the grace period.
    async fn wait_for_end(&self, channels: &[Rc<RestartChannel>], last_due: Instant) {
        let clients = self.subscribers.subscribed.get() + self.publisher_sessions();
        let mut look = interval(CHECK_INTERVAL);
        let (mut progress, mut since) = (0, Instant::now());
        loop {
            let now = look.tick().await;
            let so_far = self.subscribers.progress() + self.returns.back() + self.finished.get();
            if so_far != progress {
                (progress, since) = (so_far, now);
            }
            let is_published = self.finished.get() >= u64::from(self.options.publishers);
            let is_back = self.is_over.get() && self.returns.back() >= clients;
            if is_published && is_back && channels.iter().all(|channel| channel.round.is_complete()) {
                return sleep(SETTLE).await;
            }
            if now >= since.max(last_due) + self.options.channel_load.grace {
                return;
            }
        }
    }

    /// Returns the number of publishers that have a session.
    fn publisher_sessions(&self) -> u64 {
        match self.options.channel_load.publisher {
            args::PublishBy::Ws => self.options.publishers.into(),
            args::PublishBy::Admin => 0,
        }
    }
}
