//! Runs a publisher, which publishes its messages in order, and repeats each one until the server has
//! confirmed it.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use encke_client::{
    AdminClient, ChannelReader, ClientConnection, ClientEvent, ClientFailure, ConnectionEnd, Received, Ticket,
};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::{Restart, RestartChannel};
use crate::args::ChannelLoad;
use crate::scenario::channel::admin_client;
use crate::scenario::{OpenedConnection, Setup};

/// Delay before an unconfirmed message is published again.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// Error codes after which a message is published again. Either nothing was done, or the outcome is unknown
/// and the key makes repeating safe. A publisher that was disconnected has many messages due at the same
/// time, possibly more than the server's rate limit allows.
const RETRYABLE_CODES: [&str; 5] =
    ["draining", "unavailable", "overloaded", "outcome_unknown", "rate_limited"];

#[derive(Debug)]
pub(super) enum RestartPublisher {
    Session(Box<PublisherSession>),
    Admin(Box<AdminClient>),
}

/// Publishes with the commands of a session, which outlives its connections.
#[derive(Debug)]
pub(super) struct PublisherSession {
    /// The current connection. `None` only while the publisher reconnects: the old connection is dropped
    /// first, because the server waits for the end of a connection that it has closed.
    connection: Option<ClientConnection>,
    ticket: Ticket,
    retry: Option<Duration>,
    reader: ChannelReader,
}

impl RestartPublisher {
    pub(super) async fn open(options: &ChannelLoad, setup: &Rc<Setup>) -> Result<Self, ClientFailure> {
        if let Some(admin) = admin_client(options)? {
            return Ok(Self::Admin(Box::new(admin)));
        }
        let (connection, greeting) = setup.dialer.open(None).await?;
        // No channel name is needed: a publisher reads only replies, which name no channel.
        let reader = ChannelReader::new(options.server.target, "");
        let connection = Some(connection);
        let session = PublisherSession { connection, ticket: greeting.ticket, retry: None, reader };
        Ok(Self::Session(Box::new(session)))
    }
}

impl Restart {
    /// Publishes the messages of these channels when they are due, one after the other.
    pub(super) async fn publish(
        self: Rc<Self>,
        setup: Rc<Setup>,
        mut publisher: RestartPublisher,
        channels: Vec<Rc<RestartChannel>>,
    ) {
        let schedules: Vec<_> =
            channels.iter().filter_map(|it| Some((it, it.round.schedule.get()?))).collect();
        let longest = schedules.iter().map(|(_, schedule)| schedule.len()).max().unwrap_or(0);
        for number in (0..).take(longest) {
            for (channel, schedule) in &schedules {
                self.wait_until(&setup, &mut publisher, schedule.due(number)).await;
                schedule.note_start(number);
                // With a key, the server publishes a repeated message only once.
                let (data, key) = (schedule.data(number), schedule.key(number));
                let channel = Value::from(&*channel.name);
                let message = format!(r#"{{"channel":{channel},"data":{data},"key":"{key}"}}"#);
                if self.publish_until_confirmed(&setup, &mut publisher, &message).await {
                    self.subscribers.published.increment();
                    let (due, start) = (schedule.due(number), schedule.start_of(number));
                    self.publish.record(due, start, Instant::now());
                }
            }
        }
        self.finished.increment();
        // Read until the run is over, because the publisher's session must resume, too.
        loop {
            self.wait_until(&setup, &mut publisher, Instant::now() + Duration::from_secs(1)).await;
        }
    }

    /// Publishes a message, the body of a request to the admin API, until it is confirmed or refused. Returns
    /// whether the server confirmed it. A refusal is recorded.
    async fn publish_until_confirmed(
        &self,
        setup: &Rc<Setup>,
        publisher: &mut RestartPublisher,
        message: &str,
    ) -> bool {
        loop {
            let published = match publisher {
                RestartPublisher::Session(session) => self.publish_on_session(setup, session, message).await,
                RestartPublisher::Admin(admin) => admin.publish(message.to_owned()).await,
            };
            match published {
                Ok(()) => return true,
                Err(ClientFailure::Publish(code)) if RETRYABLE_CODES.contains(&code.as_str()) => {}
                // The server may or may not have read the request.
                Err(ClientFailure::PublisherGone(_)) => {}
                Err(failure) => {
                    setup.failures.record(&failure);
                    return false;
                }
            }
            self.repeated.increment();
            self.wait_until(setup, publisher, Instant::now() + RETRY_DELAY).await;
        }
    }

    async fn publish_on_session(
        &self,
        setup: &Rc<Setup>,
        session: &mut PublisherSession,
        message: &str,
    ) -> Result<(), ClientFailure> {
        if let Some(connection) = &mut session.connection {
            connection.send(&format!(r#"{{"id":1,"publish":{message}}}"#)).await;
        }
        match session.reply().await {
            Ok(None) => Ok(()),
            Ok(Some(code)) => Err(ClientFailure::Publish(code)),
            Err(end) => {
                self.reconnect_session(setup, session, end).await;
                Err(ClientFailure::PublisherGone(end.to_string()))
            }
        }
    }

    /// Reads until `due`, and reconnects if the connection ends.
    async fn wait_until(&self, setup: &Rc<Setup>, publisher: &mut RestartPublisher, due: Instant) {
        let RestartPublisher::Session(session) = publisher else { return sleep_until(due).await };
        loop {
            let end = tokio::select! {
                () = sleep_until(due) => return,
                end = session.read_to_end() => end,
            };
            self.reconnect_session(setup, session, end).await;
        }
    }

    async fn reconnect_session(&self, setup: &Rc<Setup>, session: &mut PublisherSession, end: ConnectionEnd) {
        let retry = session.retry.take();
        session.connection = None;
        let opened = Box::pin(self.reconnect(setup, end, &session.ticket, retry)).await;
        let OpenedConnection { connection, greeting, .. } = opened;
        session.connection = Some(connection);
        session.ticket = greeting.ticket;
    }
}

impl PublisherSession {
    /// Waits for the next reply. Returns the error code if the reply is an error.
    async fn reply(&mut self) -> Result<Option<String>, ConnectionEnd> {
        let Self { connection, retry, reader, .. } = self;
        let Some(connection) = connection else { return Err(ConnectionEnd::NoCloseFrame) };
        let read = connection.each(|event| {
            let ClientEvent::Text(text) = event else { return ControlFlow::Continue(()) };
            match reader.read(text) {
                Received::Reply(error) => ControlFlow::Break(error.map(Cow::into_owned)),
                Received::Goaway { retry: said } => {
                    *retry = Some(said);
                    ControlFlow::Continue(())
                }
                _ => ControlFlow::Continue(()),
            }
        });
        read.await
    }

    /// Reads until the connection ends. No reply is expected.
    async fn read_to_end(&mut self) -> ConnectionEnd {
        loop {
            if let Err(end) = self.reply().await {
                return end;
            }
        }
    }
}
