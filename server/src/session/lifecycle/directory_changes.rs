//! Changes of sessions that the directory has to know, if several servers share their sessions.

use std::sync::Arc;

use encke_core::close::CloseCode;
use encke_core::session::{Input, Output, Phase};

use super::step::Lifecycle;
use super::step_in_progress::Step;
use crate::session::channels::SubscribedChannel;
use crate::session::table::{DirectoryWrites, SessionCell, SessionState};

impl Lifecycle {
    /// Returns the queue of sessions whose records have to be written.
    pub(crate) fn directory_writes(&self) -> Arc<DirectoryWrites> {
        self.writes.clone().unwrap_or_default()
    }

    /// Records a change of phase for the directory.
    pub(super) fn note_phase(
        &self,
        session: &SessionCell,
        state: &mut SessionState,
        step: &mut Step<'_>,
        after: Phase,
    ) {
        let (Some(writes), Some(shared)) = (&self.writes, state.shared_mut()) else { return };
        let end = step.outputs.iter().find_map(|output| match output {
            Output::Event(event) if event.transition.is_end() => Some(*event),
            _ => None,
        });
        if let Some(end) = end {
            // Before the session is queued: the directory may confirm the end at any time after that.
            writes.add_ended(self.table.clone_handle(session), end);
            step.reports_end_later = true;
        }
        let has_event = step.outputs.iter().any(|output| matches!(output, Output::Event(_)));
        let had_client = step.before.has_client();
        shared.was_attached = after == Phase::Moved && had_client && !has_event;
        let is_owner = shared.phase_changed(session.reference(), step.before, after);
        if end.is_some() && !is_owner {
            // Only the next owner can end the session.
            drop(writes.take_ended(session.id()));
        }
    }

    /// Closes the connection of a session that another server owns or has ended, and removes the session without an
    /// event.
    pub(crate) fn fence(&self, session: &SessionCell, code: CloseCode) {
        self.handle(session, Input::Fence(code));
        self.forget(session);
    }

    /// Removes a session that has moved to another server.
    pub(crate) fn forget(&self, session: &SessionCell) {
        if !session.is_listed() || session.phase() != Phase::Moved {
            return;
        }
        let identity = session.identity();
        self.table.remove(session, &identity);
        let subscriptions: Option<Vec<SubscribedChannel>> = self.table.change(session, |state| {
            if let Some(online) = &self.online {
                online.remove(session.reference(), state);
            }
            self.suspended.remove(state);
            state.machine.outbox_mut().clear().collect()
        });
        for subscription in subscriptions.iter().flatten() {
            self.subscriptions.complete_unsubscribe(subscription);
        }
        self.metrics.sessions.left(Phase::Moved);
    }
}
