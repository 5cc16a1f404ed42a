//! A client that connects during the attack, to see whether the server admits it. After the attack, the
//! client fetches the messages that the healthy session published.

use std::ops::ControlFlow;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::healthy::{Healthy, HealthyEvent, HealthyProtocol, dialer};
use crate::record::{Highest, Metrics};
use crate::result::millis;
use crate::scenario::Setup;

/// Index of the source address 127.0.0.3, used if the server is on loopback.
const VISITOR_ADDRESS: u8 = 2;
/// How long to wait for missing history.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct AttackVisitor {
    /// 1 if the visitor was admitted, 0 if not.
    admitted: Highest,
    connect_ms: Highest,
    history_expected: Highest,
    history_received: Highest,
}

#[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
impl AttackVisitor {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let metrics = metrics.below("visitor");
        let names = ["admitted", "connect_ms", "history_expected", "history_received"];
        let [admitted, connect_ms, history_expected, history_received] =
            names.map(|name| metrics.highest(name));
        Self { admitted, connect_ms, history_expected, history_received }
    }

    pub(super) async fn connect(&self, setup: &Setup) {
        let start = Instant::now();
        let opened = dialer(setup, VISITOR_ADDRESS).open(None).await;
        self.connect_ms.record(millis(start.elapsed()));
        self.admitted.record(f64::from(u8::from(opened.is_ok())));
        match opened {
            Ok((connection, _)) => connection.close().await,
            Err(failure) => setup.failures.record(&failure),
        }
    }

    /// Counts the messages that the healthy session's channel still has. Only messages that no per-channel
    /// limit removes are expected.
    pub(super) async fn fetch_history(&self, setup: &Setup, healthy: &Healthy) {
        let Some((position, expected)) = healthy.history().filter(|(_, expected)| *expected > 0) else {
            return;
        };
        self.history_expected.record(expected as f64);
        self.history_received.record(0.0);
        let Ok((mut connection, _)) = dialer(setup, VISITOR_ADDRESS).open(None).await else { return };
        let protocol = HealthyProtocol::new(setup.load.server.target, &healthy.channel);
        let Some(subscribe) = protocol.subscribe(Some(&position)) else { return };
        connection.send(&subscribe).await;
        let last = position.offset + expected;
        let mut received = 0_u64;
        let read = connection.each(|event| {
            let Some(HealthyEvent::Arrived { offset, .. }) = protocol.decode(event) else {
                return ControlFlow::Continue(());
            };
            // Ignore later messages, which are published during this read.
            received += u64::from(offset <= last);
            self.history_received.record(received as f64);
            if offset >= last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        // Messages that did not arrive are missing from the count.
        let _ = timeout(GRACE, read).await;
        connection.close().await;
    }
}
