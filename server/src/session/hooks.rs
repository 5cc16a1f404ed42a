use encke_core::session::LifecycleEvent;

use super::SessionId;

/// Told of every lifecycle event.
///
/// For an expiry that is a worker thread, and a slow hook delays the expiries in the same message; for what a client or
/// an administrator did it is a thread of the runtime, which must not be blocked. No lock is held. Two events of
/// one session may be told by two threads at once: [`LifecycleEvent::number`] orders them.
pub trait Hooks: Send + Sync + 'static {
    /// Something happened to a session.
    fn session_event(&self, session: SessionId, event: LifecycleEvent);
}

/// No hooks.
#[derive(Clone, Copy, Debug)]
pub struct NoHooks;

impl Hooks for NoHooks {
    fn session_event(&self, _: SessionId, _: LifecycleEvent) {}
}
