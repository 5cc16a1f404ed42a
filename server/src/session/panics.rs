//! Panics while a session is being changed: only that session ends.
//!
//! A panic is caught while the session's lock is still held, so no other thread sees the half-changed state.
//! The session is closed by an ordinary step, which closes its connection with
//! [`Internal`](encke_core::close::CloseCode::Internal) and releases all that the session has. The thread that
//! made the change continues: it may be a worker, a poller thread, or one that publishes to the session.

use std::panic::{AssertUnwindSafe, catch_unwind};

use encke_core::session::{Phase, StepContext};

use super::cell::{SessionCell, SessionState, StateGuard};
use super::sessions::Sessions;
use super::step::Step;
#[cfg(all(test, feature = "simulation"))]
use crate::fail_point::{self, FailPoint};

/// Returns the result, or `None` if `act` panics. The panic hook has logged the panic by then.
#[inline]
pub(super) fn unless_panicked<R>(act: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(act)).ok()
}

impl SessionCell {
    /// Makes a change that needs no step, because it affects neither the session's phase nor its deadlines.
    /// If the change panics, `end` must [end](Sessions::end_half_changed) the session.
    #[inline]
    pub(super) fn change<R>(
        &self,
        act: impl FnOnce(&mut SessionState) -> R,
        end: impl FnOnce(StateGuard<'_>),
    ) -> Option<R> {
        let mut state = self.lock();
        let result = unless_panicked(|| {
            let result = act(&mut state);
            #[cfg(all(test, feature = "simulation"))]
            fail_point::reach(FailPoint::SessionChange);
            result
        });
        if result.is_none() {
            end(state);
        }
        result
    }
}

impl Sessions {
    /// Ends a session after a panic in a change that was not a step.
    #[cold]
    pub(super) fn end_half_changed(&self, session: &SessionCell, state: StateGuard<'_>) {
        let step = Step::begin(session, &state, self.timeouts.clock().now());
        self.end_panicked(state, step);
    }

    /// Ends a session after a panic in a step.
    #[cold]
    pub(super) fn end_panicked(&self, mut state: StateGuard<'_>, mut step: Step<'_>) {
        step.outputs.clear();
        // The connection may have been unparked during the step, which gives it a new mailbox.
        let mailbox = state.mailbox.take().filter(|mailbox| step.before == Phase::Attached(mailbox.id));
        step.mailbox = mailbox.or(step.mailbox);
        let (mut outbox, before) = (None, step.before);
        let abandon = |state: &mut SessionState, context: &mut StepContext<'_>| {
            outbox = Some(state.machine.abandon(context, before));
        };
        _ = unless_panicked(|| self.change(&mut state, &mut step, abandon));
        drop(state);
        let session = step.session;
        tracing::error!(session = %session.id(), "panic while a session was being changed; the session is closed");
        _ = unless_panicked(|| self.finish(&mut step, std::task::Waker::wake));
        let identity = session.identity();
        // The outbox may be inconsistent. If it has lost a subscription, the channel still has the subscriber,
        // but finds no session to notify.
        _ = unless_panicked(|| {
            for subscription in outbox.into_iter().flat_map(|mut outbox| outbox.clear()) {
                self.enqueue_leave(session, &identity, &subscription.channel);
                self.complete_unsubscribe(&subscription);
            }
        });
        // This has no effect unless the session had already ended before the panic.
        self.remove(session, &identity);
    }
}
