//! Connects sessions to the nodes in turn, and retries until they are connected.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use encke_client::{ADDRESSES, ClientConnection, ConnectionEnd, Dialer, ServerUrl, Sources, Ticket};
use rand::RngExt;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::fault_log::SessionEvent;
use super::session::{NodeSession, Verdicts};
use crate::args::NodesOptions;
use crate::record::{Counter, Latency, Metrics, Times};
use crate::scenario::{Attempt, OpenedConnection, Setup, open};

/// Upper bound on the delay before reconnecting if the server gave no advice, or after a failed attempt.
const MAX_DELAY: Duration = Duration::from_millis(500);

/// The servers, each with its dialer.
#[derive(Debug)]
pub(super) struct NodeRing(Vec<Rc<Setup>>);

impl NodeRing {
    pub(super) async fn open(options: &NodesOptions, setup: &Setup) -> Result<Self, String> {
        let mut nodes = Vec::new();
        for url in [&options.server.url].into_iter().chain(&options.other_nodes) {
            let address = resolve(url, options.server.connect_timeout).await?;
            let dial_options =
                encke_client::DialOptions { url: url.clone(), ..options.server.dial_options() };
            let sources = Sources::new(address, 0..ADDRESSES);
            let dialer = Rc::new(Dialer::new(dial_options, sources, setup.dialer.traffic()));
            nodes.push(Rc::new(Setup { dialer, ..setup.clone() }));
        }
        Ok(Self(nodes))
    }

    /// Returns the index of the node to which this client connects first.
    pub(super) fn first(&self, index: u32) -> usize {
        index as usize % self.0.len()
    }

    pub(super) fn next(&self, node: usize) -> usize {
        (node + 1) % self.0.len()
    }

    pub(super) fn setup(&self, node: usize) -> &Rc<Setup> {
        &self.0[node]
    }
}

async fn resolve(url: &ServerUrl, limit: Duration) -> Result<std::net::SocketAddr, String> {
    let cannot = |why: String| format!("cannot resolve {}: {why}", url.uri);
    let address = timeout(limit, url.resolve()).await.map_err(|_| cannot("it took too long".to_owned()))?;
    address.map_err(|error| cannot(error.to_string()))
}

/// Why a client connects to another node.
#[derive(Debug)]
pub(super) enum MoveCause {
    Ended(ConnectionEnd),
    Hop,
    Silence,
}

#[derive(Debug)]
pub(super) struct Moves {
    /// Number of moves on purpose.
    hops: Counter,
    /// Number of moves because nothing had arrived for the read timeout.
    silences: Counter,
    /// Number of connections that ended.
    ended: Counter,
    resumed: Counter,
    /// Number of clients that received new sessions.
    pub(super) not_recovered: Counter,
    /// Number of connection attempts that did not lead to a hello.
    refused: Counter,
    /// Time from the end of a connection to the hello of the next one.
    away: Times,
    /// Time from when a client was due to reconnect to the hello.
    resume: Latency,
}

impl Moves {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            hops: metrics.counter("hops"),
            silences: metrics.counter("silences"),
            ended: metrics.counter("ended"),
            resumed: metrics.counter("resumed"),
            not_recovered: metrics.counter("not_recovered"),
            refused: metrics.counter("refused"),
            away: metrics.times("away_ms"),
            resume: metrics.latency("resume"),
        }
    }

    /// Connects to the nodes in turn, beginning with `node`, until an attempt succeeds. Returns the connection
    /// and the node.
    pub(super) async fn connect(
        &self,
        ring: &NodeRing,
        mut node: usize,
        ticket: &Ticket,
        due: Instant,
        mut on_attempt: impl FnMut(SessionEvent),
    ) -> (OpenedConnection, usize) {
        sleep_until(due).await;
        loop {
            let setup = ring.setup(node);
            on_attempt(SessionEvent::Attempt { node, seq: ticket.seq });
            match open(setup.clone(), Attempt { index: 0, due, resume: Some(ticket.clone()) }).await {
                Ok(opened) => return (opened, node),
                Err(failure) => {
                    on_attempt(SessionEvent::Failed);
                    self.refused.increment();
                    setup.failures.record(&failure);
                }
            }
            node = ring.next(node);
            sleep(random_delay()).await;
        }
    }

    /// Connects a session to the next node, and records how it went.
    pub(super) async fn reconnect(
        &self,
        ring: &NodeRing,
        session: &RefCell<NodeSession>,
        cause: MoveCause,
        connection: ClientConnection,
        verdicts: &Verdicts,
    ) -> ClientConnection {
        let lost_at = Instant::now();
        let (event, delay) = self.note_cause(cause, session);
        session.borrow_mut().trail.push(event);
        let old = matches!(event, SessionEvent::Hop { is_closed: false }).then_some(connection);
        let (ticket, node) = (session.borrow().resume_ticket(), ring.next(session.borrow().node));
        let note = |event| session.borrow_mut().trail.push(event);
        let (opened, node) = self.connect(ring, node, &ticket, lost_at + delay, note).await;
        drop(old);
        let OpenedConnection { connection, greeting, due, began, at, .. } = opened;
        self.away.record(at - lost_at);
        self.resume.record(due, began, at);
        let session = &mut *session.borrow_mut();
        (session.node, session.last_data) = (node, at);
        session.reports_positions = greeting.asks_for_positions;
        let (recovered, seq) = (greeting.recovered, greeting.ticket.seq);
        session.trail.push(SessionEvent::Hello { node, seq, recovered });
        let details = json!({ "seq": ticket.seq, "hello_seq": seq, "node": node });
        if recovered {
            self.resumed.increment();
            if seq != ticket.seq {
                verdicts.tally.misnumbered.increment();
                verdicts.log.write("hello_seq", &ticket.token, "", &details, &session.trail);
            }
        } else {
            self.not_recovered.increment();
            verdicts.log.write("not_recovered", &ticket.token, "", &details, &session.trail);
            session.replace(greeting.ticket);
        }
        connection
    }

    /// Counts the cause of a move. Returns its event, and the delay before the first attempt.
    fn note_cause(&self, cause: MoveCause, session: &RefCell<NodeSession>) -> (SessionEvent, Duration) {
        let advice = session.borrow_mut().retry.take();
        match cause {
            MoveCause::Ended(end) => {
                self.ended.increment();
                (SessionEvent::Ended { code: end.code() }, advice.unwrap_or_else(random_delay))
            }
            MoveCause::Hop => {
                self.hops.increment();
                (SessionEvent::Hop { is_closed: rand::rng().random() }, Duration::ZERO)
            }
            MoveCause::Silence => {
                self.silences.increment();
                (SessionEvent::Silence, Duration::ZERO)
            }
        }
    }
}

/// Returns a random delay, so that clients do not all reconnect simultaneously.
pub(super) fn random_delay() -> Duration {
    MAX_DELAY.mul_f64(rand::rng().random_range(0.1..1.0))
}
