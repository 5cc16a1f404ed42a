//! Publishes every message when it is due, whether or not the server keeps up.

use std::ops::ControlFlow;
use std::rc::Rc;

use serde_json::Value;
use tokio::time::sleep_until;

use super::schedule::Schedule;
use crate::args::PublishBy;
use crate::client::Admin;
use crate::client::{ChannelReader, Received};
use crate::client::{Connection, Event};
use crate::client::{Failure, Failures};
use crate::record::Counter;
use crate::scenario::Setup;
use crate::transport::websocket::End;

/// How to publish.
pub(super) enum Publisher {
    Connection(Connection),
    Admin(Admin),
}

/// What to publish, and where the replies are counted.
pub(super) struct Work<'a> {
    pub(super) channel: String,
    pub(super) schedule: &'a Schedule,
    pub(super) reader: &'a ChannelReader,
    /// Messages that the server confirmed.
    pub(super) published: &'a Counter,
    pub(super) failures: &'a Failures,
}

impl Publisher {
    pub(super) async fn open(options: &crate::args::ChannelLoad, setup: &Rc<Setup>) -> Result<Self, Failure> {
        match (options.publisher, &options.server.cost.admin) {
            (PublishBy::Admin, Some(url)) => {
                Ok(Self::Admin(Admin::new(url.clone(), options.server.cost.api_key.as_deref())?))
            }
            (PublishBy::Admin | PublishBy::Ws, _) => {
                setup.dialer.open(None).await.map(|(connection, _)| Self::Connection(connection))
            }
        }
    }

    /// Returns when everything is published and answered, or nothing more can be.
    pub(super) async fn run(self, work: Work<'_>) {
        match self {
            Self::Connection(connection) => work.over_websocket(connection).await,
            Self::Admin(admin) => work.over_admin_api(admin).await,
        }
    }
}

impl Work<'_> {
    fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        (0..).take(self.schedule.len())
    }

    /// Sends commands without waiting for their replies, which are read meanwhile.
    async fn over_websocket(&self, mut connection: Connection) {
        let mut unanswered = 0_u64;
        for number in self.numbers() {
            let due = sleep_until(self.schedule.due(number));
            // Not biased: a publisher that is late must read, too, or the server stops reading.
            tokio::select! {
                () = due => {}
                end = self.listen(&mut connection, &mut unanswered) => return self.gone(end),
            }
            let data = self.schedule.data(number);
            let id = u64::from(number) + 1;
            unanswered += 1;
            self.schedule.note_start(number);
            connection.publish(id, &self.channel, &data).await;
        }
        while unanswered > 0 {
            if let Err(end) = connection.each(|event| self.receive(event, &mut unanswered)).await {
                return self.gone(end);
            }
        }
    }

    /// Reads replies until the connection ends.
    async fn listen(&self, connection: &mut Connection, unanswered: &mut u64) -> End {
        loop {
            if let Err(end) = connection.each(|event| self.receive(event, unanswered)).await {
                return end;
            }
        }
    }

    /// Breaks after each reply.
    fn receive(&self, event: Event<'_>, unanswered: &mut u64) -> ControlFlow<()> {
        let Event::Text(text) = event else { return ControlFlow::Continue(()) };
        let Received::Reply(error) = self.reader.read(text) else { return ControlFlow::Continue(()) };
        *unanswered = unanswered.saturating_sub(1);
        match error {
            None => self.published.increment(),
            Some(code) => self.failures.record(&Failure::Publish(code.into_owned())),
        }
        ControlFlow::Break(())
    }

    fn gone(&self, end: End) {
        self.failures.record(&Failure::PublisherGone(end.to_string()));
    }

    /// One call after the other: a late call delays the next one, which latencies show.
    async fn over_admin_api(&self, mut admin: Admin) {
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
