//! The server of the run: it does what the machine decides, and writes what the outbox has.

use super::*;

impl Run<'_> {
    pub(super) fn carry_out_outputs(&mut self) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Ping(id) => self.ping_requested = Some(id),
                Output::Probe(id) => {
                    self.session.handle(millis(self.now_ms), Input::Connection(id, ConnectionInput::Probed))
                }
                Output::Close(id, code) => {
                    if code == crate::close::CloseCode::PongTimeout {
                        self.coverage.met("pong timeout");
                    }
                    if self.client.link.as_ref().is_some_and(|link| link.id == id) {
                        self.cut();
                    }
                }
                Output::AnswerPoll(id) if self.is_polling() => self.polls.ask(id),
                Output::AnswerPoll(id) => self.reply(id),
                Output::Superseded(id) => {
                    self.coverage.met("poll superseded");
                    if self.client.link.as_ref().is_some_and(|link| link.id == id) {
                        self.client.link = None;
                    }
                }
                Output::Event(_) | Output::Fired(..) | Output::RoundTrip(_) => {}
            }
        }
    }

    /// A connection's task: it takes what is to be sent, writes pings, and reports them sent.
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
                self.tell_ping_sent();
            }
            let at_most = if self.rng.random() { 100 } else { self.rng.random_range(1..6) };
            if !self.send(id, at_most) {
                break;
            }
            self.reply_sometimes(id);
        }
    }

    /// A turn. False if there was none.
    pub(super) fn send(&mut self, id: ConnectionId, at_most: usize) -> bool {
        let frames = self.world.take(self.session.outbox_mut(), at_most, self.wraps, self.coverage);
        let Some(frames) = frames else {
            let outbox = self.session.outbox();
            let unread =
                |it: &world::Subscription| !it.caught_up && it.cursor < self.world.logs.bounds(it.log).last;
            if outbox.unacked() == self.max_unacked && self.world.live().any(|(_, it)| unread(it)) {
                assert!(!self.wraps, "a client that cannot acknowledge is not waited for");
                self.coverage.met("full ring stopped");
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
            assert!(self.session.is_writing_ping() || is_outstanding, "asked in time");
        }
        true
    }

    /// To the client, if it still has this connection.
    pub(super) fn write(&mut self, id: ConnectionId, frames: impl IntoIterator<Item = Frame>) {
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
        self.write(id, [Frame::Ping { seq }]);
        self.ping_leaving = Some(seq);
        true
    }

    pub(super) fn tell_ping_sent(&mut self) {
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
            let before = (Position::of(self.session.outbox()), self.session.phase());
            self.on(id, input);
            assert_eq!(before, (Position::of(self.session.outbox()), self.session.phase()), "{input:?}");
            self.coverage.met("input of a replaced connection");
            return;
        }
        self.tell_ping_sent();
        let sent = self.session.outbox().sent();
        match input {
            ConnectionInput::PongFrame { seq } | ConnectionInput::PongMessage { seq } if seq < sent => {
                self.coverage.met("late pong");
            }
            ConnectionInput::PongFrame { .. } => self.coverage.met("frame pong"),
            ConnectionInput::PongMessage { .. } => self.coverage.met("message pong"),
            ConnectionInput::Ack { seq } if seq > sent => {
                self.coverage.met("ack of what was not sent on this connection");
            }
            ConnectionInput::Hold { seq, .. } => self.note_hold(seq),
            _ => {}
        }
        self.session.received(millis(self.now_ms));
        let before = Position::of(self.session.outbox());
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
        let dropped = Position::of(self.session.outbox()).dropped;
        assert!(dropped <= before.dropped.max(may_drop_to), "{input:?} does not say so much: {dropped}");
    }

    pub(super) fn late_input(&mut self) {
        if let Some((id, input)) = self.late.pop_front() {
            self.receive(id, input);
        }
    }
}
