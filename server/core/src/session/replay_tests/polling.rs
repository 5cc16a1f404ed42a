//! Polls of the run: what is taken is one answer, which arrives whole or not at all.

use super::*;
use crate::session::Request;

/// What happened to the last poll, as the server knows it.
#[derive(Debug, Default)]
pub(super) struct Polls {
    /// The poll that is to be answered even if there is nothing.
    asked: Option<ConnectionId>,
    /// What was taken for the current poll.
    answer: Vec<Frame>,
    /// The last connection was a poll, whose answer has reached the kernel.
    answered: bool,
    /// How far the last connection came, when the next one came.
    sent: u64,
    /// The poll whose answer the client has not read.
    unread: Option<ConnectionId>,
    /// The poll whose answer has nothing new under a seq, and which the client has not read. If it never does, that cannot be told from an answer that has
    /// arrived, since the client asks for the same.
    only_told: Option<ConnectionId>,
    /// What polls have said, the last one last.
    said: Vec<u64>,
}

impl Polls {
    pub(super) fn ask(&mut self, id: ConnectionId) {
        self.asked = Some(id);
    }

    pub(super) fn take(&mut self, frames: impl IntoIterator<Item = Frame>) {
        self.answer.extend(frames);
    }

    /// A connection has come.
    fn begin(&mut self) {
        (self.asked, self.answered) = (None, false);
        self.answer.clear();
    }
}

fn is_poll(kind: ConnectionKind) -> bool {
    matches!(kind, ConnectionKind::Poll { .. })
}

