//! The healthy session that is measured during an attack. It publishes to its own channel at a steady rate,
//! and receives what it published.
//!
//! If the server has no channels, the session sends pings and receives pongs instead.

mod protocol;

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::time::Duration;

use encke_client::{
    ClientConnection, ClientFailure, ConnectionEnd, Dialer, Greeting, Sources, Ticket, kind_of_end,
};
use tokio::time::{Instant, sleep, sleep_until, timeout};

pub(super) use self::protocol::{HealthyEvent, HealthyProtocol};
use crate::record::{Counter, Latency, Metrics};
use crate::scenario::Setup;
use crate::scenario::channel::{Arrival, Ledger};

/// Index of the source address 127.0.0.2, used if the server is on loopback.
const HEALTHY_ADDRESS: u8 = 1;
/// How long to wait for missing messages at the end.
const GRACE: Duration = Duration::from_secs(5);
/// Delay between attempts to reconnect.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Minimum number of messages in the history of a channel, by default.
const MIN_HISTORY: u64 = 200;

#[derive(Debug)]
pub(super) struct Healthy {
    pub(super) channel: String,
    connected: Counter,
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
    /// Before, during and after the attack.
    latencies: [Latency; 3],
    /// When each of these stages began.
    stages: RefCell<Vec<Instant>>,
    /// When sending stopped.
    finished_at: Cell<Option<Instant>>,
    position: RefCell<Option<HealthyPosition>>,
}

/// Position of the last message received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HealthyPosition {
    pub(crate) epoch: String,
    pub(crate) offset: u64,
}

/// Creates a dialer that connects from the loopback address with this index.
pub(super) fn dialer(setup: &Setup, address: u8) -> Dialer {
    let sources = Sources::new(setup.dialer.server(), address..address + 1);
    Dialer::new(setup.load.server.dial_options(), sources, setup.dialer.traffic())
}

/// An admitted session that has subscribed to its channel, over all its connections.
pub(super) struct HealthySession {
    dialer: Dialer,
    protocol: HealthyProtocol,
    connection: ClientConnection,
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

impl Healthy {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let metrics = metrics.within("healthy");
        Self {
            channel: format!("healthy-{:016x}", rand::random::<u64>()),
            connected: metrics.counter("connected"),
            sent: metrics.counter("sent"),
            received: metrics.counter("received"),
            refused: metrics.counter("refused"),
            lost: metrics.counter("lost"),
            unconfirmed: metrics.counter("unconfirmed"),
            doubled: metrics.counter("doubled"),
            misordered: metrics.counter("misordered"),
            gaps: metrics.counter("gaps"),
            cuts: metrics.counter("cuts"),
            not_recovered: metrics.counter("not_recovered"),
            latencies: ["before", "attack", "after"].map(|stage| metrics.latency(stage)),
            stages: RefCell::default(),
            finished_at: Cell::new(None),
            position: RefCell::new(None),
        }
    }

    /// Returns the position before the last messages that must still be in the channel's history, and the
    /// number of those messages.
    pub(super) fn history(&self) -> Option<(HealthyPosition, u64)> {
        let HealthyPosition { epoch, offset: last } = self.position.borrow().clone()?;
        let expected = last.min(MIN_HISTORY);
        Some((HealthyPosition { epoch, offset: last - expected }, expected))
    }

