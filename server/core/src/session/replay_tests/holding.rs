//! Streams whose clients ask, again and again, to be answered when there is something new.

use super::*;

impl Run<'_> {
    /// The client of a new stream may ask from the start.
    pub(super) fn begin_to_hold(&mut self, kind: ConnectionKind) {
        self.released = 0;
        let holds = self.allowed.holds && matches!(kind, ConnectionKind::Stream(_)) && self.rng.random();
        if holds && let Some(link) = &mut self.client.link {
            link.holds = true;
            self.client.ask();
        }
    }

    /// What a request asks for, before the machine has it.
    pub(super) fn note_hold(&mut self, seq: Option<u64>) {
        let dropped = Position::of(self.session.outbox()).dropped;
        if seq.is_some_and(|seq| seq < dropped) {
            // Its machine has answered for what the page has not read yet.
            self.world.gaps_allowed = true;
        }
        if seq.is_some_and(|seq| seq < self.session.outbox().sent()) {
            self.coverage.met("stream goes back");
        }
    }

    pub(super) fn reply_sometimes(&mut self, id: ConnectionId) {
        let is_held = self.session.deadlines().any(|(_, deadline)| deadline == Deadline::PollHold);
        if is_held && self.rng.random() {
            self.reply(id);
        }
    }

    /// Answers the request that a stream holds, behind all that was taken so far.
    pub(super) fn reply(&mut self, id: ConnectionId) {
        self.write(id, [Frame::Reply]);
        self.released = self.session.outbox().sent();
        self.on(id, ConnectionInput::Released);
        self.coverage.met("stream's request answered");
    }
}
