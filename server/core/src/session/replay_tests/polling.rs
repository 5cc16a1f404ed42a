//! The polls of a run. An answer arrives completely or not at all.

use super::*;
use crate::session::RequestInput;

/// The last poll, from the server's point of view.
#[derive(Debug, Default)]
pub(super) struct PollModel {
    /// Poll that must be answered even if there are no messages.
    answer_requested: Option<ConnectionId>,
    /// Frames taken for the current poll.
    answer: Vec<WireFrame>,
    /// Whether the last connection was a poll whose answer has reached the kernel.
    answered: bool,
    /// Last seq sent on the last connection when the next one began.
    sent: u64,
    /// Poll whose answer the client has not read.
    unread: Option<ConnectionId>,
    /// Poll whose answer contains notices but no new seq, and has not been read by the client. The server
    /// cannot notice the loss of such an answer, since the client repeats the same request as if the answer
    /// had arrived.
    only_notices: Option<ConnectionId>,
    /// Seqs reported by polls, oldest first.
    reported_seqs: Vec<u64>,
}

impl PollModel {
    pub(super) fn request_answer(&mut self, id: ConnectionId) {
        self.answer_requested = Some(id);
    }

    pub(super) fn take(&mut self, frames: impl IntoIterator<Item = WireFrame>) {
        self.answer.extend(frames);
    }

    /// Resets the state for a new connection.
    fn begin(&mut self) {
        (self.answer_requested, self.answered) = (None, false);
        self.answer.clear();
    }
}

fn is_poll(kind: ConnectionKind) -> bool {
    matches!(kind, ConnectionKind::Poll { .. })
}

