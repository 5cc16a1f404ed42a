//! The watchdog of a supervisor, which wants to hear that the process is well.

use std::sync::Arc;
use std::time::Duration;

use crate::client::Context;
use crate::systemd::Supervisor;

/// How often it is told within the time in which it must be.
const TOLD_WITHIN: u32 = 2;

/// How often it is tried again within that time after it was not told.
const TRIED_WITHIN: u32 = 16;

/// Tells the supervisor that the process is well, at least twice `within` the time in which it wants to hear that. Nothing is told while
/// the server is not healthy; and nothing of this happens unless the wheel turns, the workers act on what expires, and the runtime
/// runs tasks, since all of these are needed to come back from a sleep.
pub(crate) async fn feed(
    supervisor: Supervisor,
    within: Duration,
    context: Arc<Context>,
    stalled_after: Duration,
) {
    let mut is_told = true;
    loop {
        let was_told = is_told;
        is_told = match context.health(stalled_after) {
            Ok(()) => match supervisor.alive().await {
                Ok(()) => true,
                Err(error) => {
                    if was_told {
                        tracing::warn!(%error, "the supervisor's watchdog (NOTIFY_SOCKET) cannot be told; trying on");
                    }
                    false
                }
            },
            Err(stalled) => {
                if was_told {
                    tracing::error!(?stalled, "not healthy: the supervisor's watchdog is told nothing");
                }
                false
            }
        };
        context.timeouts.sleep(within / if is_told { TOLD_WITHIN } else { TRIED_WITHIN }).await;
    }
}
