//! The session beside the attacker: publishes to a channel of its own at an even rate, and receives what it published.
//!
//! Where the server knows no channels, it pings, and the pongs are what it receives.

mod talk;

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use strum::EnumCount;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use self::talk::{Said, Talk};
use super::Totals;
use crate::client::{Connection, Dialer, Failure, Greeting, Ticket, kind_of_end};
use crate::record::{Counter, Ends, EndsOutcome, Latency};
use crate::result::Distribution;
use crate::scenario::Setup;
use crate::scenario::channel::{Arrival, Ledger};
use crate::transport::Sources;
use crate::transport::websocket::End;

/// 127.0.0.2, where the server is on loopback.
const HEALTHY: u8 = 1;
/// How long to wait in the end for what is missing.
const GRACE: Duration = Duration::from_secs(5);
/// Between attempts to come back.
const PAUSE: Duration = Duration::from_millis(100);
/// A channel's history has at least as many messages, by default.
const HISTORY: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount)]
pub(super) enum Stage {
    Before,
    Attack,
    After,
}

#[derive(Debug)]
pub(super) struct Healthy {
    channel: String,
    totals: Totals,
    sent: Counter,
    received: Counter,
    refused: Counter,
    lost: Counter,
    unconfirmed: Counter,
    doubled: Counter,
    misordered: Counter,
    gaps: Counter,
    cuts: Counter,
    not_recovered: Counter,
    ends: Ends,
    latencies: [Latency; Stage::COUNT],
    /// When each stage that has begun did so.
    stages: RefCell<Vec<Instant>>,
    /// When nothing more is sent.
    finished_at: Cell<Option<Instant>>,
    position: RefCell<Option<Position>>,
}

/// Of the last message received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) epoch: String,
    pub(super) offset: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct HealthyOutcome {
    sent: u64,
    received: u64,
    refused: u64,
    lost: u64,
    unconfirmed: u64,
    doubled: u64,
    misordered: u64,
    gaps: u64,
    cuts: u64,
    not_recovered: u64,
    before_ms: Distribution,
    before_from_start_ms: Distribution,
    attack_ms: Distribution,
    attack_from_start_ms: Distribution,
    after_ms: Distribution,
    after_from_start_ms: Distribution,
    #[serde(flatten)]
    ends: EndsOutcome,
}

/// A client at this one of loopback's addresses.
pub(super) fn dialer(setup: &Setup, address: u8) -> Dialer {
    let sources = Sources::new(setup.dialer.server(), address..address + 1);
    Dialer::new(setup.load.server.dial_options(), sources, setup.recorder.traffic())
}

/// What the session has said and heard, on all its connections.
struct Progress {
    dialer: Dialer,
    talk: Talk,
    ticket: Ticket,
    /// The number of the next message, and when the first was due.
    next: u32,
    first_due: Instant,
    waiting: Vec<Waiting>,
    arrived: Ledger,
}

/// A message that has not come back.
struct Waiting {
    number: u32,
    due: Instant,
    start: Instant,
    is_confirmed: bool,
}

/// A session that has been let in, and follows its channel.
pub(super) struct Session {
    connection: Connection,
    progress: Progress,
}

impl Healthy {
    pub(super) fn new(totals: &Totals) -> Self {
        Self {
            channel: format!("healthy-{:016x}", rand::random::<u64>()),
            totals: totals.clone(),
            sent: Counter::default(),
            received: Counter::default(),
            refused: Counter::default(),
            lost: Counter::default(),
            unconfirmed: Counter::default(),
            doubled: Counter::default(),
            misordered: Counter::default(),
            gaps: Counter::default(),
            cuts: Counter::default(),
            not_recovered: Counter::default(),
            ends: Ends::default(),
            latencies: Default::default(),
            stages: RefCell::default(),
            finished_at: Cell::new(None),
            position: RefCell::new(None),
        }
    }

    pub(super) fn channel(&self) -> &str {
        &self.channel
    }

