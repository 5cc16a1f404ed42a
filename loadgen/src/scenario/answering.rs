//! Common behaviour of connections: they answer pings until the server unexpectedly closes them.

use std::rc::Rc;

use encke_client::{ClientConnection, ClientEvent};

use crate::record::{Counter, Metrics};

#[derive(Debug)]
pub(super) struct Answering {
    pub(super) unexpected_closes: Counter,
}

impl Answering {
    pub(super) fn new(metrics: &Metrics) -> Rc<Self> {
        Rc::new(Self { unexpected_closes: metrics.counter("unexpected_closes") })
    }

    /// Holds a connection until the run is over.
    pub(super) async fn stay(self: Rc<Self>, mut connection: ClientConnection) {
        self.answer(&mut connection, |_| {}).await;
    }

    /// Answers until the server ends the connection, and records the end as unexpected.
    pub(super) async fn answer(
        &self,
        connection: &mut ClientConnection,
        on_event: impl FnMut(ClientEvent<'_>),
    ) {
        connection.listen(on_event).await;
        self.unexpected_closes.increment();
    }
}
