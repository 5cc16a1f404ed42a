//! Moves sessions between servers that share them, and checks which messages each session receives.
//!
//! [`session`] has the state of a session and checks what it receives, with a [`ledger`] for each subscription.
//! [`moving`] connects sessions to the servers in turn, and [`publisher`] runs a publisher.

mod channel;
mod fault_log;
mod ledger;
mod moving;
mod publisher;
mod session;
mod tally;

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use encke_client::{ClientConnection, ClientFailure};
use rand::RngExt;
use rand_distr::{Distribution, Exp};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use self::channel::NodesChannel;
use self::fault_log::FaultLog;
use self::moving::{MoveCause, Moves, NodeRing};
use self::publisher::{NodePublisher, Publishes};
use self::session::{NodeSession, NodeSubscription, Verdicts};
use self::tally::NodesTally;
use super::channel::{LEAD, Schedule, wait_for_end};
use super::connects::Connects;
use super::{Attempt, ConnectSchedule, OpenedConnection, Setup, open};
use crate::args::NodesOptions;
use crate::record::{Counter, Metrics};

/// One in so many sessions subscribes to two channels.
const SESSIONS_PER_SECOND_CHANNEL: u32 = 4;
/// Delay before a failed subscription is requested again.
const SUBSCRIBE_DELAY: Duration = Duration::from_millis(100);
/// How often to check whether all sessions have subscribed.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Time that is added to the time without data that the server announces.
const SILENCE_SLACK: Duration = Duration::from_secs(1);
/// Time after which nothing more happens to a session of its own accord.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

#[derive(Debug)]
pub(crate) struct Nodes {
    options: NodesOptions,
    connects: Connects,
    /// Number of subscriptions that all sessions together request.
    subscriptions: Counter,
    subscribed: Counter,
    moves: Moves,
    publishes: Publishes,
    tally: Rc<NodesTally>,
    /// Number of sessions whose subscriptions have been answered, or that could not be opened.
    settled: Counter,
    sessions: RefCell<Vec<Rc<RefCell<NodeSession>>>>,
    /// When sessions begin and stop to move on purpose.
    hops: Cell<Option<(Instant, Instant)>>,
}

/// State that all sessions of a run share.
#[derive(Debug)]
struct NodesRun {
    ring: NodeRing,
    channels: Vec<Rc<NodesChannel>>,
    verdicts: Verdicts,
}

impl Nodes {
    pub(super) fn new(options: NodesOptions, metrics: &Metrics) -> Self {
        Self {
            options,
            connects: Connects::new(metrics),
            subscriptions: metrics.counter("subscriptions"),
            subscribed: metrics.counter("subscribed"),
            publishes: Publishes::new(metrics),
            tally: Rc::new(NodesTally::new(metrics)),
            moves: Moves::new(metrics),
            settled: Counter::default(),
            sessions: RefCell::default(),
            hops: Cell::default(),
        }
    }

    pub(super) async fn run(self: Rc<Self>, setup: Rc<Setup>) {
        let run = match self.prepare(&setup).await {
            Ok(run) => Rc::new(run),
            Err(why) => {
                setup.refuse(why);
                return std::future::pending().await;
            }
        };
        setup.enter_phase("subscribe");
        let mut tasks = JoinSet::new();
        for attempt in ConnectSchedule::from_now(&setup.load).attempts(&setup.load) {
            tasks.spawn_local(self.clone().run_session(run.clone(), attempt));
        }
        while self.settled.get() < u64::from(setup.load.connections) {
            sleep(CHECK_INTERVAL).await;
        }
        let publishers = self.open_publishers(&run, &setup).await;
        if self.subscribed.get() == 0 || publishers.is_empty() {
            return;
        }
        setup.enter_phase("publish");
        let start = Instant::now() + LEAD;
        let last_due = self.plan(&run.channels, start);
        let count = publishers.len();
        for (index, publisher) in publishers.into_iter().enumerate() {
            let channels = run.channels.iter().skip(index).step_by(count).cloned().collect();
            tasks.spawn_local(self.clone().publish(run.clone(), publisher, channels));
        }
        self.hops.set(Some((start, last_due)));
        let is_done = || {
            self.publishes.finished.get() >= count as u64
                && self.tally.received.get() >= self.tally.expected.get()
        };
        let progress = || self.tally.received.get() + self.publishes.published.get();
        wait_for_end(last_due, self.options.grace, progress, is_done).await;
        drop(tasks);
        self.judge(&run);
    }

