//! What an observer knows of a session from its inputs and outputs, and what must be true of it.

use super::{Known, Run, millis};
use crate::Timestamp;
use crate::close::SuspendReason;
use crate::session::{
    Attach, ConnectionKind, Deadline, LifecycleEvent, Output, Phase, ResumeKind, Transition,
};

impl Run {
    /// The slow way: by the definition.
    pub(super) fn expected_window_end(&self) -> Timestamp {
        let window = self.timeouts.reconnect_window;
        let heard = self.last_received_at.max(self.left_at);
        (heard + window).min(self.left_at + window * 2)
    }

    /// Looks at the outputs of an attach: those of what was due come first.
    pub(super) fn replaced_by(&mut self, attach: &Attach) {
        let is_poll = matches!(attach.kind, ConnectionKind::Poll { .. });
        let mut resumed = false;
        let outputs: Vec<Output> = std::iter::from_fn(|| self.session.poll_output()).collect();
        let (mine, others): (Vec<_>, Vec<_>) =
            outputs.into_iter().partition(|it| *it == Output::AnswerPoll(attach.connection));
        for output in others {
            if let Output::Event(LifecycleEvent { transition: Transition::Resumed(_), .. }) = output {
                assert!(
                    self.known == Known::Suspended || !(self.polls && is_poll),
                    "the next poll is no event"
                );
                resumed = true;
            }
            self.observe(output);
        }
        let goes_on = matches!(self.known, Known::Attached | Known::Between) && self.polls && is_poll;
        assert!(resumed || goes_on, "{attach:?}");
        assert_eq!(self.held, None, "the poll before was answered, or was told of its end");
        self.known = Known::Attached;
        self.attached(attach);
        mine.into_iter().for_each(|output| self.observe(output));
    }

    pub(super) fn observe_all(&mut self) {
        while let Some(output) = self.session.poll_output() {
            self.observe(output);
        }
    }

    pub(super) fn check(&mut self) {
        self.observe_all();
        let phase = match self.session.phase() {
            Phase::Attached(_) => Known::Attached,
            Phase::BetweenPolls => Known::Between,
            Phase::Suspended => Known::Suspended,
            Phase::Moved => unreachable!("nobody told it to move"),
            Phase::Closed(_) => Known::Over,
        };
        assert_eq!(self.known, phase, "the events tell every transition");
        self.check_deadlines(phase);
        self.session.handle_timeout(millis(self.latest));
        if let Some((at, deadline)) = self.session.next_deadline() {
            assert!(at > millis(self.latest), "{deadline:?} missed");
        }
        self.observe_all();
    }

    fn check_deadlines(&self, phase: Known) {
        for (_, deadline) in self.session.deadlines() {
            let allowed = match deadline {
                Deadline::Ping | Deadline::Pong => phase == Known::Attached && !self.polls,
                Deadline::PollHold => phase == Known::Attached,
                Deadline::PollGap => phase == Known::Between,
                Deadline::Token => matches!(phase, Known::Attached | Known::Between),
                Deadline::Reconnect => phase == Known::Suspended,
                Deadline::Idle | Deadline::Lifetime => phase != Known::Over,
            };
            assert!(allowed, "{deadline:?} armed while {phase:?}");
        }
        for ahead in [0, 100, 5_000] {
            let by = millis(self.latest + ahead);
            // The slow way: one by one.
            let is_heartbeat = |deadline| matches!(deadline, Deadline::Ping | Deadline::Pong);
            let alone = self.session.deadlines().all(|(at, deadline)| is_heartbeat(deadline) || at > by);
            assert_eq!(self.session.has_only_heartbeat(by), alone, "by {by:?}");
        }
        let armed = |wanted| self.session.deadlines().find(|(_, deadline)| *deadline == wanted);
        let is_armed = |wanted| armed(wanted).is_some();
        assert!(
            !(is_armed(Deadline::Ping) && is_armed(Deadline::Pong)),
            "a ping is outstanding or it is not"
        );
        assert_eq!(is_armed(Deadline::Reconnect), phase == Known::Suspended, "every suspension ends");
        assert_eq!(is_armed(Deadline::PollGap), phase == Known::Between, "every pause ends");
        assert_eq!(armed(Deadline::PollHold).map(|(at, _)| at), self.hold_due, "every hold ends");
        if let Some((at, _)) = armed(Deadline::Reconnect) {
            assert_eq!(at, self.window_end);
        }
        if let Some((at, _)) = armed(Deadline::PollGap) {
            assert!(at <= self.expected_window_end(), "a pause does not outlast the window");
        }
    }

    fn observe(&mut self, output: Output) {
        match output {
            Output::Event(event) => self.observe_event(event),
            Output::Ping(connection) => {
                assert_eq!(self.known, Known::Attached, "only a connection can be asked");
                assert!(!self.ping_requested, "one ping at a time");
                assert!(connection.0 <= self.connections);
                self.ping_requested = true;
            }
            Output::Fired(deadline, due) => {
                assert!(due <= millis(self.latest), "{deadline:?} early");
                if deadline == Deadline::PollHold {
                    assert_eq!(self.hold_due.take(), Some(due), "not early, and once");
                }
            }
            Output::AnswerPoll(connection)
            | Output::Superseded(connection)
            | Output::Close(connection, _)
                if self.polls =>
            {
                assert_eq!(self.held.take(), Some(connection), "{output:?} is all that a poll hears");
                self.hold_due = None;
            }
            Output::Superseded(_) => panic!("a stream is replaced"),
            Output::AnswerPoll(_) | Output::Probe(_) | Output::Close(..) | Output::RoundTrip(_) => {}
        }
    }

    fn observe_event(&mut self, event: LifecycleEvent) {
        self.events += 1;
        assert_eq!(event.number, self.events);
        let next = match (self.known, event.transition) {
            (Known::Nothing, Transition::Opened) => Known::Attached,
            (Known::Attached, Transition::Suspended(reason)) => {
                if reason == SuspendReason::PongTimeout {
                    let sent = self.ping_sent_at.expect("none is given up without a ping");
                    assert!(
                        self.last_received_at < sent,
                        "received at {:?}, sent at {sent:?}",
                        self.last_received_at
                    );
                }
                Known::Suspended
            }
            (Known::Between, Transition::Suspended(reason)) => {
                let reasons =
                    [SuspendReason::PollGap, SuspendReason::TokenExpired, SuspendReason::Disconnected];
                assert!(reasons.contains(&reason), "{reason:?} between polls");
                Known::Suspended
            }
            (Known::Suspended, Transition::Resumed(ResumeKind::Reconnect)) => Known::Attached,
            (Known::Attached | Known::Between, Transition::Resumed(ResumeKind::TakeOver)) => Known::Attached,
            (Known::Suspended, Transition::Expired) => Known::Over,
            (Known::Attached | Known::Between | Known::Suspended, Transition::Closed(_)) => Known::Over,
            (known, transition) => panic!("{transition:?} after {known:?}"),
        };
        if next == Known::Suspended {
            if self.known == Known::Attached {
                self.left_at = millis(self.latest);
            }
            self.window_end = self.expected_window_end();
        }
        if next != Known::Attached {
            assert_eq!(self.held, None, "a poll that is held hears of the end");
            self.hold_due = None;
        }
        if next != self.known || matches!(event.transition, Transition::Resumed(_)) {
            self.ping_requested = false;
            self.ping_sent_at = None;
        }
        self.known = next;
    }
}
