//! Publishes to a channel that all connections subscribe to, and counts deliveries. If requested, disconnects
//! all subscribers while messages are published.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use encke_client::ClientConnection;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::channel::{ChannelPublisher, PublishRound, Schedule, Subscriber, SubscriberGroup, wait_for_end};
use super::connects::Resumes;
use super::{Attempt, OpenedConnection, Setup, open};
use crate::args::FanoutOptions;
use crate::record::{Counter, Metrics};

#[derive(Debug)]
pub(crate) struct Fanout {
    cut_after: Option<Duration>,
    subscribers: SubscriberGroup,
    dropped: Counter,
    resumes: Resumes,
    not_recovered: Counter,
    /// Number of disconnected subscribers that could not reconnect.
    gone: Counter,
}

impl Fanout {
    pub(super) fn new(options: &FanoutOptions, metrics: &Metrics) -> Self {
        Self {
            cut_after: options.cut_after,
            subscribers: SubscriberGroup::new(options.channel_load.clone(), metrics),
            dropped: metrics.counter("dropped"),
            resumes: Resumes::new(metrics),
            not_recovered: metrics.counter("not_recovered"),
            gone: Counter::default(),
        }
    }

    pub(super) async fn run(self: Rc<Self>, setup: Rc<Setup>) {
        let round = Rc::<PublishRound>::default();
        let cut = watch::Sender::new(None);
        let mut subscribers = JoinSet::new();
        self.subscribers
            .connect_all(&setup, &round, |opened| {
                subscribers.spawn_local(self.clone().run_subscriber(
                    setup.clone(),
                    round.clone(),
                    opened,
                    cut.subscribe(),
                ));
            })
            .await;
        if round.subscribed.get() > 0 {
            match ChannelPublisher::open(&self.subscribers.options, &setup).await {
                Ok(publisher) => self.publish(publisher, &setup, &round, &cut).await,
                Err(failure) => setup.failures.record(&failure),
            }
        }
    }

    /// Publishes all messages. Returns when everything has arrived, or when nothing has arrived for the grace
    /// period.
    async fn publish(
        &self,
        publisher: ChannelPublisher,
        setup: &Setup,
        round: &PublishRound,
        cut: &watch::Sender<Option<Instant>>,
    ) {
        setup.enter_phase("publish");
        let schedule = round.plan(Schedule::of(&self.subscribers.options));
        self.subscribers.begin(round);
        let cut_at = self.cut_after.map(|after| schedule.start() + after);
        let cut = async {
            if let Some(at) = cut_at {
                sleep_until(at).await;
                setup.enter_phase("resume");
                cut.send_replace(Some(Instant::now()));
            }
        };
        let is_published = Cell::new(false);
        let publish = async {
            self.subscribers.publish(publisher, schedule, &setup.failures).await;
            is_published.set(true);
        };
        let last_due = cut_at.map_or(schedule.last_due(), |at| at.max(schedule.last_due()));
        let progress = || self.subscribers.progress() + self.returned();
        let is_done = || is_published.get() && round.is_complete() && self.returned() == self.dropped.get();
        let end = || wait_for_end(last_due, self.subscribers.options.grace, &progress, &is_done);
        tokio::select! {
            () = end() => {}
            ((), ()) = async { tokio::join!(publish, cut) } => end().await,
        }
        self.subscribers.end(round);
    }

    /// Returns the number of disconnected subscribers that have reconnected, or have failed to.
    fn returned(&self) -> u64 {
        self.resumes.resumed.get() + self.not_recovered.get() + self.gone.get()
    }

    async fn run_subscriber(
        self: Rc<Self>,
        setup: Rc<Setup>,
        round: Rc<PublishRound>,
        opened: OpenedConnection,
        mut cut: watch::Receiver<Option<Instant>>,
    ) {
        let OpenedConnection { mut connection, greeting, .. } = opened;
        if !self.subscribers.join(&setup, &round, &mut connection).await {
            return;
        }
        let mut subscriber = Subscriber::new(greeting.ticket);
        // `changed` cannot fail: the sender lives as long as the scenario.
        tokio::select! {
            biased;
            _ = cut.changed() => drop(connection),
            _ = self.subscribers.listen(&round, &mut connection, &mut subscriber) => {
                return self.subscribers.answering.unexpected_closes.increment();
            }
        }
        self.dropped.increment();
        let cut_at = cut.borrow().unwrap_or_else(Instant::now);
        // Boxed, so that reconnecting does not enlarge every subscriber's task for the whole run.
        match Box::pin(self.resume_or_subscribe(&mut subscriber, cut_at, &setup)).await {
            Some(mut connection) => {
                self.subscribers.listen(&round, &mut connection, &mut subscriber).await;
                self.subscribers.answering.unexpected_closes.increment();
            }
            None => self.gone.increment(),
        }
    }

    /// Resumes the session, or subscribes in the new session if the old one was not recovered.
    async fn resume_or_subscribe(
        &self,
        subscriber: &mut Subscriber,
        cut_at: Instant,
        setup: &Rc<Setup>,
    ) -> Option<ClientConnection> {
        let attempt = Attempt { index: 0, due: cut_at, resume: Some(subscriber.ticket.clone()) };
        let opened = open(setup.clone(), attempt).await;
        let opened = opened.map_err(|failure| setup.failures.record(&failure)).ok()?;
        let is_recovered = self.resumes.record(&opened, cut_at, &setup.failures);
        let connection = self.subscribers.rejoin(subscriber, opened, setup).await?;
        if !is_recovered {
            self.not_recovered.increment();
        }
        Some(connection)
    }
}
