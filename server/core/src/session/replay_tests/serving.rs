//! The server of a run, which carries out the session's outputs and writes what the outbox contains.

use super::*;

impl ReplayRun<'_> {
    pub(super) fn carry_out_outputs(&mut self) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Ping(id) => self.ping_requested = Some(id),
                Output::Probe(id) => {
                    self.session.handle(millis(self.now_ms), Input::Connection(id, ConnectionInput::Probed))
                }
                Output::Close(id, code) => {
                    if code == crate::close::CloseCode::PongTimeout {
                        self.coverage.record("pong timeout");
                    }
                    if self.client.link.as_ref().is_some_and(|link| link.id == id) {
                        self.cut();
                    }
                }
                Output::AnswerPoll(id) if self.is_polling() => self.polls.request_answer(id),
                Output::AnswerPoll(id) => self.reply(id),
                Output::Superseded(id) => {
                    self.coverage.record("poll superseded");
                    if self.client.link.as_ref().is_some_and(|link| link.id == id) {
                        self.client.link = None;
                    }
                }
                Output::Event(_) | Output::Fired(..) | Output::RoundTrip(_) => {}
            }
        }
    }

    /// Runs a connection's task: takes messages, writes pings, and reports the pings as sent.
    pub(super) fn serve(&mut self) {
        let Phase::Attached(id) = self.session.phase() else { return };
        if self.is_polling() {
            return self.serve_poll(id);
        }
        for _ in 0..self.rng.random_range(1..4) {
            if self.rng.random_bool(0.3) {
                self.write_ping();
            }
            if self.rng.random_bool(0.3) {
                self.report_ping_sent();
            }
            let at_most = if self.rng.random() { 100 } else { self.rng.random_range(1..6) };
            if !self.send(id, at_most) {
                break;
            }
            self.maybe_reply(id);
        }
    }

    /// Takes one turn. Returns false if no subscription has a turn.
    pub(super) fn send(&mut self, id: ConnectionId, at_most: usize) -> bool {
        let frames = self.world.take(self.session.outbox_mut(), at_most, self.wraps, self.coverage);
        let Some(frames) = frames else {
            let outbox = self.session.outbox();
            let unread = |it: &server_world::Subscription| {
                !it.caught_up && it.cursor < self.world.logs.bounds(it.log).last
            };
            if outbox.unacked() == self.max_unacked && self.world.live().any(|(_, it)| unread(it)) {
                assert!(!self.wraps, "the server does not wait for acknowledgements that cannot arrive");
                self.coverage.record("full ring stopped");
            }
            return false;
        };
        self.check();
        self.write(id, frames);
        self.on(id, ConnectionInput::Sent);
        if matches!(self.kind, ConnectionKind::Stream(_))
            && self.session.outbox().unacked() * 2 >= self.max_unacked
        {
            let is_outstanding = self.session.deadlines().any(|(_, deadline)| deadline == Deadline::Pong);
            assert!(
                self.session.is_writing_ping() || is_outstanding,
                "the acknowledgement was requested in time"
            );
        }
        true
    }

    /// Sends the frames to the client, if it still has this connection.
    pub(super) fn write(&mut self, id: ConnectionId, frames: impl IntoIterator<Item = WireFrame>) {
        if self.is_polling() {
            self.polls.take(frames);
        } else if let Some(link) = self.client.link.as_mut().filter(|link| link.id == id) {
            link.network.extend(frames);
        }
    }

    pub(super) fn write_ping(&mut self) -> bool {
        let Some(id) = self.ping_requested.take() else { return false };
        if self.session.phase() != Phase::Attached(id) {
            return false;
        }
        let seq = self.session.outbox().sent();
        self.write(id, [WireFrame::Ping { seq }]);
        self.ping_leaving = Some(seq);
        true
    }

    pub(super) fn report_ping_sent(&mut self) {
        if let (Some(seq), Phase::Attached(id)) = (self.ping_leaving.take(), self.session.phase()) {
            self.on(id, ConnectionInput::PingSent { seq });
        }
    }

    pub(super) fn server_reads(&mut self) {
        let count = self.rng.random_range(1..4);
        for _ in 0..count {
            let Some(link) = &mut self.client.link else { return };
            let id = link.id;
            let Some(input) = link.to_server.pop_front() else { return };
            self.receive(id, input);
        }
    }

    pub(super) fn receive(&mut self, id: ConnectionId, input: ConnectionInput) {
        self.pass_to_now();
        if self.session.phase() != Phase::Attached(id) {
            let before = (OutboxPosition::of(self.session.outbox()), self.session.phase());
            self.on(id, input);
            assert_eq!(
                before,
                (OutboxPosition::of(self.session.outbox()), self.session.phase()),
                "{input:?}"
            );
            self.coverage.record("input of a replaced connection");
            return;
        }
        self.report_ping_sent();
        let sent = self.session.outbox().sent();
        match input {
            ConnectionInput::PongFrame { seq } | ConnectionInput::PongMessage { seq } if seq < sent => {
                self.coverage.record("late pong");
            }
            ConnectionInput::PongFrame { .. } => self.coverage.record("frame pong"),
            ConnectionInput::PongMessage { .. } => self.coverage.record("message pong"),
            ConnectionInput::Ack { seq } if seq > sent => {
                self.coverage.record("ack of a seq not sent on this connection");
            }
            ConnectionInput::Hold { seq, .. } => self.record_hold(seq),
            _ => {}
        }
        self.session.received(millis(self.now_ms));
        let before = OutboxPosition::of(self.session.outbox());
        let released = self.released;
        self.on(id, input);
        let may_drop_to = match input {
            ConnectionInput::Ack { seq } | ConnectionInput::PongMessage { seq } => seq,
            ConnectionInput::PongFrame { seq } if self.client.at_most_once => seq,
            ConnectionInput::PongFrame { seq } => std::mem::replace(&mut self.last_pong_frame, seq),
            ConnectionInput::Hold { seq: Some(seq), .. } => {
                self.last_pong_frame = seq;
                seq
            }
            ConnectionInput::Hold { seq: None, .. } => released,
            _ => 0,
        };
        let dropped = OutboxPosition::of(self.session.outbox()).dropped;
        assert!(
            dropped <= before.dropped.max(may_drop_to),
            "{input:?} does not acknowledge this much: {dropped}"
        );
    }

    pub(super) fn deliver_late_input(&mut self) {
        if let Some((id, input)) = self.late.pop_front() {
            self.receive(id, input);
        }
    }
}
