//! The healthy session that is measured during an attack. It publishes to its own channel at a steady rate,
//! and receives what it published.
//!
//! If the server has no channels, the session sends pings and receives pongs instead.

mod protocol;

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use strum::EnumCount;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use self::protocol::{HealthyEvent, HealthyProtocol};
use super::HealthyTotals;
use crate::client::{ClientConnection, ClientFailure, Dialer, Greeting, Ticket, kind_of_end};
use crate::record::{ConnectionEnds, Counter, EndsOutcome, Latency};
use crate::result::Distribution;
use crate::scenario::Setup;
use crate::scenario::channel::{Arrival, Ledger};
use crate::transport::Sources;
use crate::transport::websocket::ConnectionEnd;

/// Index of the source address 127.0.0.2, used if the server is on loopback.
const HEALTHY_ADDRESS: u8 = 1;
/// How long to wait for missing messages at the end.
const GRACE: Duration = Duration::from_secs(5);
/// Delay between attempts to reconnect.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Minimum number of messages in the history of a channel, by default.
const MIN_HISTORY: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount)]
pub(super) enum TrialStage {
    Before,
    Attack,
    After,
}

#[derive(Debug)]
pub(super) struct Healthy {
    channel: String,
    totals: HealthyTotals,
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
    ends: ConnectionEnds,
    latencies: [Latency; TrialStage::COUNT],
    /// When each stage began.
    stages: RefCell<Vec<Instant>>,
    /// When sending stopped.
    finished_at: Cell<Option<Instant>>,
    position: RefCell<Option<HealthyPosition>>,
}

/// Position of the last message received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HealthyPosition {
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

/// Creates a dialer that connects from the loopback address with this index.
pub(super) fn dialer(setup: &Setup, address: u8) -> Dialer {
    let sources = Sources::new(setup.dialer.server(), address..address + 1);
    Dialer::new(setup.load.server.dial_options(), sources, setup.recorder.traffic())
}

/// State of the session over all its connections.
struct HealthyState {
    dialer: Dialer,
    protocol: HealthyProtocol,
    ticket: Ticket,
    /// Number of the next message.
    next: u32,
    first_due: Instant,
    pending: Vec<PendingMessage>,
    arrived: Ledger,
}

/// A message that has not arrived yet.
struct PendingMessage {
    number: u32,
    due: Instant,
    start: Instant,
    is_confirmed: bool,
}

/// An admitted session that has subscribed to its channel.
pub(super) struct HealthySession {
    connection: ClientConnection,
    state: HealthyState,
}

