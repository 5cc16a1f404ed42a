use std::panic::{AssertUnwindSafe, catch_unwind};

use encke_core::session::LifecycleEvent;

use crate::session::{EventSink, SessionId};

/// Told of every lifecycle event.
///
/// An expiry is reported by a worker thread: a slow hook delays the other expiries of the same batch. What a client or an
/// administrator did is reported by a thread of the runtime, which must not be blocked. No lock is held. Two threads
/// may report two events of one session at once: [`LifecycleEvent::number`] orders them.
pub trait Hooks: Send + Sync + 'static {
    /// Something happened to a session. `user` is the `sub` of its client's token, if it has one.
    fn session_event(&self, session: SessionId, user: Option<&str>, event: LifecycleEvent);

    /// A client has said something to the server's own code, on a channel below `/service/`. `data` is JSON. Returns whether it is
    /// taken; if not, the client is told so. Called by a thread of the runtime, which must not be blocked.
    fn service_message(&self, _session: SessionId, _user: Option<&str>, _channel: &str, _data: &str) -> bool {
        false
    }
}

/// No hooks.
#[derive(Clone, Copy, Debug)]
pub struct NoHooks;

impl Hooks for NoHooks {
    fn session_event(&self, _: SessionId, _: Option<&str>, _: LifecycleEvent) {}
}

/// Passes events and messages on to hooks, whose panics end here.
pub(crate) struct HookSink(pub(crate) Box<dyn Hooks>);

impl EventSink for HookSink {
    fn session_event(&self, session: SessionId, user: Option<&str>, event: LifecycleEvent) {
        if catch_unwind(AssertUnwindSafe(|| self.0.session_event(session, user, event))).is_err() {
            tracing::error!(%session, user, name = event.transition.name(), "a hook panicked");
        }
    }

    fn service_message(&self, session: SessionId, user: Option<&str>, channel: &str, data: &str) -> bool {
        let call = || self.0.service_message(session, user, channel, data);
        catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
            tracing::error!(%session, user, channel, "a hook panicked");
            false
        })
    }
}
