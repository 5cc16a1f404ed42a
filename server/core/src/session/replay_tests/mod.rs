//! Tests a session between a model of the server's logs and a model of its client, with random disconnects,
//! losses and delays. In the end, the client must have received exactly the published messages, or a gap for
//! every missing one.
//!
//! `ENCKE_SEED=<n>` runs one seed; without it, a fixed range and one random seed.

mod client;
mod connecting;
mod coverage;
mod holding;
pub(super) mod logs;
mod polling;
mod server_world;
mod serving;

use std::collections::VecDeque;
use std::time::Duration;

use encke_seeds::with_seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::harness::SessionHarness;
use super::*;
use crate::Timestamp;
use crate::close::SuspendReason;
use client::{ClientLink, ClientPage, ModelClient};
use coverage::Coverage;
use logs::{LogRef, ModelLogs};
use polling::{PollModel, random_poll};
use server_world::{OutboxPosition, ServerWorld, WireFrame};

const SEEDS: u64 = 4_000;
const STEPS: usize = 120;
/// Maximum number of rounds of the final drain. Each round advances everything as much as possible. Since
/// there are no new messages, this is enough to drain a few full rings.
const DRAIN_ROUNDS: usize = 2_000;
const MAX_SNAPSHOTS: usize = 4;

#[test]
fn every_message_arrives_once_or_is_covered_by_a_gap() {
    let mut coverage = Coverage::default();
    let seeds = with_seeds(0..SEEDS, |seed| ReplayRun::new(seed, &mut coverage).run());
    // A single seed need not encounter every situation.
    if seeds > 1 {
        coverage.check();
    }
}

/// Situations allowed in one run. Runs that exclude some of them can check stricter assertions.
struct Allowed {
    trims: bool,
    wraps: bool,
    old_seqs: bool,
    no_seqs: bool,
    polls: bool,
    holds: bool,
    sinces: bool,
}

struct ReplayRun<'a> {
    rng: SmallRng,
    session: SessionHarness<LogRef>,
    timeouts: SessionTimeouts,
    max_unacked: usize,
    /// Kind of the last connection.
    kind: ConnectionKind,
    /// Whether the ring wraps, because the last connection cannot acknowledge.
    wraps: bool,
    polls: PollModel,
    world: ServerWorld,
    client: ModelClient,
    /// Whether the page is slow to read.
    page_is_slow: bool,
    allowed: Allowed,
    coverage: &'a mut Coverage,
    now_ms: u64,
    connections: u64,
    /// Connection for which a ping was requested.
    ping_requested: Option<ConnectionId>,
    /// Seq of a ping that was encoded and not yet reported as sent.
    ping_leaving: Option<u64>,
    /// Seq of the last pong frame on the current connection.
    last_pong_frame: u64,
    /// Last seq sent when a request on the stream was last answered.
    released: u64,
    /// Inputs still in transit from connections that the client has closed.
    late: VecDeque<(ConnectionId, ConnectionInput)>,
    /// Saved states of the page.
    snapshots: Vec<ClientPage>,
    /// Whether the page has lost messages that the server may consider received, and has not reported a seq
    /// since.
    must_report_seq: bool,
}