    /// Where to begin in the channel for the last of its messages, and how many these are.
    pub(super) fn history(&self) -> Option<(Position, u64)> {
        let Position { epoch, offset: last } = self.position.borrow().clone()?;
        let expected = last.min(HISTORY);
        Some((Position { epoch, offset: last - expected }, expected))
    }

    pub(super) fn enter(&self, stage: Stage) {
        debug_assert_eq!(self.stages.borrow().len(), stage as usize, "one comes after the other");
        self.stages.borrow_mut().push(Instant::now());
    }

    /// The stage in which a message was due.
    fn latency(&self, due: Instant) -> &Latency {
        let stages = self.stages.borrow();
        let begun = stages.iter().skip(1).filter(|start| **start <= due).count();
        &self.latencies[begun]
    }

    /// From now on nothing is sent; what is missing may still come.
    pub(super) fn finish(&self) {
        self.finished_at.set(Some(Instant::now()));
    }

    /// `None`, and a failure is recorded, if it is not let in.
    pub(super) async fn open(&self, setup: &Setup) -> Option<Session> {
        let dialer = dialer(setup, HEALTHY);
        let talk = Talk::new(setup.load.server.target, &self.channel);
        let mut progress = Progress {
            dialer,
            talk,
            ticket: Ticket::default(),
            next: 0,
            first_due: Instant::now(),
            waiting: Vec::new(),
            arrived: Ledger::default(),
        };
        match self.connect(&mut progress, setup, None).await {
            Ok((connection, _)) => {
                self.totals.connected.increment();
                self.enter(Stage::Before);
                progress.first_due = Instant::now();
                Some(Session { connection, progress })
            }
            Err(failure) => {
                setup.failures.record(&failure);
                None
            }
        }
    }

    /// Opens a connection. Subscribes if the session is a new one.
    async fn connect(
        &self,
        progress: &mut Progress,
        setup: &Setup,
        resume: Option<&Ticket>,
    ) -> Result<(Connection, Greeting), Failure> {
        let (mut connection, greeting) = progress.dialer.open(resume).await?;
        progress.ticket = greeting.ticket.clone();
        if greeting.recovered {
            return Ok((connection, greeting));
        }
        let since = self.position.borrow().clone();
        let Some(subscribe) = progress.talk.subscribe(since.as_ref()) else {
            return Ok((connection, greeting));
        };
        connection.send(&subscribe).await;
        let reply = connection.each(|event| match progress.talk.hear(event) {
            Said::Subscribed(position) => ControlFlow::Break(Ok(position)),
            Said::Refused { code, .. } => ControlFlow::Break(Err(code)),
            _ => ControlFlow::Continue(()),
        });
        let reply = timeout(setup.load.server.connect_timeout, reply).await;
        let position = match reply {
            Ok(Ok(reply)) => reply.map_err(Failure::Subscribe)?,
            Ok(Err(end)) => return Err(Failure::Subscribe(kind_of_end(end))),
            Err(_) => return Err(Failure::Timeout),
        };
        self.position.borrow_mut().get_or_insert(position);
        Ok((connection, greeting))
    }

    /// Publishes and receives, and comes back whenever it is cut, until all has arrived after the end, or time is up.
    pub(super) async fn live(self: Rc<Self>, setup: &Setup, session: Session) {
        let Session { mut connection, mut progress } = session;
        while let Err(end) = self.talk(&mut connection, &mut progress, setup.load.rate).await {
            self.cuts.increment();
            self.totals.cuts.increment();
            self.ends.record(end);
            connection = match self.come_back(&mut progress, setup).await {
                Some(connection) => connection,
                None => break,
            };
        }
        for waiting in &progress.waiting {
            if waiting.is_confirmed || !progress.talk.confirms() {
                self.lost.increment();
                self.totals.lost.increment();
            } else {
                self.unconfirmed.increment();
            }
        }
    }

    /// `None`: not before time was up.
    async fn come_back(&self, progress: &mut Progress, setup: &Setup) -> Option<Connection> {
        while !self.is_time_up() {
            let ticket = Some(progress.ticket.clone()).filter(|ticket| !ticket.token.is_empty());
            match self.connect(progress, setup, ticket.as_ref()).await {
                Ok((connection, greeting)) => {
                    if progress.talk.confirms() && !greeting.recovered {
                        self.not_recovered.increment();
                    }
                    return Some(connection);
                }
                Err(failure) => setup.failures.record(&failure),
            }
            sleep(PAUSE).await;
        }
        None
    }