impl Run<'_> {
    pub(super) fn is_polling(&self) -> bool {
        is_poll(self.kind)
    }

    /// A poll's task: it takes what is to be sent, and answers if that is something, or if it is time.
    pub(super) fn serve_poll(&mut self, id: ConnectionId) {
        for _ in 0..self.rng.random_range(1..4) {
            let at_most = if self.rng.random() { 100 } else { self.rng.random_range(1..6) };
            if !self.send(id, at_most) {
                break;
            }
        }
        let is_due = !self.polls.answer.is_empty() || self.polls.asked == Some(id);
        if is_due && self.rng.random_bool(0.7) {
            self.answer(id);
        }
    }

    fn answer(&mut self, id: ConnectionId) {
        let frames = std::mem::take(&mut self.polls.answer);
        let what = if frames.is_empty() { "poll answered empty" } else { "poll answered" };
        self.coverage.met(what);
        let (fails, arrives) = (self.rng.random_bool(0.1), self.rng.random_bool(0.85));
        if fails {
            self.on(id, ConnectionInput::Ended(SuspendReason::ConnectionLost));
            self.coverage.met("answer failed");
        } else {
            let pause = Duration::from_millis(self.rng.random_range(0..100));
            self.on(id, ConnectionInput::Answered { pause });
            self.polls.answered = true;
            self.polls.unread = (!frames.is_empty()).then_some(id);
        }
        let had = self.client.page.seq;
        let is_new = |frame: &Frame| matches!(frame, Frame::Message { seq, .. } | Frame::Gap { seq, .. } if *seq > had);
        let tells = frames.iter().any(|frame| matches!(frame, Frame::Notice { .. }));
        if !fails && tells && !frames.iter().any(is_new) {
            self.polls.only_told = Some(id);
        }
        // What has failed for the server may have arrived all the same.
        self.arrive(id, if arrives { Some(frames) } else { None });
    }

    /// The answer of this poll, or the end of its connection, comes to the client.
    fn arrive(&mut self, id: ConnectionId, frames: Option<Vec<Frame>>) {
        let Some(link) = self.client.link.as_mut().filter(|link| link.id == id) else { return };
        match frames {
            Some(frames) => {
                link.network.extend(frames);
                link.answered = true;
            }
            None => {
                self.coverage.met("answer lost");
                self.client.link = None;
            }
        }
    }

    /// The client reads the whole answer, and has no connection then. False if it waits for one.
    pub(super) fn read_answer(&mut self) -> bool {
        let Some(link) = self.client.link.as_ref().filter(|link| link.answered) else { return false };
        if self.polls.unread == Some(link.id) {
            self.polls.unread = None;
        }
        if self.polls.only_told == Some(link.id) {
            self.polls.only_told = None;
        }
        while self.client.machine_reads(&self.world, self.coverage) {}
        while self.client.page_reads(&self.world, self.coverage) {}
        self.client.link = None;
        true
    }

    /// Clients poll again soon.
    pub(super) fn poll_again(&mut self) {
        if self.is_polling() && self.client.link.is_none() && self.rng.random_bool(0.4) {
            let kind = random_poll(&mut self.rng);
            self.connect(kind);
        }
    }

    /// Before a new connection: a client that says no seq relies on what the server knows of the last. So this is told by now.
    pub(super) fn settle_last_poll(&mut self) {
        self.pass_to_now();
        if self.polls.only_told.take().is_some() {
            (self.world.begins_may_be_missing, self.world.ends_may_be_missing) = (true, true);
        }
        let Some(unread) = self.polls.unread.take() else { return };
        if self.client.at_most_once && !matches!(self.session.phase(), Phase::Attached(_)) {
            self.on(unread, ConnectionInput::AnswerLost);
            self.polls.answered = false;
            self.coverage.met("answer lost late");
        }
    }

    /// What a client that says no seq may be told after this.
    pub(super) fn presume(&mut self) {
        let unacked = self.session.outbox().unacked();
        self.polls.sent = self.session.outbox().sent();
        if !self.polls.answered && unacked > 0 {
            self.world.gaps_allowed = true;
            self.coverage.met("answer that may be swallowed");
        }
    }

    /// A connection was accepted.
    pub(super) fn begin_poll(&mut self, kind: ConnectionKind, seq: Option<u64>) {
        if self.client.at_most_once && self.polls.answered {
            let now = Position::of(self.session.outbox());
            assert_eq!(now.dropped, self.polls.sent, "the next connect empties the ring of what was sent");
        }
        self.kind = kind;
        self.polls.begin();
        if let (true, Some(seq)) = (is_poll(kind), seq) {
            self.polls.said.push(seq);
        }
    }

    /// A poll that was under way for long arrives now: its client has given it up, and may even have polled since.
    pub(super) fn late_poll(&mut self) {
        if !self.is_polling() || (self.client.at_most_once && self.polls.unread.is_some()) {
            return;
        }
        self.settle_last_poll();
        let older = self.polls.said.iter().rev().nth(1).copied();
        let seq = if self.client.at_most_once { None } else { older };
        if seq.is_none() {
            self.presume();
        }
        if seq.is_some_and(|seq| seq < Position::of(self.session.outbox()).dropped) {
            // The ring had no room for it. From here on a client that says no seq is told more than it has lost.
            self.world.gaps_allowed = true;
            self.coverage.met("late poll older than the ring");
        }
        // A page that has gone back is spoken for by what it was.
        self.must_tell_seq |= seq.is_some_and(|seq| seq > self.client.page.seq);
        let kind = random_poll(&mut self.rng);
        let before = std::mem::take(&mut self.polls.answer);
        let last = self.connections;
        let id = self.attach(kind, seq);
        assert_eq!(self.session.phase(), Phase::Attached(id));
        self.begin_poll(kind, seq);
        self.carry_out_outputs();
        self.coverage.met("late poll");
        if !before.is_empty() {
            // Its task goes on writing.
            let arrives: bool = self.rng.random();
            self.arrive(ConnectionId(last), arrives.then_some(before));
            self.coverage.met("poll overtaken while it is answered");
        }
    }

    /// A command beside the connection, or without one.
    pub(super) fn request(&mut self) {
        self.pass_to_now();
        let request = match self.rng.random_range(0..3) {
            0 if !self.client.at_most_once => Request::Ack { seq: self.client.page.seq },
            1 => Request::Command,
            _ => Request::Heard,
        };
        if self.session.phase() == Phase::BetweenPolls {
            self.coverage.met("request between polls");
        }
        let before = Position::of(self.session.outbox());
        self.handle(Input::Request(request));
        let after = Position::of(self.session.outbox());
        assert_eq!((before.seq, before.sent), (after.seq, after.sent), "a request takes nothing");
    }
}

pub(super) fn random_poll(rng: &mut SmallRng) -> ConnectionKind {
    let hold = if rng.random_bool(0.2) { 0 } else { rng.random_range(1..900) };
    ConnectionKind::Poll { hold: Duration::from_millis(hold) }
}
