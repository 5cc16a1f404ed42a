//! Connecting and disconnecting, and restoring saved states.

use super::*;

impl ReplayRun<'_> {
    /// Cuts the connection. Inputs in transit to the server may be lost or arrive late, and the server may
    /// not notice the disconnect.
    pub(super) fn cut(&mut self) {
        // A client that reports no seq is assumed to have received everything that its machine has.
        let page_gets_all = self.client.at_most_once || self.rng.random();
        if page_gets_all && self.rng.random() && self.read_answer() {
            return;
        }
        let Some((link, lost)) = self.client.cut(page_gets_all, &self.world, self.coverage) else { return };
        if lost {
            self.coverage.record("page lost messages that its machine had acknowledged");
            self.world.gaps_allowed = true;
            self.must_report_seq = true;
            self.world.end_notices_may_be_missing = true;
        }
        let arrive = self.rng.random_range(0..=link.to_server.len());
        self.late.extend(link.to_server.into_iter().take(arrive).map(|input| (link.id, input)));
        if self.rng.random_bool(0.7) {
            self.late.push_back((link.id, ConnectionInput::Ended(SuspendReason::ConnectionLost)));
        }
    }

    /// Saves the session, and continues with the restored copy.
    pub(super) fn restart(&mut self) {
        self.handle(Input::Move);
        // The old process learns of a lost answer before it saves the session.
        self.settle_last_poll();
        let record = self.session.snapshot().expect("the session has moved");
        let outbox = Outbox::restore(&record.outbox, self.max_unacked, |log, _, _| {
            Some(self.world.logs.get(usize::try_from(log).expect("small")))
        });
        let now = millis(self.now_ms);
        let session = outbox.and_then(|outbox| SessionHarness::restore(now, &self.timeouts, &record, outbox));
        self.session = session.expect("the record is valid");
        self.coverage.record("restart");
    }

    pub(super) fn save_page(&mut self) {
        if self.snapshots.len() < MAX_SNAPSHOTS {
            self.snapshots.push(self.client.page.clone());
        }
    }

    pub(super) fn maybe_connect(&mut self) {
        // The client may believe that its connection is lost although it is not.
        if self.client.link.is_none() || self.rng.random_bool(0.1) {
            self.cut();
            let kind = random_kind(&mut self.rng, &self.allowed);
            self.connect(kind);
        }
    }

    pub(super) fn connect(&mut self, kind: ConnectionKind) {
        assert!(self.client.link.is_none());
        let old = self.allowed.old_seqs && !self.snapshots.is_empty() && self.rng.random_bool(0.3);
        if old {
            let snapshot = self.rng.random_range(0..self.snapshots.len());
            self.client.page = self.snapshots[snapshot].clone();
            // If a page polls with the same seq as before, the server assumes that the page has received the
            // answer.
            self.world.begin_notices_may_be_missing |= self.is_polling();
            // Discard later snapshots, because they belong to a history that is being abandoned.
            self.snapshots.truncate(snapshot + 1);
            self.world.gaps_allowed = true;
            self.coverage.record("old seq");
        }
        self.settle_last_poll();
        let may_be_silent = self.allowed.no_seqs && !old && !self.must_report_seq;
        let seq = if self.client.at_most_once {
            self.presume_delivery();
            None
        } else if may_be_silent && self.rng.random_bool(0.4) {
            self.coverage.record("resume without a seq");
            None
        } else {
            self.must_report_seq = false;
            // A page that receives messages again may report a lower seq than it has acknowledged. The ring may
            // have dropped what was acknowledged, so gaps are allowed.
            self.world.gaps_allowed |= self.client.page.seq < self.client.page.highest;
            Some(self.client.page.seq)
        };
        if matches!(self.session.phase(), Phase::Attached(_)) {
            self.coverage.record("take-over");
        }
        let has_dropped_entries =
            seq.is_none_or(|seq| seq < OutboxPosition::of(self.session.outbox()).dropped);
        self.world.gaps_may_be_late |= has_dropped_entries && self.world.logs.has_patterns();
        let id = self.attach(kind, seq);
        assert_eq!(self.session.phase(), Phase::Attached(id));
        self.begin_poll(kind, seq);
        self.wraps = kind == ConnectionKind::Events;
        self.client.link = Some(ClientLink::new(id, kind, seq));
        (self.ping_requested, self.ping_leaving, self.last_pong_frame) = (None, None, 0);
        self.maybe_hold(kind);
        self.carry_out_outputs();
    }

    /// Attaches a new connection. The outputs are left to the caller, which first records the connection.
    pub(super) fn attach(&mut self, kind: ConnectionKind, seq: Option<u64>) -> ConnectionId {
        self.pass_to_now();
        self.connections += 1;
        let id = ConnectionId(self.connections);
        let entropy = self.rng.random();
        let attach = Attach {
            connection: id,
            kind,
            seq,
            delivery: delivery(self.client.at_most_once),
            token_expires: None,
            entropy,
        };
        self.session.handle(millis(self.now_ms), Input::Attach(attach));
        id
    }

    pub(super) fn attach_with_future_seq(&mut self) {
        self.pass_to_now();
        let before = (OutboxPosition::of(self.session.outbox()), self.session.phase());
        let seq = self.session.outbox().seq() + self.rng.random_range(1..4);
        self.attach(ConnectionKind::Stream(Heartbeat::Frame), Some(seq));
        assert_eq!(before, (OutboxPosition::of(self.session.outbox()), self.session.phase()), "refused");
        assert_eq!(self.session.poll_output(), None);
        self.coverage.record("refused future seq");
    }
}
