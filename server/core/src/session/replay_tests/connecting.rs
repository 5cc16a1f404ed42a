//! Connections of the run: cut, made, and made with what was remembered.

use super::*;

impl Run<'_> {
    /// What was under way to the server may be lost, or come later; or the server never learns of it.
    pub(super) fn cut(&mut self) {
        // A client that says no seq has what its machine has.
        let page_gets_all = self.client.at_most_once || self.rng.random();
        if page_gets_all && self.rng.random() && self.read_answer() {
            return;
        }
        let Some((link, lost)) = self.client.cut(page_gets_all, &self.world, self.coverage) else { return };
        if lost {
            self.coverage.met("page lost what its machine had answered for");
            self.world.gaps_allowed = true;
            self.must_tell_seq = true;
            self.world.ends_may_be_missing = true;
        }
        let arrive = self.rng.random_range(0..=link.to_server.len());
        self.late.extend(link.to_server.into_iter().take(arrive).map(|input| (link.id, input)));
        if self.rng.random_bool(0.7) {
            self.late.push_back((link.id, ConnectionInput::Ended(SuspendReason::ConnectionLost)));
        }
    }

    /// The server writes the session down, and another goes on with it.
    pub(super) fn restart(&mut self) {
        self.handle(Input::Move);
        let record = self.session.snapshot().expect("it has moved");
        let outbox = Outbox::restore(&record.outbox, self.max_unacked, |log, _, _| {
            Some(self.world.logs.get(usize::try_from(log).expect("small")))
        });
        let now = millis(self.now_ms);
        let session = outbox.and_then(|outbox| Driven::restore(now, &self.timeouts, &record, outbox));
        self.session = session.expect("it was written down like this");
        self.coverage.met("restart");
    }

    pub(super) fn remember(&mut self) {
        if self.snapshots.len() < MAX_SNAPSHOTS {
            self.snapshots.push(self.client.page.clone());
        }
    }

    pub(super) fn connect_sometimes(&mut self) {
        // It may believe that its connection is lost while it is not.
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
            // A page that polls with the same seq as before is taken for the one that has had the answer.
            self.world.begins_may_be_missing |= self.is_polling();
            // Those that know more are of a life that has not been.
            self.snapshots.truncate(snapshot + 1);
            self.world.gaps_allowed = true;
            self.coverage.met("old seq");
        }
        self.settle_last_poll();
        let may_be_silent = self.allowed.no_seqs && !old && !self.must_tell_seq;
        let seq = if self.client.at_most_once {
            self.presume();
            None
        } else if may_be_silent && self.rng.random_bool(0.4) {
            self.coverage.met("resume without a seq");
            None
        } else {
            self.must_tell_seq = false;
            // It may have acknowledged more before it was sent something again.
            self.world.gaps_allowed |= self.client.page.seq < self.client.page.highest;
            Some(self.client.page.seq)
        };
        if matches!(self.session.phase(), Phase::Attached(_)) {
            self.coverage.met("take-over");
        }
        let has_forgotten = seq.is_none_or(|seq| seq < Position::of(self.session.outbox()).dropped);
        self.world.gaps_may_be_late |= has_forgotten && self.world.logs.has_patterns();
        let id = self.attach(kind, seq);
        assert_eq!(self.session.phase(), Phase::Attached(id));
        self.begin_poll(kind, seq);
        self.wraps = kind == ConnectionKind::Events;
        self.client.link = Some(Link::new(id, kind, seq));
        (self.ping_requested, self.ping_leaving, self.last_pong_frame) = (None, None, 0);
        self.begin_to_hold(kind);
        self.carry_out_outputs();
    }

    /// Leaves the outputs to the caller, which knows by then whether there is a new connection.
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

    pub(super) fn claim_the_future(&mut self) {
        self.pass_to_now();
        let before = (Position::of(self.session.outbox()), self.session.phase());
        let seq = self.session.outbox().seq() + self.rng.random_range(1..4);
        self.attach(ConnectionKind::Stream(Heartbeat::Frame), Some(seq));
        assert_eq!(before, (Position::of(self.session.outbox()), self.session.phase()), "refused");
        assert_eq!(self.session.poll_output(), None);
        self.coverage.met("refused future");
    }

    // The end.
}
