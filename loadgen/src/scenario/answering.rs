//! Common behaviour of connections: they answer pings until the server unexpectedly closes them.

use std::convert::Infallible;
use std::ops::ControlFlow;

use crate::client::{ClientConnection, ClientEvent};
use crate::record::{ConnectionEnds, Counter};
use crate::transport::websocket::ConnectionEnd;

#[derive(Debug, Default)]
pub(super) struct Answering {
    pub(super) pings: Counter,
    pub(super) unexpected_closes: Counter,
    pub(super) ends: ConnectionEnds,
}

impl Answering {
    /// Answers until the server ends the connection, and records the end as unexpected.
    pub(super) async fn answer(
        &self,
        connection: &mut ClientConnection,
        on_event: impl FnMut(ClientEvent<'_>),
    ) {
        let Err(end) = self.listen(connection, on_event).await;
        self.record_close(end);
    }

    /// Answers until the server ends the connection.
    pub(super) fn listen(
        &self,
        connection: &mut ClientConnection,
        mut on_event: impl FnMut(ClientEvent<'_>),
    ) -> impl Future<Output = Result<Infallible, ConnectionEnd>> {
        connection.each(move |event| {
            if let ClientEvent::Ping(_) | ClientEvent::EmptyPoll(_) = event {
                self.pings.increment();
            }
            on_event(event);
            ControlFlow::Continue(())
        })
    }

    pub(super) fn record_close(&self, end: ConnectionEnd) {
        self.unexpected_closes.increment();
        self.ends.record(end);
    }
}
