//! The life of a publisher: each message once, in order, and again until the server has confirmed it.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::{Channel, Restart};
use crate::args::{ChannelLoad, PublishBy};
use crate::client::{Admin, ChannelReader, Connection, Event, Failure, Received, Ticket};
use crate::scenario::{Opened, Setup};
use crate::transport::websocket::End;

/// How long to wait before a message is published again that was refused.
const PAUSE: Duration = Duration::from_millis(50);
/// Nothing was done, or nobody knows: the key makes it safe to ask again. A publisher that was away has much to say at once, which may be more than
/// the server takes of it.
const TRY_AGAIN: [&str; 5] = ["draining", "unavailable", "overloaded", "outcome_unknown", "rate_limited"];

/// How to publish.
#[derive(Debug)]
pub(super) enum Publisher {
    Session(Box<Session>),
    Admin(Box<Admin>),
}

/// By commands of a session, which outlives its connections.
#[derive(Debug)]
pub(super) struct Session {
    /// None only while it comes back: the server waits for the end of a connection that it has closed.
    connection: Option<Connection>,
    ticket: Ticket,
    retry: Option<Duration>,
    reader: ChannelReader,
}

/// One message.
struct Message<'a> {
    id: u64,
    channel: &'a str,
    data: String,
    key: String,
}

/// What became of it.
enum Published {
    Confirmed,
    /// To be published again.
    Unclear,
    Refused(Failure),
}

impl Publisher {
    pub(super) async fn open(options: &ChannelLoad, setup: &Rc<Setup>) -> Result<Self, Failure> {
        if let (PublishBy::Admin, Some(url)) = (options.publisher, &options.server.cost.admin) {
            let admin = Admin::new(url.clone(), options.server.cost.api_key.as_deref())?;
            return Ok(Self::Admin(Box::new(admin)));
        }
        let (connection, greeting) = setup.dialer.open(None).await?;
        // Of a publisher, replies are read, and they name no channel.
        let reader = ChannelReader::of(options.server.target, "");
        let connection = Some(connection);
        let session = Session { connection, ticket: greeting.ticket, retry: None, reader };
        Ok(Self::Session(Box::new(session)))
    }
}

impl Restart {
    /// Publishes what is due in these channels, one message after the other.
    pub(super) async fn publish(
        self: Rc<Self>,
        setup: Rc<Setup>,
        mut publisher: Publisher,
        channels: Vec<Rc<Channel>>,
    ) {
        let schedules: Vec<_> = channels.iter().filter_map(|it| Some((it, it.round.schedule()?))).collect();
        let longest = schedules.iter().map(|(_, schedule)| schedule.len()).max().unwrap_or(0);
        for number in (0..).take(longest) {
            for (channel, schedule) in &schedules {
                self.wait_until(&setup, &mut publisher, schedule.due(number)).await;
                schedule.note_start(number);
                let message = Message {
                    id: u64::from(number) + 1,
                    channel: &channel.name,
                    data: schedule.data(number),
                    key: schedule.key(number),
                };
                if self.publish_until_confirmed(&setup, &mut publisher, &message).await {
                    self.subscribers.published.increment();
                    let (due, start) = (schedule.due(number), schedule.start_of(number));
                    self.publish.record(due, start, Instant::now());
                }
            }
        }
        self.finished.increment();
        // Until the run is over: the session is to come back, too.
        loop {
            self.wait_until(&setup, &mut publisher, Instant::now() + Duration::from_secs(1)).await;
        }
    }

    /// Whether it was confirmed. A refusal is recorded.
    async fn publish_until_confirmed(
        &self,
        setup: &Rc<Setup>,
        publisher: &mut Publisher,
        message: &Message<'_>,
    ) -> bool {
        loop {
            let published = match publisher {
                Publisher::Session(session) => self.say(setup, session, message).await,
                Publisher::Admin(admin) => post(admin, message).await,
            };
            match published {
                Published::Confirmed => return true,
                Published::Unclear => {
                    self.repeated.increment();
                    self.wait_until(setup, publisher, Instant::now() + PAUSE).await;
                }
                Published::Refused(failure) => {
                    setup.failures.record(&failure);
                    return false;
                }
            }
        }
    }

    async fn say(&self, setup: &Rc<Setup>, session: &mut Session, message: &Message<'_>) -> Published {
        let Message { id, channel, data, key } = message;
        if let Some(connection) = &mut session.connection {
            connection.publish_once(*id, channel, data, key).await;
        }
        match session.reply().await {
            Ok(None) => Published::Confirmed,
            Ok(Some(code)) => Published::refused(Failure::Publish(code)),
            Err(end) => {
                self.return_to(setup, session, end).await;
                Published::Unclear
            }
        }
    }

    /// Reads until then, and comes back if the connection ends.
    async fn wait_until(&self, setup: &Rc<Setup>, publisher: &mut Publisher, due: Instant) {
        let Publisher::Session(session) = publisher else { return sleep_until(due).await };
        loop {
            let end = tokio::select! {
                () = sleep_until(due) => return,
                end = session.listen() => end,
            };
            self.return_to(setup, session, end).await;
        }
    }

    async fn return_to(&self, setup: &Rc<Setup>, session: &mut Session, end: End) {
        let retry = session.retry.take();
        session.connection = None;
        let opened = Box::pin(self.come_back(setup, end, &session.ticket, retry)).await;
        let Opened { connection, greeting, .. } = opened;
        session.connection = Some(connection);
        session.ticket = greeting.ticket;
    }
}

impl Published {
    fn refused(failure: Failure) -> Self {
        match failure {
            Failure::Publish(code) if TRY_AGAIN.contains(&code.as_str()) => Self::Unclear,
            // The request may have been read, or not.
            Failure::PublisherGone(_) => Self::Unclear,
            other => Self::Refused(other),
        }
    }
}

impl Session {
    /// The next reply: an error's code if it is one.
    async fn reply(&mut self) -> Result<Option<String>, End> {
        let Self { connection, retry, reader, .. } = self;
        let Some(connection) = connection else { return Err(End::Cut) };
        let read = connection.each(|event| {
            let Event::Text(text) = event else { return ControlFlow::Continue(()) };
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
    async fn listen(&mut self) -> End {
        loop {
            if let Err(end) = self.reply().await {
                return end;
            }
        }
    }
}

async fn post(admin: &mut Admin, message: &Message<'_>) -> Published {
    let Message { channel, data, key, .. } = message;
    let (channel, key) = (Value::from(*channel), Value::from(key.as_str()));
    let published = admin.publish(format!(r#"{{"channel":{channel},"data":{data},"key":{key}}}"#)).await;
    published.map_or_else(Published::refused, |()| Published::Confirmed)
}
