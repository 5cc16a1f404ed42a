//! State that an observer can derive from a session's inputs and outputs, and the invariants that must hold.

use super::{ObservedPhase, RandomRun, millis};
use crate::Timestamp;
use crate::close::SuspendReason;
use crate::session::{
    Attach, ConnectionKind, Deadline, LifecycleEvent, Output, Phase, ResumeKind, Transition,
};

impl RandomRun {
    /// Computes the end of the reconnect window from its definition, independently of the session.
    pub(super) fn expected_window_end(&self) -> Timestamp {
        let window = self.timeouts.reconnect_window;
        let last_activity = self.last_received_at.max(self.detached_at);
        (last_activity + window).min(self.detached_at + window * 2)
    }

    /// Observes the outputs of an attach. The outputs of due deadlines come first.
    pub(super) fn replaced_by(&mut self, attach: &Attach) {
        let is_poll = matches!(attach.kind, ConnectionKind::Poll { .. });
        let mut resumed = false;
        let outputs: Vec<Output> = std::iter::from_fn(|| self.session.poll_output()).collect();
        let (mine, others): (Vec<_>, Vec<_>) =
            outputs.into_iter().partition(|it| *it == Output::AnswerPoll(attach.connection));
        for output in others {
            if let Output::Event(LifecycleEvent { transition: Transition::Resumed(_), .. }) = output {
                assert!(
                    self.observed == ObservedPhase::Suspended || !(self.is_polling && is_poll),
                    "the next poll emits no event"
                );
                resumed = true;
            }
            self.observe(output);
        }
        let is_continuation = matches!(self.observed, ObservedPhase::Attached | ObservedPhase::Between)
            && self.is_polling
            && is_poll;
        assert!(resumed || is_continuation, "{attach:?}");
        assert_eq!(self.held_poll, None, "the previous poll got an answer");
        self.observed = ObservedPhase::Attached;
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
            Phase::Attached(_) => ObservedPhase::Attached,
            Phase::BetweenPolls => ObservedPhase::Between,
            Phase::Suspended => ObservedPhase::Suspended,
            Phase::Moved => unreachable!("there was no move"),
            Phase::Closed(_) => ObservedPhase::Over,
        };
        assert_eq!(self.observed, phase, "the events include every transition");
        self.check_deadlines(phase);
        self.session.handle_timeout(millis(self.latest));
        if let Some((at, deadline)) = self.session.next_deadline() {
            assert!(at > millis(self.latest), "{deadline:?} missed");
        }
        self.observe_all();
    }

    fn check_deadlines(&self, phase: ObservedPhase) {
        for (_, deadline) in self.session.deadlines() {
            let allowed = match deadline {
                Deadline::Ping | Deadline::Pong => phase == ObservedPhase::Attached && !self.is_polling,
                Deadline::PollHold => phase == ObservedPhase::Attached,
                Deadline::PollGap => phase == ObservedPhase::Between,
                Deadline::Token => matches!(phase, ObservedPhase::Attached | ObservedPhase::Between),
                Deadline::Reconnect => phase == ObservedPhase::Suspended,
                Deadline::Idle | Deadline::Lifetime => phase != ObservedPhase::Over,
            };
            assert!(allowed, "{deadline:?} armed while {phase:?}");
        }
        for ahead in [0, 100, 5_000] {
            let by = millis(self.latest + ahead);
            // Check the deadlines one by one for comparison.
            let is_heartbeat = |deadline| matches!(deadline, Deadline::Ping | Deadline::Pong);
            let alone = self.session.deadlines().all(|(at, deadline)| is_heartbeat(deadline) || at > by);
            assert_eq!(self.session.has_only_heartbeat(by), alone, "by {by:?}");
        }
        let armed = |wanted| self.session.deadlines().find(|(_, deadline)| *deadline == wanted);
        let is_armed = |wanted| armed(wanted).is_some();
        assert!(!(is_armed(Deadline::Ping) && is_armed(Deadline::Pong)), "Ping and Pong exclude each other");
        assert_eq!(is_armed(Deadline::Reconnect), phase == ObservedPhase::Suspended, "every suspension ends");
        assert_eq!(is_armed(Deadline::PollGap), phase == ObservedPhase::Between, "every pause ends");
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
                assert_eq!(self.observed, ObservedPhase::Attached, "only a connection can be pinged");
                assert!(!self.ping_requested, "one ping at a time");
                assert!(connection.0 <= self.connections);
                self.ping_requested = true;
            }
            Output::Fired(deadline, due) => {
                assert!(due <= millis(self.latest), "{deadline:?} early");
                if deadline == Deadline::PollHold {
                    assert_eq!(self.hold_due.take(), Some(due), "fired once and on time");
                }
            }
            Output::AnswerPoll(connection)
            | Output::Superseded(connection)
            | Output::Close(connection, _)
                if self.is_polling =>
            {
                assert_eq!(
                    self.held_poll.take(),
                    Some(connection),
                    "a poll gets a single output: {output:?}"
                );
                self.hold_due = None;
            }
            Output::Superseded(_) => panic!("a stream is replaced, not superseded"),
            Output::AnswerPoll(_) | Output::Probe(_) | Output::Close(..) | Output::RoundTrip(_) => {}
        }
    }

    fn observe_event(&mut self, event: LifecycleEvent) {
        self.events += 1;
        assert_eq!(event.number, self.events);
        let next = match (self.observed, event.transition) {
            (ObservedPhase::Nothing, Transition::Opened) => ObservedPhase::Attached,
            (ObservedPhase::Attached, Transition::Suspended(reason)) => {
                if reason == SuspendReason::PongTimeout {
                    let sent = self.ping_sent_at.expect("a pong timeout requires a ping");
                    assert!(
                        self.last_received_at < sent,
                        "received at {:?}, sent at {sent:?}",
                        self.last_received_at
                    );
                }
                ObservedPhase::Suspended
            }
            (ObservedPhase::Between, Transition::Suspended(reason)) => {
                let reasons =
                    [SuspendReason::PollGap, SuspendReason::TokenExpired, SuspendReason::Disconnected];
                assert!(reasons.contains(&reason), "{reason:?} between polls");
                ObservedPhase::Suspended
            }
            (ObservedPhase::Suspended, Transition::Resumed(ResumeKind::Reconnect)) => ObservedPhase::Attached,
            (ObservedPhase::Attached | ObservedPhase::Between, Transition::Resumed(ResumeKind::TakeOver)) => {
                ObservedPhase::Attached
            }
            (ObservedPhase::Suspended, Transition::Expired) => ObservedPhase::Over,
            (
                ObservedPhase::Attached | ObservedPhase::Between | ObservedPhase::Suspended,
                Transition::Closed(_),
            ) => ObservedPhase::Over,
            (observed, transition) => panic!("{transition:?} after {observed:?}"),
        };
        if next == ObservedPhase::Suspended {
            if self.observed == ObservedPhase::Attached {
                self.detached_at = millis(self.latest);
            }
            self.window_end = self.expected_window_end();
        }
        if next != ObservedPhase::Attached {
            assert_eq!(self.held_poll, None, "a held poll gets an answer when the session changes phase");
            self.hold_due = None;
        }
        if next != self.observed || matches!(event.transition, Transition::Resumed(_)) {
            self.ping_requested = false;
            self.ping_sent_at = None;
        }
        self.observed = next;
    }
}
