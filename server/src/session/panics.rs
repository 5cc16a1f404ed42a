//! Panics while a session is being changed: only that session ends.
//!
//! A panic is caught while the session's lock is still held, so no other thread sees the half-changed state.
//! The session is closed by an ordinary step, which closes its connection with
//! [`Internal`](encke_core::close::CloseCode::Internal) and releases all that the session has. The thread that
//! made the change continues: it may be a worker, a poller thread, or one that publishes to the session.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the result, or `None` if `act` panics. The panic hook has logged the panic by then.
#[inline]
pub(super) fn unless_panicked<R>(act: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(act)).ok()
}
