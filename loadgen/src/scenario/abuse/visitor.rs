//! A client that connects during the attack, and is let in or not; after it, it asks for what the healthy session published.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::healthy::{Healthy, dialer};
use crate::client::{ChannelReader, Event, Received};
use crate::result::{Group, millis};
use crate::scenario::Setup;

/// 127.0.0.3, where the server is on loopback.
const VISITOR: u8 = 2;
/// How long to wait for history that is not there.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Visitor {
    is_admitted: Cell<Option<bool>>,
    took: Cell<Option<Duration>>,
    history_expected: Cell<Option<u64>>,
    history_received: Cell<Option<u64>>,
}

impl Visitor {
    pub(super) async fn come(&self, setup: &Setup) {
        let start = Instant::now();
        let opened = dialer(setup, VISITOR).open(None).await;
        self.took.set(Some(start.elapsed()));
        self.is_admitted.set(Some(opened.is_ok()));
        match opened {
            Ok((connection, _)) => connection.close().await,
            Err(failure) => setup.failures.record(&failure),
        }
    }

    /// Counts what the healthy session's channel still has, of the messages that no limit of a channel takes away.
    pub(super) async fn ask_for_history(&self, setup: &Setup, healthy: &Healthy) {
        let Some((position, expected)) = healthy.history().filter(|(_, expected)| *expected > 0) else {
            return;
        };
        self.history_expected.set(Some(expected));
        self.history_received.set(Some(0));
        let Ok((mut connection, _)) = dialer(setup, VISITOR).open(None).await else { return };
        let channel = Value::from(healthy.channel());
        let epoch = Value::from(position.epoch.as_str());
        let since = format!(r#"{{"epoch":{epoch},"offset":{}}}"#, position.offset);
        connection.send(&format!(r#"{{"id":1,"subscribe":{{"channel":{channel},"since":{since}}}}}"#)).await;
        let reader = ChannelReader::new(healthy.channel());
        let last = position.offset + expected;
        let mut received = 0;
        let read = connection.each(|event| {
            let Event::Text(text) = event else { return ControlFlow::Continue(()) };
            let Received::Message { offset, .. } = reader.read(text) else {
                return ControlFlow::Continue(());
            };
            // Later ones are published meanwhile.
            received += u64::from(offset <= last);
            self.history_received.set(Some(received));
            if offset >= last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        // What has not come is missing in the count.
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