impl ReplayRun<'_> {
    pub(super) fn is_polling(&self) -> bool {
        is_poll(self.kind)
    }

    /// Runs a poll's task: takes messages, and answers the poll if there are any or if an answer is due.
    pub(super) fn serve_poll(&mut self, id: ConnectionId) {
        for _ in 0..self.rng.random_range(1..4) {
            let at_most = if self.rng.random() { 100 } else { self.rng.random_range(1..6) };
            if !self.send(id, at_most) {
                break;
            }
        }
        let is_due = !self.polls.answer.is_empty() || self.polls.answer_requested == Some(id);
        if is_due && self.rng.random_bool(0.7) {
            self.answer(id);
        }
    }

    fn answer(&mut self, id: ConnectionId) {
        let frames = std::mem::take(&mut self.polls.answer);
        let what = if frames.is_empty() { "poll answered empty" } else { "poll answered" };
        self.coverage.record(what);
        let (fails, arrives) = (self.rng.random_bool(0.1), self.rng.random_bool(0.85));
        if fails {
            self.on(id, ConnectionInput::Ended(SuspendReason::ConnectionLost));
            self.coverage.record("answer failed");
        } else {
            let pause = Duration::from_millis(self.rng.random_range(0..100));
            self.on(id, ConnectionInput::Answered { pause });
            self.polls.answered = true;
            self.polls.unread = (!frames.is_empty()).then_some(id);
        }
        let had = self.client.page.seq;
        let is_new = |frame: &WireFrame| matches!(frame, WireFrame::Message { seq, .. } | WireFrame::Gap { seq, .. } if *seq > had);
        let has_notice = frames.iter().any(|frame| matches!(frame, WireFrame::Notice { .. }));
        if !fails && has_notice && !frames.iter().any(is_new) {
            self.polls.only_notices = Some(id);
        }
        // An answer that failed from the server's point of view may still have arrived.
        self.arrive(id, if arrives { Some(frames) } else { None });
    }

    /// Delivers the answer to this poll, or the end of its connection, to the client.
    fn arrive(&mut self, id: ConnectionId, frames: Option<Vec<WireFrame>>) {
        let Some(link) = self.client.link.as_mut().filter(|link| link.id == id) else { return };
        match frames {
            Some(frames) => {
                link.network.extend(frames);
                link.answered = true;
            }
            None => {
                self.coverage.record("answer lost");
                self.client.link = None;
            }
        }
    }

    /// Lets the client read the whole answer, which ends its poll. Returns false if there is no answer.
    pub(super) fn read_answer(&mut self) -> bool {
        let Some(link) = self.client.link.as_ref().filter(|link| link.answered) else { return false };
        if self.polls.unread == Some(link.id) {
            self.polls.unread = None;
        }
        if self.polls.only_notices == Some(link.id) {
            self.polls.only_notices = None;
        }
        while self.client.machine_reads(&self.world, self.coverage) {}
        while self.client.page_reads(&self.world, self.coverage) {}
        self.client.link = None;
        true
    }

    /// Lets the client poll again, as clients usually do soon.
    pub(super) fn maybe_poll_again(&mut self) {
        if self.is_polling() && self.client.link.is_none() && self.rng.random_bool(0.4) {
            let kind = random_poll(&mut self.rng);
            self.connect(kind);
        }
    }

    /// Settles the outcome of the last poll before a new connection: for a client that reports no seq, the
    /// server must know by then whether the answer was lost.
    pub(super) fn settle_last_poll(&mut self) {
        self.pass_to_now();
        if self.polls.only_notices.take().is_some() {
            (self.world.begin_notices_may_be_missing, self.world.end_notices_may_be_missing) = (true, true);
        }
        let Some(unread) = self.polls.unread.take() else { return };
        if self.client.at_most_once && !matches!(self.session.phase(), Phase::Attached(_)) {
            self.on(unread, ConnectionInput::AnswerLost);
            self.polls.answered = false;
            self.coverage.record("answer lost late");
        }
    }

    /// Determines whether a client that reports no seq may now get gaps.
    pub(super) fn presume_delivery(&mut self) {
        let unacked = self.session.outbox().unacked();
        self.polls.sent = self.session.outbox().sent();
        if !self.polls.answered && unacked > 0 {
            self.world.gaps_allowed = true;
            self.coverage.record("answer that may be lost");
        }
    }

    /// Records a new connection that was accepted.
    pub(super) fn begin_poll(&mut self, kind: ConnectionKind, seq: Option<u64>) {
        if self.client.at_most_once && self.polls.answered {
            let now = OutboxPosition::of(self.session.outbox());
            assert_eq!(now.dropped, self.polls.sent, "the next connection acknowledges everything sent");
        }
        self.kind = kind;
        self.polls.begin();
        if let (true, Some(seq)) = (is_poll(kind), seq) {
            self.polls.reported_seqs.push(seq);
        }
    }

    /// Delivers a poll that was delayed. Its client has abandoned it, and may have polled again in the
    /// meantime.
    pub(super) fn deliver_late_poll(&mut self) {
        if !self.is_polling() || (self.client.at_most_once && self.polls.unread.is_some()) {
            return;
        }
        self.settle_last_poll();
        let older = self.polls.reported_seqs.iter().rev().nth(1).copied();
        let seq = if self.client.at_most_once { None } else { older };
        if seq.is_none() {
            self.presume_delivery();
        }
        if seq.is_some_and(|seq| seq < OutboxPosition::of(self.session.outbox()).dropped) {
            // The ring had no room for the entry. As a result, gaps for a client that reports no seq may
            // cover more than the client has lost.
            self.world.gaps_allowed = true;
            self.coverage.record("late poll older than the ring");
        }
        // If the page has gone back, this poll reports the seq of its earlier state.
        self.must_report_seq |= seq.is_some_and(|seq| seq > self.client.page.seq);
        let kind = random_poll(&mut self.rng);
        let before = std::mem::take(&mut self.polls.answer);
        let last = self.connections;
        let id = self.attach(kind, seq);
        assert_eq!(self.session.phase(), Phase::Attached(id));
        self.begin_poll(kind, seq);
        self.carry_out_outputs();
        self.coverage.record("late poll");
        if !before.is_empty() {
            // The task of the replaced poll continues writing.
            let arrives: bool = self.rng.random();
            self.arrive(ConnectionId(last), arrives.then_some(before));
            self.coverage.record("poll replaced while being answered");
        }
    }

    /// Sends a command outside the connection.
    pub(super) fn request(&mut self) {
        self.pass_to_now();
        let request = match self.rng.random_range(0..3) {
            0 if !self.client.at_most_once => RequestInput::Ack { seq: self.client.page.seq },
            1 => RequestInput::Command,
            _ => RequestInput::Activity,
        };
        if self.session.phase() == Phase::BetweenPolls {
            self.coverage.record("request between polls");
        }
        let before = OutboxPosition::of(self.session.outbox());
        self.handle(Input::Request(request));
        let after = OutboxPosition::of(self.session.outbox());
        assert_eq!(
            (before.seq, before.sent),
            (after.seq, after.sent),
            "a request takes nothing from the outbox"
        );
    }
}

pub(super) fn random_poll(rng: &mut SmallRng) -> ConnectionKind {
    let hold = if rng.random_bool(0.2) { 0 } else { rng.random_range(1..900) };
    ConnectionKind::Poll { hold: Duration::from_millis(hold) }
}
