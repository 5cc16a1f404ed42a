use std::panic::{AssertUnwindSafe, catch_unwind};

use encke_core::session::LifecycleEvent;

use crate::session::{EventSink, SessionId};

/// Receives every lifecycle event.
///
/// Expiries are reported by a worker thread: a slow hook delays the other expiries of the same batch. Events
/// caused by clients or administrators are reported by a runtime thread, which must not block. No lock is
/// held during a call. Two threads may report events of the same session concurrently:
/// [`LifecycleEvent::number`] gives their order.
pub trait Hooks: Send + Sync + 'static {
    /// Called for each event of a session. `user` is the `sub` claim of the client's token, if present.
    fn session_event(&self, session: SessionId, user: Option<&str>, event: LifecycleEvent);

    /// Called when a client publishes to a channel below `/service/`, which is addressed to the server's own
    /// code. `data` is JSON. Returns whether the message is accepted; if not, the client receives an error.
    /// Called by a runtime thread, which must not block.
    fn service_message(&self, _session: SessionId, _user: Option<&str>, _channel: &str, _data: &str) -> bool {
        false
    }
}

/// Hooks that ignore every event.
#[derive(Clone, Copy, Debug)]
pub struct NoHooks;

impl Hooks for NoHooks {
    fn session_event(&self, _: SessionId, _: Option<&str>, _: LifecycleEvent) {}
}

/// Forwards events and messages to the hooks and catches their panics.
pub(crate) struct HookSink(pub(crate) Box<dyn Hooks>);

impl EventSink for HookSink {
    fn session_event(&self, session: SessionId, user: Option<&str>, event: LifecycleEvent) {
        if catch_unwind(AssertUnwindSafe(|| self.0.session_event(session, user, event))).is_err() {
            tracing::error!(%session, user, name = event.transition.name(), "hook panicked; the server continues");
        }
    }

    fn service_message(&self, session: SessionId, user: Option<&str>, channel: &str, data: &str) -> bool {
        let call = || self.0.service_message(session, user, channel, data);
        catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
            tracing::error!(%session, user, channel, "hook panicked; the server continues");
            false
        })
    }
}
