//! Keep-alives for the supervisor's watchdog.

use std::sync::Arc;
use std::time::Duration;

use encke_base::process::systemd::Supervisor;

use crate::client::Services;

/// Number of keep-alives per watchdog interval.
const KEEP_ALIVES_PER_INTERVAL: u32 = 2;

/// Number of attempts per watchdog interval after a failure.
const RETRIES_PER_INTERVAL: u32 = 16;

/// Sends keep-alives to the supervisor, at least twice per watchdog interval `within`. Sends none while the
/// server is unhealthy. The keep-alives also stop by themselves if the wheel stops turning, the workers stop
/// handling expiries, or the runtime stops running tasks, because the sleep between keep-alives depends on
/// all three.
pub(crate) async fn send_keep_alives(
    supervisor: Supervisor,
    within: Duration,
    services: Arc<Services>,
    stalled_after: Duration,
) {
    let mut is_sent = true;
    loop {
        let was_sent = is_sent;
        is_sent = match services.health(stalled_after) {
            Ok(()) => match supervisor.keep_alive().await {
                Ok(()) => true,
                Err(error) => {
                    if was_sent {
                        tracing::warn!(%error, "cannot send a keep-alive to the supervisor's watchdog (NOTIFY_SOCKET); retrying");
                    }
                    false
                }
            },
            Err(stalled) => {
                if was_sent {
                    let stalled = stalled.name();
                    tracing::error!(
                        stalled,
                        "unhealthy: keep-alives to the supervisor's watchdog stop until the server recovers"
                    );
                }
                false
            }
        };
        services
            .timeouts
            .sleep(within / if is_sent { KEEP_ALIVES_PER_INTERVAL } else { RETRIES_PER_INTERVAL })
            .await;
    }
}
