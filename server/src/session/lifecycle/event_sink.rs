use std::sync::Arc;

use encke_core::session::LifecycleEvent;

use crate::session::id::SessionId;

/// Receives all lifecycle events, and messages from clients to the server's own code. Called without holding
/// locks unless stated otherwise. Implementations must not panic.
pub(crate) trait EventSink: Send + Sync + 'static {
    /// Whether [`Self::session_event_in_order`] should be called. Must always return the same value.
    fn wants_order(&self) -> bool {
        false
    }

    /// Called with every event before [`Self::session_event`], while the session's lock is held, so the
    /// events of one session arrive in order. The implementation must do no more than record the event.
    fn session_event_in_order(&self, _session: SessionId, _user: Option<&Arc<str>>, _event: LifecycleEvent) {}

    fn session_event(&self, session: SessionId, user: Option<&str>, event: LifecycleEvent);

    /// Handles a service message. Returns whether the message was accepted.
    fn service_message(&self, _session: SessionId, _user: Option<&str>, _channel: &str, _data: &str) -> bool {
        false
    }
}
