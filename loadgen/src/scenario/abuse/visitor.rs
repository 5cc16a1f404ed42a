//! A client that connects during the attack, to see whether the server admits it. After the attack, the
//! client fetches the messages that the healthy session published.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::healthy::{Healthy, dialer};
use crate::client::{ChannelReader, ClientEvent, Received};
use crate::result::{Group, millis};
use crate::scenario::Setup;

/// Index of the source address 127.0.0.3, used if the server is on loopback.
const VISITOR_ADDRESS: u8 = 2;
/// How long to wait for missing history.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct AttackVisitor {
    is_admitted: Cell<Option<bool>>,
    took: Cell<Option<Duration>>,
    history_expected: Cell<Option<u64>>,
    history_received: Cell<Option<u64>>,
}

impl AttackVisitor {
    pub(super) async fn connect(&self, setup: &Setup) {
        let start = Instant::now();
        let opened = dialer(setup, VISITOR_ADDRESS).open(None).await;
        self.took.set(Some(start.elapsed()));
        self.is_admitted.set(Some(opened.is_ok()));
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
        self.history_expected.set(Some(expected));
        self.history_received.set(Some(0));
        let Ok((mut connection, _)) = dialer(setup, VISITOR_ADDRESS).open(None).await else { return };
        let channel = Value::from(healthy.channel());
        let epoch = Value::from(position.epoch.as_str());
        let since = format!(r#"{{"epoch":{epoch},"offset":{}}}"#, position.offset);
        connection.send(&format!(r#"{{"id":1,"subscribe":{{"channel":{channel},"since":{since}}}}}"#)).await;
        let reader = ChannelReader::new(healthy.channel());
        let last = position.offset + expected;
        let mut received = 0;
        let read = connection.each(|event| {
            let ClientEvent::Text(text) = event else { return ControlFlow::Continue(()) };
            let Received::Message { offset, .. } = reader.read(text) else {
                return ControlFlow::Continue(());
            };
            // Ignore later messages, which are published during this read.
            received += u64::from(offset <= last);
            self.history_received.set(Some(received));
            if offset >= last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        // Messages that did not arrive are missing from the count.
        let _ = timeout(GRACE, read).await;
        connection.close().await;
    }

    pub(super) fn outcome(&self) -> Group {
        Group::default()
            .with("admitted", self.is_admitted.get().map(u64::from))
            .with("connect_ms", self.took.get().map(millis))
            .with("history_expected", self.history_expected.get())
            .with("history_received", self.history_received.get())
    }
}
