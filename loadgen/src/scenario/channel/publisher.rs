//! Publishes every message when it is due, regardless of whether the server keeps up.

use std::ops::ControlFlow;

use encke_client::{AdminClient, ClientConnection, ClientEvent, ClientFailure, ConnectionEnd, Received};
use serde_json::Value;
use tokio::time::sleep_until;

use super::schedule::Schedule;
use super::subscribers::SubscriberGroup;
use crate::args::{ChannelLoad, PublishBy};
use crate::failures::Failures;
use crate::scenario::Setup;

pub(in crate::scenario) enum ChannelPublisher {
    Connection(ClientConnection),
    Admin(AdminClient),
}

impl ChannelPublisher {
    pub(in crate::scenario) async fn open(
        options: &ChannelLoad,
        setup: &Setup,
    ) -> Result<Self, ClientFailure> {
        match admin_client(options)? {
            Some(admin) => Ok(Self::Admin(admin)),
            None => setup.dialer.open(None).await.map(|(connection, _)| Self::Connection(connection)),
        }
    }
}

/// Returns the client of the admin API, if messages are published there.
pub(in crate::scenario) fn admin_client(options: &ChannelLoad) -> Result<Option<AdminClient>, ClientFailure> {
    let cost = &options.server.cost;
    let url = cost.admin.clone().filter(|_| options.publisher == PublishBy::Admin);
    url.map(|url| AdminClient::new(url, cost.api_key.as_deref(), &cost.tls)).transpose()
}

impl SubscriberGroup {
    /// Publishes the messages. Returns when everything is published and answered, or when publishing cannot
    /// continue.
    pub(in crate::scenario) async fn publish(
        &self,
        publisher: ChannelPublisher,
        schedule: &Schedule,
        failures: &Failures,
    ) {
        match publisher {
            ChannelPublisher::Connection(connection) => {
                if let Err(end) = self.publish_over_connection(connection, schedule, failures).await {
                    failures.record(&ClientFailure::PublisherGone(end.to_string()));
                }
            }
            ChannelPublisher::Admin(admin) => self.publish_over_admin_api(admin, schedule, failures).await,
        }
    }

    /// Sends commands without waiting for their replies, and reads the replies in between.
    async fn publish_over_connection(
        &self,
        mut connection: ClientConnection,
        schedule: &Schedule,
        failures: &Failures,
    ) -> Result<(), ConnectionEnd> {
        let mut unanswered = 0_u64;
        for number in schedule.numbers() {
            // Not biased: a delayed publisher must still read, or the server stops reading.
            tokio::select! {
                () = sleep_until(schedule.due(number)) => {}
                end = self.read_replies(&mut connection, &mut unanswered, false, failures) => return end,
            }
            unanswered += 1;
            schedule.note_start(number);
            connection.publish(u64::from(number) + 1, &self.channel, &schedule.data(number)).await;
        }
        self.read_replies(&mut connection, &mut unanswered, true, failures).await
    }

    /// Counts replies until the connection ends. With `until_all_answered`, also returns when no publish is
    /// unanswered.
    async fn read_replies(
        &self,
        connection: &mut ClientConnection,
        unanswered: &mut u64,
        until_all_answered: bool,
        failures: &Failures,
    ) -> Result<(), ConnectionEnd> {
        if until_all_answered && *unanswered == 0 {
            return Ok(());
        }
        let read = connection.each(|event| {
            let ClientEvent::Text(text) = event else { return ControlFlow::Continue(()) };
            let Received::Reply(error) = self.reader.read(text) else { return ControlFlow::Continue(()) };
            *unanswered = unanswered.saturating_sub(1);
            match error {
                None => self.published.increment(),
                Some(code) => failures.record(&ClientFailure::Publish(code.into_owned())),
            }
            if until_all_answered && *unanswered == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        read.await
    }

    /// Makes one call after the other. A slow call delays the next one, which shows in the latencies.
    async fn publish_over_admin_api(&self, mut admin: AdminClient, schedule: &Schedule, failures: &Failures) {
        let channel = Value::from(self.channel.as_str());
        for number in schedule.numbers() {
            sleep_until(schedule.due(number)).await;
            let data = schedule.data(number);
            schedule.note_start(number);
            match admin.publish(format!(r#"{{"channel":{channel},"data":{data}}}"#)).await {
                Ok(()) => self.published.increment(),
                Err(failure) => failures.record(&failure),
            }
        }
    }
}