    pub(super) fn enter_next_stage(&self) {
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
        match self.connect(&dialer, &protocol, setup, None).await {
            Ok((connection, Greeting { ticket, .. })) => {
                self.connected.increment();
                self.enter_next_stage();
                Some(HealthySession {
                    dialer,
                    protocol,
                    connection,
                    ticket,
                    next: 0,
                    first_due: Instant::now(),
                    pending: Vec::new(),
                    arrived: Ledger::default(),
                })
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
        dialer: &Dialer,
        protocol: &HealthyProtocol,
        setup: &Setup,
        resume: Option<&Ticket>,
    ) -> Result<(ClientConnection, Greeting), ClientFailure> {
        let (mut connection, greeting) = dialer.open(resume).await?;
        if greeting.recovered {
            return Ok((connection, greeting));
        }
        let since = self.position.borrow().clone();
        let Some(subscribe) = protocol.subscribe(since.as_ref()) else {
            return Ok((connection, greeting));
        };
        connection.send(&subscribe).await;
        let reply = connection.each(|event| match protocol.decode(event) {
            Some(HealthyEvent::Subscribed(position)) => ControlFlow::Break(Ok(position)),
            Some(HealthyEvent::Refused { code, .. }) => ControlFlow::Break(Err(code)),
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
    pub(super) async fn run(&self, setup: &Setup, mut session: HealthySession) {
        while self.publish_and_receive(&mut session, setup.load.rate).await.is_err() {
            self.cuts.increment();
            if !self.reconnect(&mut session, setup).await {
                break;
            }
        }
        for pending in &session.pending {
            let is_lost = pending.is_confirmed || !session.protocol.confirms();
            if is_lost { &self.lost } else { &self.unconfirmed }.increment();
        }
    }

    /// Reconnects. Returns false if the time is up before an attempt succeeds.
    async fn reconnect(&self, session: &mut HealthySession, setup: &Setup) -> bool {
        let HealthySession { dialer, protocol, connection, ticket, .. } = session;
        while !self.is_time_up() {
            let resume = Some(&*ticket).filter(|ticket| !ticket.token.is_empty());
            match self.connect(dialer, protocol, setup, resume).await {
                Ok((opened, greeting)) => {
                    if protocol.confirms() && !greeting.recovered {
                        self.not_recovered.increment();
                    }
                    (*connection, *ticket) = (opened, greeting.ticket);
                    return true;
                }
                Err(failure) => setup.failures.record(&failure),
            }
            sleep(RETRY_DELAY).await;
        }
        false
    }

    fn is_time_up(&self) -> bool {
        self.finished_at.get().is_some_and(|at| at.elapsed() >= GRACE)
    }

    async fn publish_and_receive(
        &self,
        session: &mut HealthySession,
        rate: f64,
    ) -> Result<(), ConnectionEnd> {
        loop {
            let due = session.first_due + Duration::from_secs_f64(f64::from(session.next) / rate);
            let is_finished = self.finished_at.get().is_some_and(|at| due >= at);
            if self.is_time_up() || is_finished && session.pending.is_empty() {
                return Ok(());
            }
            let wake_at = if is_finished { Instant::now() + RETRY_DELAY } else { due };
            tokio::select! {
                () = sleep_until(wake_at) => {}
                end = self.listen(session) => return Err(end),
            }
            if !is_finished {
                self.send(session, due);
            }
        }
    }

    /// Queues a message. Bytes that cannot be sent immediately are sent while the session listens.
    fn send(&self, session: &mut HealthySession, due: Instant) {
        let number = session.next;
        session.connection.queue(&session.protocol.encode_message(number));
        session.next += 1;
        session.pending.push(PendingMessage { number, due, start: Instant::now(), is_confirmed: false });
        self.sent.increment();
    }

    async fn listen(&self, session: &mut HealthySession) -> ConnectionEnd {
        let HealthySession { protocol, connection, ticket, pending, arrived, .. } = session;
        let listened = connection.listen(|event| {
            ticket.note(event);
            match protocol.decode(event) {
                Some(HealthyEvent::Arrived { number, offset }) => {
                    self.take(number, pending, arrived);
                    if let Some(position) = &mut *self.position.borrow_mut() {
                        position.offset = offset;
                    }
                }
                Some(HealthyEvent::Confirmed(number)) => {
                    let confirmed = pending.iter_mut().find(|pending| pending.number == number);
                    confirmed.into_iter().for_each(|pending| pending.is_confirmed = true);
                }
                Some(HealthyEvent::Refused { number, .. }) => {
                    pending.retain(|pending| pending.number != number);
                    self.refused.increment();
                }
                Some(HealthyEvent::Gap) => self.gaps.increment(),
                Some(HealthyEvent::Subscribed(_)) | None => {}
            }
        });
        listened.await
    }

    fn take(&self, number: u32, pending: &mut Vec<PendingMessage>, arrived: &mut Ledger) {
        match arrived.take(number) {
            Arrival::Duplicated => return self.doubled.increment(),
            Arrival::Misordered => self.misordered.increment(),
            Arrival::InOrder => {}
        }
        self.received.increment();
        // A message that this session did not send has no latency.
        if let Some(index) = pending.iter().position(|pending| pending.number == number) {
            let PendingMessage { due, start, .. } = pending.remove(index);
            self.latency(due).record(due, start, Instant::now());
        }
    }
}