impl Healthy {
    pub(super) fn new(totals: &HealthyTotals) -> Self {
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
            ends: ConnectionEnds::default(),
            latencies: Default::default(),
            stages: RefCell::default(),
            finished_at: Cell::new(None),
            position: RefCell::new(None),
        }
    }

    pub(super) fn channel(&self) -> &str {
        &self.channel
    }

    /// Returns the position before the last messages that must still be in the channel's history, and the
    /// number of those messages.
    pub(super) fn history(&self) -> Option<(HealthyPosition, u64)> {
        let HealthyPosition { epoch, offset: last } = self.position.borrow().clone()?;
        let expected = last.min(MIN_HISTORY);
        Some((HealthyPosition { epoch, offset: last - expected }, expected))
    }

    pub(super) fn enter(&self, stage: TrialStage) {
        debug_assert_eq!(self.stages.borrow().len(), stage as usize, "stages are entered in order");
        self.stages.borrow_mut().push(Instant::now());
    }

    /// Returns the latencies of the stage in which a message was due.
    fn latency(&self, due: Instant) -> &Latency {
        let stages = self.stages.borrow();
        let begun = stages.iter().skip(1).filter(|start| **start <= due).count();
        &self.latencies[begun]
    }

    /// Stops sending. Missing messages may still arrive.
    pub(super) fn finish(&self) {
        self.finished_at.set(Some(Instant::now()));
    }

    /// Opens the session. `None` if the server does not admit it, in which case the failure is recorded.
    pub(super) async fn open(&self, setup: &Setup) -> Option<HealthySession> {
        let dialer = dialer(setup, HEALTHY_ADDRESS);
        let protocol = HealthyProtocol::new(setup.load.server.target, &self.channel);
        let mut state = HealthyState {
            dialer,
            protocol,
            ticket: Ticket::default(),
            next: 0,
            first_due: Instant::now(),
            pending: Vec::new(),
            arrived: Ledger::default(),
        };
        match self.connect(&mut state, setup, None).await {
            Ok((connection, _)) => {
                self.totals.connected.increment();
                self.enter(TrialStage::Before);
                state.first_due = Instant::now();
                Some(HealthySession { connection, state })
            }
            Err(failure) => {
                setup.failures.record(&failure);
                None
            }
        }
    }

    /// Opens a connection, and subscribes if the session is new.
    async fn connect(
        &self,
        state: &mut HealthyState,
        setup: &Setup,
        resume: Option<&Ticket>,
    ) -> Result<(ClientConnection, Greeting), ClientFailure> {
        let (mut connection, greeting) = state.dialer.open(resume).await?;
        state.ticket = greeting.ticket.clone();
        if greeting.recovered {
            return Ok((connection, greeting));
        }
        let since = self.position.borrow().clone();
        let Some(subscribe) = state.protocol.subscribe(since.as_ref()) else {
            return Ok((connection, greeting));
        };
        connection.send(&subscribe).await;
        let reply = connection.each(|event| match state.protocol.decode(event) {
            HealthyEvent::Subscribed(position) => ControlFlow::Break(Ok(position)),
            HealthyEvent::Refused { code, .. } => ControlFlow::Break(Err(code)),
            _ => ControlFlow::Continue(()),
        });
        let reply = timeout(setup.load.server.connect_timeout, reply).await;
        let position = match reply {
            Ok(Ok(reply)) => reply.map_err(ClientFailure::Subscribe)?,
            Ok(Err(end)) => return Err(ClientFailure::Subscribe(kind_of_end(end))),
            Err(_) => return Err(ClientFailure::Timeout),
        };
        self.position.borrow_mut().get_or_insert(position);
        Ok((connection, greeting))
    }

    /// Publishes and receives, and reconnects after each disconnect. Returns when sending has stopped and
    /// everything has arrived, or when the time is up.
    pub(super) async fn run(self: Rc<Self>, setup: &Setup, session: HealthySession) {
        let HealthySession { mut connection, mut state } = session;
        while let Err(end) = self.publish_and_receive(&mut connection, &mut state, setup.load.rate).await {
            self.cuts.increment();
            self.totals.cuts.increment();
            self.ends.record(end);
            connection = match self.reconnect(&mut state, setup).await {
                Some(connection) => connection,
                None => break,
            };
        }
        for pending in &state.pending {
            if pending.is_confirmed || !state.protocol.confirms() {
                self.lost.increment();
                self.totals.lost.increment();
            } else {
                self.unconfirmed.increment();
            }
        }
    }

    /// Reconnects. `None` if the time is up before an attempt succeeds.
    async fn reconnect(&self, state: &mut HealthyState, setup: &Setup) -> Option<ClientConnection> {
        while !self.is_time_up() {
            let ticket = Some(state.ticket.clone()).filter(|ticket| !ticket.token.is_empty());
            match self.connect(state, setup, ticket.as_ref()).await {
                Ok((connection, greeting)) => {
                    if state.protocol.confirms() && !greeting.recovered {
                        self.not_recovered.increment();
                    }
                    return Some(connection);
                }
                Err(failure) => setup.failures.record(&failure),
            }
            sleep(RETRY_DELAY).await;
        }
        None
    }

    fn is_time_up(&self) -> bool {
        self.finished_at.get().is_some_and(|at| at.elapsed() >= GRACE)
    }

    async fn publish_and_receive(
        &self,
        connection: &mut ClientConnection,
        state: &mut HealthyState,
        rate: f64,
    ) -> Result<(), ConnectionEnd> {
        loop {
            let due = state.first_due + Duration::from_secs_f64(f64::from(state.next) / rate);
            let is_finished = self.finished_at.get().is_some_and(|at| due >= at);
            if self.is_time_up() || is_finished && state.pending.is_empty() {
                return Ok(());
            }
            let wake_at = if is_finished { Instant::now() + RETRY_DELAY } else { due };
            tokio::select! {
                () = sleep_until(wake_at) => {}
                end = self.listen(connection, state) => return Err(end),
            }
            if !is_finished {
                self.send(connection, state, due);
            }
        }
    }

    /// Queues a message. Bytes that cannot be sent immediately are sent while the session listens.
    fn send(&self, connection: &mut ClientConnection, state: &mut HealthyState, due: Instant) {
        let number = state.next;
        connection.queue(&state.protocol.encode_message(number));
        state.next += 1;
        state.pending.push(PendingMessage { number, due, start: Instant::now(), is_confirmed: false });
        self.sent.increment();
        self.totals.sent.increment();
    }

    async fn listen(&self, connection: &mut ClientConnection, state: &mut HealthyState) -> ConnectionEnd {
        let HealthyState { protocol, ticket, pending, arrived, .. } = state;
        let heard = connection.each(|event| {
            ticket.note(event);
            match protocol.decode(event) {
                HealthyEvent::Arrived { number, offset } => {
                    self.take(number, pending, arrived);
                    if let Some(position) = &mut *self.position.borrow_mut() {
                        position.offset = offset;
                    }
                }
                HealthyEvent::Confirmed(number) => {
                    let confirmed = pending.iter_mut().find(|pending| pending.number == number);
                    confirmed.into_iter().for_each(|pending| pending.is_confirmed = true);
                }
                HealthyEvent::Refused { number, .. } => {
                    pending.retain(|pending| pending.number != number);
                    self.refused.increment();
                }
                HealthyEvent::Gap => self.gaps.increment(),
                HealthyEvent::Subscribed(_) | HealthyEvent::Other => {}
            }
            ControlFlow::<std::convert::Infallible>::Continue(())
        });
        let Err(end) = heard.await;
        end
    }

    fn take(&self, number: u32, pending: &mut Vec<PendingMessage>, arrived: &mut Ledger) {
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
        // A message that this session did not send has no latency.
        if let Some(index) = pending.iter().position(|pending| pending.number == number) {
            let PendingMessage { due, start, .. } = pending.remove(index);
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
