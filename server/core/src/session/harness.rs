//! Test harness: a session bundled with its owner's timeouts and output queue.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

use super::outbox::LogHandle;
use super::{
    Attach, BadRecord, Deadline, Input, Outbox, Output, Outputs, Session, SessionRecord, SessionTimeouts,
    StepContext,
};
use crate::Timestamp;

pub(super) struct SessionHarness<C = ()> {
    session: Session<C>,
    timeouts: SessionTimeouts,
    outputs: VecDeque<Output>,
}

impl<C> SessionHarness<C> {
    pub(super) fn open(
        now: Timestamp,
        timeouts: &SessionTimeouts,
        outbox: Outbox<C>,
        attach: Attach,
    ) -> Self {
        let mut outputs = Outputs::new();
        let session =
            Session::open(&mut StepContext { now, timeouts, outputs: &mut outputs }, outbox, attach);
        Self { session, timeouts: timeouts.clone(), outputs: outputs.into_iter().collect() }
    }

    pub(super) fn restore(
        now: Timestamp,
        timeouts: &SessionTimeouts,
        record: &SessionRecord,
        outbox: Outbox<C>,
    ) -> Result<Self, BadRecord> {
        let session = Session::restore(now, record, outbox)?;
        Ok(Self { session, timeouts: timeouts.clone(), outputs: VecDeque::new() })
    }

    pub(super) fn restore_attached(
        now: Timestamp,
        timeouts: &SessionTimeouts,
        record: &SessionRecord,
        outbox: Outbox<C>,
    ) -> Result<Self, BadRecord> {
        let session = Session::restore_attached(now, record, outbox, timeouts)?;
        Ok(Self { session, timeouts: timeouts.clone(), outputs: VecDeque::new() })
    }

    pub(super) fn handle(&mut self, now: Timestamp, input: Input) {
        self.step(now, |session, step| session.handle(step, input));
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        self.step(now, Session::handle_timeout);
    }

    pub(super) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    pub(super) fn next_deadline(&self) -> Option<(Timestamp, Deadline)> {
        self.session.next_deadline(&self.timeouts)
    }

    pub(super) fn deadlines(&self) -> impl Iterator<Item = (Timestamp, Deadline)> {
        self.session.deadlines(&self.timeouts)
    }

    pub(super) fn has_only_heartbeat(&self, by: Timestamp) -> bool {
        self.session.has_only_heartbeat(&self.timeouts, by)
    }

    fn step(&mut self, now: Timestamp, act: impl FnOnce(&mut Session<C>, &mut StepContext<'_>)) {
        let mut outputs = Outputs::new();
        act(&mut self.session, &mut StepContext { now, timeouts: &self.timeouts, outputs: &mut outputs });
        self.outputs.extend(outputs);
    }
}

impl<C: LogHandle> SessionHarness<C> {
    pub(super) fn snapshot(&self) -> Option<SessionRecord> {
        self.session.snapshot(&self.timeouts)
    }
}

impl<C> Deref for SessionHarness<C> {
    type Target = Session<C>;

    fn deref(&self) -> &Session<C> {
        &self.session
    }
}

impl<C> DerefMut for SessionHarness<C> {
    fn deref_mut(&mut self) -> &mut Session<C> {
        &mut self.session
    }
}
