//! Publishes every message when it is due, regardless of whether the server keeps up.

use std::ops::ControlFlow;
use std::rc::Rc;

use serde_json::Value;
use tokio::time::sleep_until;

use super::schedule::Schedule;
use crate::args::PublishBy;
use crate::client::AdminClient;
use crate::client::{ChannelReader, Received};
use crate::client::{ClientConnection, ClientEvent};
use crate::client::{ClientFailure, Failures};
use crate::record::Counter;
use crate::scenario::Setup;
use crate::transport::websocket::ConnectionEnd;

/// Connection used to publish.
pub(super) enum ChannelPublisher {
    Connection(ClientConnection),
    Admin(AdminClient),
}

/// Messages to publish, and the counters for the replies.
pub(super) struct PublishJob<'a> {
    pub(super) channel: String,
    pub(super) schedule: &'a Schedule,
    pub(super) reader: &'a ChannelReader,
    /// Messages that the server confirmed.
    pub(super) published: &'a Counter,
    pub(super) failures: &'a Failures,
}

impl ChannelPublisher {
    pub(super) async fn open(
        options: &crate::args::ChannelLoad,
        setup: &Rc<Setup>,
    ) -> Result<Self, ClientFailure> {
        match (options.publisher, &options.server.cost.admin) {
            (PublishBy::Admin, Some(url)) => {
                Ok(Self::Admin(AdminClient::new(url.clone(), options.server.cost.api_key.as_deref())?))
            }
            (PublishBy::Admin | PublishBy::Ws, _) => {
                setup.dialer.open(None).await.map(|(connection, _)| Self::Connection(connection))
            }
        }
    }

    /// Publishes the messages. Returns when everything is published and answered, or when publishing cannot
    /// continue.
    pub(super) async fn run(self, work: PublishJob<'_>) {
        match self {
            Self::Connection(connection) => work.over_websocket(connection).await,
            Self::Admin(admin) => work.over_admin_api(admin).await,
        }
    }
}

impl PublishJob<'_> {
    fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        (0..).take(self.schedule.len())
    }

    /// Sends commands without waiting for their replies, and reads the replies in between.
    async fn over_websocket(&self, mut connection: ClientConnection) {
        let mut unanswered = 0_u64;
        for number in self.numbers() {
            let due = sleep_until(self.schedule.due(number));
            // Not biased: a delayed publisher must still read, or the server stops reading.
            tokio::select! {
                () = due => {}
                end = self.listen(&mut connection, &mut unanswered) => return self.record_loss(end),
            }
            let data = self.schedule.data(number);
            let id = u64::from(number) + 1;
            unanswered += 1;
            self.schedule.note_start(number);
            connection.publish(id, &self.channel, &data).await;
        }
        while unanswered > 0 {
            if let Err(end) = connection.each(|event| self.receive(event, &mut unanswered)).await {
                return self.record_loss(end);
            }
        }
    }

    /// Reads replies until the connection ends.
    async fn listen(&self, connection: &mut ClientConnection, unanswered: &mut u64) -> ConnectionEnd {
        loop {
            if let Err(end) = connection.each(|event| self.receive(event, unanswered)).await {
                return end;
            }
        }
    }

    /// Counts a reply. Breaks after each reply.
    fn receive(&self, event: ClientEvent<'_>, unanswered: &mut u64) -> ControlFlow<()> {
        let ClientEvent::Text(text) = event else { return ControlFlow::Continue(()) };
        let Received::Reply(error) = self.reader.read(text) else { return ControlFlow::Continue(()) };
        *unanswered = unanswered.saturating_sub(1);
        match error {
            None => self.published.increment(),
            Some(code) => self.failures.record(&ClientFailure::Publish(code.into_owned())),
        }
        ControlFlow::Break(())
    }

    fn record_loss(&self, end: ConnectionEnd) {
        self.failures.record(&ClientFailure::PublisherGone(end.to_string()));
    }

    /// Makes one call after the other. A slow call delays the next one, which shows in the latencies.
    async fn over_admin_api(&self, mut admin: AdminClient) {
        let channel = Value::from(self.channel.as_str());
        for number in self.numbers() {
            sleep_until(self.schedule.due(number)).await;
            let data = self.schedule.data(number);
            self.schedule.note_start(number);
            match admin.publish(format!(r#"{{"channel":{channel},"data":{data}}}"#)).await {
                Ok(()) => self.published.increment(),
                Err(failure) => self.failures.record(&failure),
            }
        }
    }
}