    fn is_time_up(&self) -> bool {
        self.finished_at.get().is_some_and(|at| at.elapsed() >= GRACE)
    }

    async fn talk(&self, connection: &mut Connection, progress: &mut Progress, rate: f64) -> Result<(), End> {
        loop {
            let due = progress.first_due + Duration::from_secs_f64(f64::from(progress.next) / rate);
            let is_finished = self.finished_at.get().is_some_and(|at| due >= at);
            if self.is_time_up() || is_finished && progress.waiting.is_empty() {
                return Ok(());
            }
            let wake = if is_finished { Instant::now() + PAUSE } else { due };
            tokio::select! {
                () = sleep_until(wake) => {}
                end = self.listen(connection, progress) => return Err(end),
            }
            if !is_finished {
                self.send(connection, progress, due);
            }
        }
    }

    /// What does not leave at once leaves while it listens.
    fn send(&self, connection: &mut Connection, progress: &mut Progress, due: Instant) {
        let number = progress.next;
        connection.queue(&progress.talk.say(number));
        progress.next += 1;
        progress.waiting.push(Waiting { number, due, start: Instant::now(), is_confirmed: false });
        self.sent.increment();
        self.totals.sent.increment();
    }

    async fn listen(&self, connection: &mut Connection, progress: &mut Progress) -> End {
        let Progress { talk, ticket, waiting, arrived, .. } = progress;
        let heard = connection.each(|event| {
            ticket.note(event);
            match talk.hear(event) {
                Said::Arrived { number, offset } => {
                    self.take(number, waiting, arrived);
                    if let Some(position) = &mut *self.position.borrow_mut() {
                        position.offset = offset;
                    }
                }
                Said::Confirmed(number) => {
                    let confirmed = waiting.iter_mut().find(|waiting| waiting.number == number);
                    confirmed.into_iter().for_each(|waiting| waiting.is_confirmed = true);
                }
                Said::Refused { number, .. } => {
                    waiting.retain(|waiting| waiting.number != number);
                    self.refused.increment();
                }
                Said::Gap => self.gaps.increment(),
                Said::Subscribed(_) | Said::Other => {}
            }
            ControlFlow::<std::convert::Infallible>::Continue(())
        });
        let Err(end) = heard.await;
        end
    }

    fn take(&self, number: u32, waiting: &mut Vec<Waiting>, arrived: &mut Ledger) {
        match arrived.take(number) {
            Arrival::Duplicated => {
                self.doubled.increment();
                return self.totals.doubled.increment();
            }
            Arrival::Misordered => self.misordered.increment(),
            Arrival::InOrder => {}
        }
        self.received.increment();
        self.totals.received.increment();
        // What nobody has sent is not timed.
        if let Some(index) = waiting.iter().position(|waiting| waiting.number == number) {
            let Waiting { due, start, .. } = waiting.remove(index);
            let now = Instant::now();
            self.latency(due).record(due, start, now);
            self.totals.latency.record(now.saturating_duration_since(due));
        }
    }

    pub(super) fn outcome(&self) -> HealthyOutcome {
        let [before, attack, after] = &self.latencies;
        HealthyOutcome {
            sent: self.sent.get(),
            received: self.received.get(),
            refused: self.refused.get(),
            lost: self.lost.get(),
            unconfirmed: self.unconfirmed.get(),
            doubled: self.doubled.get(),
            misordered: self.misordered.get(),
            gaps: self.gaps.get(),
            cuts: self.cuts.get(),
            not_recovered: self.not_recovered.get(),
            before_ms: before.since_due(),
            before_from_start_ms: before.since_start(),
            attack_ms: attack.since_due(),
            attack_from_start_ms: attack.since_start(),
            after_ms: after.since_due(),
            after_from_start_ms: after.since_start(),
            ends: self.ends.outcome(),
        }
    }
}