impl<'a> ReplayRun<'a> {
    fn new(seed: u64, coverage: &'a mut Coverage) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let gaps = rng.random_bool(0.6);
        let at_most_once = rng.random_bool(0.25);
        let allowed = Allowed {
            trims: gaps && rng.random_bool(0.7),
            wraps: gaps && !at_most_once && rng.random_bool(0.6),
            old_seqs: gaps && !at_most_once && rng.random_bool(0.6),
            no_seqs: at_most_once || rng.random_bool(0.5),
            polls: rng.random_bool(0.5),
            holds: rng.random_bool(0.5),
            sinces: rng.random_bool(0.5),
        };
        let timeouts = SessionTimeouts {
            ping_interval: Duration::from_millis(1_000),
            pong_timeout: Duration::from_millis(400),
            poll_hold: Duration::from_millis(700),
            poll_gap: Duration::from_millis(300),
            reconnect_window: Duration::from_hours(1),
            idle: None,
            lifetime: None,
        };
        let max_unacked = 4 << rng.random_range(0..5);
        let mut world = ServerWorld::new(ModelLogs::new(&mut rng), at_most_once);
        world.end_notices_may_be_missing |= allowed.old_seqs;
        let kind = random_kind(&mut rng, &allowed);
        let id = ConnectionId(1);
        let attach = Attach {
            connection: id,
            kind,
            seq: None,
            delivery: delivery(at_most_once),
            token_expires: None,
            entropy: rng.random(),
        };
        let session = SessionHarness::open(millis(0), &timeouts, Outbox::new(max_unacked), attach);
        let client = ModelClient {
            page: ClientPage::default(),
            link: Some(ClientLink::new(id, kind, None)),
            pongs_after_reading: rng.random(),
            reports_highest: rng.random(),
            at_most_once,
        };
        let page_is_slow = rng.random_bool(0.3);
        let mut run = Self {
            rng,
            session,
            timeouts,
            max_unacked,
            kind,
            polls: PollModel::default(),
            wraps: kind == ConnectionKind::Events,
            world,
            client,
            page_is_slow,
            allowed,
            coverage,
            now_ms: 0,
            connections: 1,
            ping_requested: None,
            ping_leaving: None,
            last_pong_frame: 0,
            released: 0,
            late: VecDeque::new(),
            snapshots: Vec::new(),
            must_report_seq: false,
        };
        run.carry_out_outputs();
        run
    }

    fn run(mut self) {
        for _ in 0..STEPS {
            self.step();
            self.maybe_poll_again();
            self.check();
        }
        self.drain();
        if !self.world.gaps_allowed {
            self.coverage.record(if self.client.at_most_once {
                "at most once, without any gap allowed"
            } else {
                "without any gap allowed"
            });
        }
    }

    fn check(&self) {
        self.session.outbox().check_invariants();
        self.world.check(self.session.outbox());
        assert!(!matches!(self.session.phase(), Phase::Closed(_)), "the session has not ended");
    }

    fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..14 => self.publish(),
            14..17 => self.trim(),
            17 => self.world.notify(self.session.outbox_mut()),
            18..24 => self.change_subscriptions(),
            24..44 => self.serve(),
            44..58 => self.machine_reads(),
            58..72 => self.page_reads(),
            72..76 => self.acknowledge(),
            76..86 => self.server_reads(),
            86..88 => self.cut(),
            88..92 => self.maybe_connect(),
            92..94 => self.deliver_late_input(),
            94 => self.attach_with_future_seq(),
            95 => self.save_page(),
            96 => self.world.mark_all(self.session.outbox_mut()),
            97 if self.rng.random_bool(0.3) => self.handle(Input::Disconnect),
            97 if self.rng.random_bool(0.5) => self.restart(),
            97 => self.deliver_late_poll(),
            98 => self.request(),
            _ => self.pass_time(),
        }
    }

    fn publish(&mut self) {
        let channel = self.rng.random_range(0..self.world.logs.channels);
        let count = if self.rng.random_bool(0.1) { 20 } else { self.rng.random_range(1..=4) };
        let notify = self.rng.random_bool(0.7);
        self.world.publish(self.session.outbox_mut(), channel, count, notify);
    }

    fn trim(&mut self) {
        let log = self.rng.random_range(0..self.world.logs.len());
        if !self.allowed.trims || !self.world.logs.trim(log, &mut self.rng) {
            return;
        }
        self.world.gaps_allowed = true;
        if self.session.phase() == Phase::Suspended {
            self.coverage.record("trimmed while suspended");
        }
    }

    fn change_subscriptions(&mut self) {
        let log = self.rng.random_range(0..self.world.logs.len());
        let subscribed = self.world.live().find(|(_, it)| it.log == log).map(|(index, _)| index);
        let outbox = self.session.outbox_mut();
        let last = self.world.logs.bounds(log).last;
        match subscribed {
            Some(index) if self.rng.random_bool(0.4) => {
                self.world.unsubscribe(outbox, index, self.rng.random_bool(0.4));
            }
            Some(_) => {}
            None => {
                let (start, gap) = match self.rng.random_range(0..4) {
                    0 => (last, true),
                    1 if self.allowed.sinces => (self.rng.random_range(0..=last), false),
                    _ => (last, false),
                };
                self.world.subscribe(outbox, log, (start, gap), self.rng.random_bool(0.4));
            }
        }
    }

    fn handle(&mut self, input: Input) {
        self.session.handle(millis(self.now_ms), input);
        self.carry_out_outputs();
    }

    fn on(&mut self, id: ConnectionId, input: ConnectionInput) {
        self.handle(Input::Connection(id, input));
    }

    fn pass_time(&mut self) {
        self.now_ms += self.rng.random_range(0..500);
        self.pass_to_now();
    }

    fn pass_to_now(&mut self) {
        self.session.handle_timeout(millis(self.now_ms));
        self.carry_out_outputs();
    }

    fn machine_reads(&mut self) {
        if self.read_answer() {
            return;
        }
        for _ in 0..self.rng.random_range(1..8) {
            self.client.machine_reads(&self.world, self.coverage);
        }
    }

    fn page_reads(&mut self) {
        if self.read_answer() {
            return;
        }
        if self.page_is_slow && self.rng.random_bool(0.7) {
            return;
        }
        for _ in 0..self.rng.random_range(1..8) {
            self.client.page_reads(&self.world, self.coverage);
        }
    }

    fn acknowledge(&mut self) {
        let can = |link: &ClientLink| matches!(link.kind, ConnectionKind::Stream(_));
        let can = !self.client.at_most_once && self.client.link.as_ref().is_some_and(can);
        if can && self.rng.random_bool(0.7) {
            self.client.send_input(ConnectionInput::Ack { seq: self.client.page.seq });
        }
    }

    /// Checks that on a final working connection, pongs alone are enough to deliver everything, without
    /// waiting for deadlines.
    fn drain(&mut self) {
        if self.client.link.is_some() {
            self.cut();
        }
        self.allowed.holds = false;
        let heartbeat = if self.rng.random() { Heartbeat::Frame } else { Heartbeat::Message };
        self.connect(ConnectionKind::Stream(heartbeat));
        let id = ConnectionId(self.connections);
        for round in 0.. {
            assert!(round < DRAIN_ROUNDS, "the drain does not terminate");
            let mut moved = false;
            self.world.notify(self.session.outbox_mut());
            while self.send(id, 100) {
                moved = true;
            }
            moved |= self.write_ping();
            self.report_ping_sent();
            while self.client.machine_reads(&self.world, self.coverage) {}
            while self.client.page_reads(&self.world, self.coverage) {}
            while let Some(input) = self.client.link.as_mut().and_then(|link| link.to_server.pop_front()) {
                self.receive(id, input);
                moved = true;
            }
            self.check();
            if !moved {
                break;
            }
        }
        assert!(!self.session.outbox().needs_acknowledgement(), "every needed acknowledgement was received");
        for (index, it) in self.world.live() {
            let last = self.world.logs.bounds(it.log).last;
            self.client.page.assert_has(index, last, &self.world);
        }
        self.client.page.assert_notified(&self.world);
    }
}

fn delivery(at_most_once: bool) -> DeliveryMode {
    if at_most_once { DeliveryMode::AtMostOnce } else { DeliveryMode::AtLeastOnce }
}

fn random_kind(rng: &mut SmallRng, allowed: &Allowed) -> ConnectionKind {
    if allowed.polls && rng.random_bool(0.7) {
        return random_poll(rng);
    }
    match rng.random_range(0..4) {
        0 if allowed.wraps => ConnectionKind::Events,
        1 => ConnectionKind::Stream(Heartbeat::Message),
        _ => ConnectionKind::Stream(Heartbeat::Frame),
    }
}

fn millis(ms: u64) -> Timestamp {
    Timestamp::from_nanos((1_000 + ms) * 1_000_000)
}
