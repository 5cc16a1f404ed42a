//! What most connections do most of the time: answer pings, until the server ends them unasked.

use std::convert::Infallible;
use std::ops::ControlFlow;

use crate::client::{Connection, Event};
use crate::record::{Counter, Ends};
use crate::transport::websocket::End;

#[derive(Debug, Default)]
pub(super) struct Answering {
    pub(super) pings: Counter,
    pub(super) unexpected_closes: Counter,
    pub(super) ends: Ends,
}

impl Answering {
    /// Returns when the server has ended the connection, which is recorded as unexpected.
    pub(super) async fn answer(&self, connection: &mut Connection, on_event: impl FnMut(Event<'_>)) {
        let Err(end) = self.listen(connection, on_event).await;
        self.record_close(end);
    }

    /// Answers until the server ends the connection.
    pub(super) fn listen(
        &self,
        connection: &mut Connection,
        mut on_event: impl FnMut(Event<'_>),
    ) -> impl Future<Output = Result<Infallible, End>> {
        connection.each(move |event| {
            if let Event::Ping(_) | Event::Held(_) = event {
                self.pings.increment();
            }
            on_event(event);
            ControlFlow::Continue(())
        })
    }

    pub(super) fn record_close(&self, end: End) {
        self.unexpected_closes.increment();
        self.ends.record(end);
    }
}