    async fn prepare(&self, setup: &Setup) -> Result<NodesRun, String> {
        let log = FaultLog::create(self.options.fault_log.as_deref())?;
        let channel = |index| Rc::new(NodesChannel::new(self.options.channel(index)));
        Ok(NodesRun {
            ring: NodeRing::open(&self.options, setup).await?,
            channels: (0..self.options.channels).map(channel).collect(),
            verdicts: Verdicts { tally: self.tally.clone(), log },
        })
    }

    async fn open_publishers(&self, run: &NodesRun, setup: &Setup) -> Vec<NodePublisher> {
        let mut publishers = Vec::new();
        for index in 0..self.options.publishers() {
            match NodePublisher::open(&run.ring, index).await {
                Ok(publisher) => publishers.push(publisher),
                Err(failure) => setup.failures.record(&failure),
            }
        }
        publishers
    }

    /// Distributes the messages over the channels in turn. Returns the time at which the last message is due.
    fn plan(&self, channels: &[Rc<NodesChannel>], start: Instant) -> Instant {
        let (messages, count) = (self.options.messages(), self.options.channels);
        let apart = Duration::from_secs_f64(1.0 / self.options.publish_rate);
        let rate = self.options.publish_rate / f64::from(count);
        for (channel, index) in channels.iter().zip(0..) {
            let size = self.options.size as usize;
            channel.plan(Schedule::new(start + apart * index, messages, rate, size));
        }
        start + apart * (messages * count - 1)
    }

    /// Opens and subscribes a session, and keeps it connected to one of the nodes until the task is dropped.
    async fn run_session(self: Rc<Self>, run: Rc<NodesRun>, attempt: Attempt) {
        let (index, node) = (attempt.index, run.ring.first(attempt.index));
        sleep_until(attempt.due).await;
        let setup = run.ring.setup(node);
        let opened = match open(setup.clone(), attempt).await {
            Ok(opened) => opened,
            Err(failure) => {
                self.settled.increment();
                return setup.failures.record(&failure);
            }
        };
        self.connects.record(&opened);
        let OpenedConnection { mut connection, greeting, .. } = opened;
        let read_timeout = self.read_timeout(greeting.ping_interval + greeting.pong_timeout);
        let reports_positions = greeting.asks_for_positions;
        let session = NodeSession::new(greeting.ticket, node, self.subscriptions_of(index, &run));
        let session = NodeSession { reports_positions, ..session };
        self.subscriptions.add(session.subscriptions.len() as u64);
        let session = Rc::new(RefCell::new(session));
        self.sessions.borrow_mut().push(session.clone());
        let mut is_settled = false;
        let mut hop_at = self.next_hop();
        loop {
            let cause = match self.subscribe(&session, &run, &mut connection).await {
                Some(cause) => cause,
                None => {
                    if !is_settled {
                        is_settled = true;
                        self.count_subscriptions(&session.borrow());
                    }
                    self.listen(&session, &run, &mut connection, hop_at, read_timeout).await
                }
            };
            if matches!(cause, MoveCause::Hop) {
                hop_at = self.next_hop();
            }
            let reconnecting = self.moves.reconnect(&run.ring, &session, cause, connection, &run.verdicts);
            // Boxed, so that reconnecting does not enlarge every session's task for the whole run.
            connection = Box::pin(reconnecting).await;
        }
    }

    fn subscriptions_of(&self, index: u32, run: &NodesRun) -> Vec<NodeSubscription> {
        let channels = run.channels.len();
        let first = index as usize % channels;
        // Not the next channel, so that sessions with two channels differ in their second channel.
        let second = (first + 1 + index as usize / channels) % channels;
        let has_second = index.is_multiple_of(SESSIONS_PER_SECOND_CHANNEL) && second != first;
        let indices = [Some(first), has_second.then_some(second)];
        indices.into_iter().flatten().map(|it| NodeSubscription::new(run.channels[it].clone(), it)).collect()
    }

    fn count_subscriptions(&self, session: &NodeSession) {
        for subscription in &session.subscriptions {
            let channel = &subscription.channel;
            channel.subscriptions.set(channel.subscriptions.get() + 1);
            self.subscribed.increment();
        }
        self.settled.increment();
    }

