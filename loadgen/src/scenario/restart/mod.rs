//! Restarts the server while messages are published, and counts which clients resume, and which messages they
//! receive.
//!
//! [`operator`] restarts the server, and [`publisher`] runs a publisher. Publishers and subscribers reconnect with
//! [`reconnecting`].

mod operator;
mod publisher;
mod reconnecting;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use encke_client::ClientFailure;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use self::operator::ServerOperator;
use self::publisher::RestartPublisher;
use self::reconnecting::Returns;
use super::channel::{LEAD, PublishRound, Schedule, Subscriber, SubscriberGroup, wait_for_end};
use super::{OpenedConnection, Setup};
use crate::args;
use crate::record::{Counter, Highest, Latency, Metrics};

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
    ended_seconds: Highest,
    is_over: Cell<bool>,
}

/// A channel, its subscribers, and the messages published to it.
#[derive(Debug)]
struct RestartChannel {
    name: String,
    subscribers: SubscriberGroup,
    round: Rc<PublishRound>,
}

impl Restart {
    pub(super) fn new(options: args::RestartOptions, metrics: &Metrics) -> Self {
        Self {
            subscribers: SubscriberGroup::new(options.channel_load.clone(), metrics),
            options,
            ended_seconds: metrics.highest("ended_seconds"),
            returns: Returns::new(metrics),
            repeated: metrics.counter("repeated"),
            publish: metrics.latency("publish"),
            finished: Counter::default(),
            is_over: Cell::new(false),
        }
    }

    pub(super) async fn run(self: Rc<Self>, setup: Rc<Setup>) {
        let mut operator = match ServerOperator::open(&self.options, &setup).await {
            Ok(operator) => operator,
            Err(why) => {
                setup.refuse(why);
                return std::future::pending().await;
            }
        };
        let all = Rc::<PublishRound>::default();
        let channels = self.channels(&all);
        let mut tasks = JoinSet::new();
        self.subscribers
            .connect_all(&setup, &all, |opened| {
                let channel = channels[opened.index as usize % channels.len()].clone();
                tasks.spawn_local(self.clone().run_subscriber(setup.clone(), channel, opened));
            })
            .await;
        let publishers = self.open_publishers(&setup).await;
        if self.subscribers.subscribed.get() == 0 || publishers.is_empty() {
            return;
        }
        setup.enter_phase("publish");
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
        channels.iter().for_each(|channel| self.subscribers.end(&channel.round));
        operator.end().await;
    }

    /// Subscribes to the channel, and reconnects whenever the connection ends, until the task is dropped.
    async fn run_subscriber(
        self: Rc<Self>,
        setup: Rc<Setup>,
        channel: Rc<RestartChannel>,
        opened: OpenedConnection,
    ) {
        let RestartChannel { subscribers, round, .. } = &*channel;
        let OpenedConnection { mut connection, greeting, .. } = opened;
        if !subscribers.join(&setup, round, &mut connection).await {
            return;
        }
        let mut subscriber = Subscriber::new(greeting.ticket);
        loop {
            let end = subscribers.listen(round, &mut connection, &mut subscriber).await;
            drop(connection);
            // Boxed, so that reconnecting does not enlarge every subscriber's task for the whole run.
            let back = Box::pin(async {
                let retry = subscriber.retry.take();
                let opened = self.reconnect(&setup, end, &subscriber.ticket, retry).await;
                subscribers.rejoin(&mut subscriber, opened, &setup).await
            });
            let Some(back) = back.await else { return };
            connection = back;
        }
    }

    fn channels(&self, all: &PublishRound) -> Vec<Rc<RestartChannel>> {
        let channel = |index| {
            let name = self.options.channel(index);
            let subscribers = self.subscribers.in_another_channel(name.clone());
            Rc::new(RestartChannel { name, subscribers, round: Rc::new(all.in_another_channel()) })
        };
        (0..self.options.channels()).map(channel).collect()
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

    /// Distributes the messages over the channels in turn. Returns the time at which the last message is due.
    fn plan(&self, channels: &[Rc<RestartChannel>], start: Instant) -> Instant {
        let args::ChannelLoad { messages, publish_rate, size, .. } = self.options.channel_load;
        let count = self.options.channels();
        let apart = Duration::from_secs_f64(1.0 / publish_rate);
        for (channel, index) in channels.iter().zip(0..) {
            let (of_channel, rate) = ((messages - index).div_ceil(count), publish_rate / f64::from(count));
            channel.round.plan(Schedule::new(start + apart * index, of_channel, rate, size as usize));
            self.subscribers.begin(&channel.round);
        }
        start + apart * (messages - 1)
    }

    async fn restart(&self, operator: &mut ServerOperator, setup: &Setup, at: Instant) {
        sleep_until(at).await;
        setup.enter_phase("restart");
        self.returns.note_restart();
        let begun = Instant::now();
        let restarted = operator.restart(|| self.ended_seconds.record(begun.elapsed().as_secs_f64())).await;
        if let Err(why) = restarted {
            setup.failures.record(&ClientFailure::Restart(why));
        }
        self.is_over.set(true);
    }

    /// Returns when all clients have reconnected and received everything, or when nothing has happened for
    /// the grace period.
    async fn wait_for_end(&self, channels: &[Rc<RestartChannel>], last_due: Instant) {
        let sessions = match self.options.channel_load.publisher {
            args::PublishBy::Ws => self.options.publishers.into(),
            args::PublishBy::Admin => 0,
        };
        let clients = self.subscribers.subscribed.get() + sessions;
        let progress = || self.subscribers.progress() + self.returns.back() + self.finished.get();
        let is_done = || {
            let is_published = self.finished.get() >= u64::from(self.options.publishers);
            let is_back = self.is_over.get() && self.returns.back() >= clients;
            is_published && is_back && channels.iter().all(|channel| channel.round.is_complete())
        };
        wait_for_end(last_due, self.options.channel_load.grace, progress, is_done).await;
    }
}
