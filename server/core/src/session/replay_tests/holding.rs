//! Streams whose clients repeatedly send requests to be held until there are messages.

use super::*;

impl ReplayRun<'_> {
    /// Lets the client of a new stream send a request immediately.
    pub(super) fn maybe_hold(&mut self, kind: ConnectionKind) {
        self.released = 0;
        let holds = self.allowed.holds && matches!(kind, ConnectionKind::Stream(_)) && self.rng.random();
        if holds && let Some(link) = &mut self.client.link {
            link.holds = true;
            self.client.request_hold();
        }
    }

    /// Records the effects of a request before the state machine handles it.
    pub(super) fn record_hold(&mut self, seq: Option<u64>) {
        let dropped = OutboxPosition::of(self.session.outbox()).dropped;
        if seq.is_some_and(|seq| seq < dropped) {
            // The machine below the page has acknowledged messages that the page has not read.
            self.world.gaps_allowed = true;
        }
        if seq.is_some_and(|seq| seq < self.session.outbox().sent()) {
            self.coverage.record("stream goes back");
        }
    }

    pub(super) fn maybe_reply(&mut self, id: ConnectionId) {
        let is_held = self.session.deadlines().any(|(_, deadline)| deadline == Deadline::PollHold);
        if is_held && self.rng.random() {
            self.reply(id);
        }
    }

    /// Answers the request held on a stream, after all messages taken from the outbox so far.
    pub(super) fn reply(&mut self, id: ConnectionId) {
        self.write(id, [WireFrame::Reply]);
        self.released = self.session.outbox().sent();
        self.on(id, ConnectionInput::Released);
        self.coverage.record("stream's request answered");
    }
}