    /// Subscribes to the channels to which the session is not subscribed, until all commands have succeeded.
    /// Returns how the connection ended, if it did.
    async fn subscribe(
        &self,
        session: &RefCell<NodeSession>,
        run: &NodesRun,
        connection: &mut ClientConnection,
    ) -> Option<MoveCause> {
        loop {
            let commands = session.borrow_mut().subscribe_commands();
            if commands.is_empty() {
                return None;
            }
            for command in commands {
                connection.send(&command).await;
            }
            let deadline = Instant::now() + self.options.server.connect_timeout;
            while !session.borrow().is_settled() {
                let event = connection.each(|event| session.borrow_mut().receive(event, &run.verdicts));
                tokio::select! {
                    read = event => if let Err(end) = read { return Some(MoveCause::Ended(end)) },
                    () = sleep_until(deadline) => return Some(MoveCause::Silence),
                }
            }
            if session.borrow().is_subscribed() {
                return None;
            }
            for code in session.borrow().subscribe_errors() {
                let failures = &run.ring.setup(session.borrow().node).failures;
                failures.record(&ClientFailure::Subscribe(code.to_owned()));
            }
            sleep(SUBSCRIBE_DELAY).await;
        }
    }

    /// Receives messages until the connection ends, or until the session is to move.
    async fn listen(
        &self,
        session: &RefCell<NodeSession>,
        run: &NodesRun,
        connection: &mut ClientConnection,
        mut hop_at: Instant,
        read_timeout: Duration,
    ) -> MoveCause {
        loop {
            let silent_at = session.borrow().last_data + read_timeout;
            let listened = connection.each(|event| {
                let mut session = session.borrow_mut();
                let _ = session.receive(event, &run.verdicts);
                let is_ack_due = self.options.ack_every > 0 && session.unacked >= self.options.ack_every;
                if is_ack_due { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            tokio::select! {
                biased;
                listened = listened => match listened {
                    Ok(()) => {
                        let command = session.borrow_mut().ack();
                        connection.send(&command).await;
                    }
                    Err(end) => return MoveCause::Ended(end),
                },
                () = sleep_until(hop_at.min(silent_at)) => {
                    let now = Instant::now();
                    if session.borrow().last_data + read_timeout <= now {
                        return MoveCause::Silence;
                    }
                    if hop_at <= now {
                        if self.hops.get().is_some_and(|(first, last)| (first..last).contains(&now)) {
                            return MoveCause::Hop;
                        }
                        hop_at = self.next_hop();
                    }
                }
            }
        }
    }

    /// Returns when a session moves to another node on purpose.
    fn next_hop(&self) -> Instant {
        let Some(mean) = self.options.hop else { return Instant::now() + FOREVER };
        let mut rng = rand::rng();
        let seconds = Exp::new(1.0 / mean.as_secs_f64()).map_or(f64::MAX, |exp| exp.sample(&mut rng));
        Instant::now() + Duration::try_from_secs_f64(seconds).unwrap_or(FOREVER).min(FOREVER)
    }

    /// Returns the read timeout of a session, given the time that the server announces; zero if it announces none.
    fn read_timeout(&self, announced: Duration) -> Duration {
        match self.options.read_timeout {
            Some(mean) => mean.mul_f64(rand::rng().random_range(0.5..1.5)),
            None if announced.is_zero() => FOREVER,
            None => announced + SILENCE_SLACK,
        }
    }

    /// Counts the messages that a gap covers, and reports those that have not arrived.
    fn judge(&self, run: &NodesRun) {
        // Messages whose publisher received no reply, although they were delivered.
        let unconfirmed = |channel: &Rc<NodesChannel>| channel.unconfirmed() * channel.subscriptions.get();
        self.tally.expected.add(run.channels.iter().map(unconfirmed).sum());
        for session in self.sessions.borrow().iter() {
            let session = session.borrow();
            for subscription in &session.subscriptions {
                let NodeSubscription { channel, ledger, .. } = subscription;
                self.tally.covered.add(ledger.covered(channel));
                let lost: Vec<_> = ledger.lost(channel.numbers(), channel).collect();
                if let (Some(first), Some(last)) = (lost.first(), lost.last()) {
                    let [from, to] = [first, last].map(|number| channel.offset(*number));
                    let details = json!({
                        "messages": lost.len(), "first": first, "last": last, "from": from, "to": to,
                        "state": format!("{:?}", subscription.state), "node": session.node,
                    });
                    let log = &run.verdicts.log;
                    log.write("lost", &session.ticket.token, &channel.name, &details, &session.trail);
                }
            }
        }
    }
}
