//! Clients that connect at a fixed rate, answer pings, and count what they receive.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use encke_client::{
    ADDRESSES, ChannelReader, ClientConnection, ClientEvent, DialOptions, Dialer, Received, Sources, Target,
    TlsOptions, Traffic,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::BenchFailure;

const CHANNEL: &str = "bench";
/// Connections opened per second.
const RATE: u32 = 2_000;
/// How often a client sends a command, if it sends any.
const COMMAND_PERIOD: Duration = Duration::from_secs(1);
/// Maximum time from the connection attempt to the hello.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long to wait while nothing arrives.
const GRACE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// All clients of a measurement. Their sockets are closed when this is dropped.
#[derive(Debug)]
pub(crate) struct Crowd {
    pub(crate) counts: Rc<CrowdCounts>,
    traffic: Traffic,
    size: u32,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
pub(crate) struct CrowdCounts {
    /// When the first client sends its first command. Those of the other clients are spread evenly over the
    /// following period.
    commands_begin: watch::Sender<Option<Instant>>,
    pub(crate) replies: Cell<u64>,
    pub(crate) messages: Cell<u64>,
    /// Number of deliveries that are not the next message of the channel, refused commands, and other texts.
    errors: Cell<u64>,
    /// When each message last arrived at a client.
    pub(crate) last_arrivals: RefCell<Vec<Instant>>,
    last_failure: RefCell<Option<String>>,
}

/// Activity of each client, in addition to answering pings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Activity {
    /// Subscribes to this many channels, of which [`CHANNEL`] is the first, and listens.
    Listen(u32),
    /// Publishes a byte once a second, from [`Crowd::begin_commands`] on.
    Publish,
}

impl Crowd {
    /// Connects the clients, and waits until each has its hello and the replies to its subscriptions.
    pub(crate) async fn connect(
        server: SocketAddr,
        size: u32,
        activity: Activity,
    ) -> Result<Self, BenchFailure> {
        let traffic = Traffic::default();
        let (dialer, counts) = (Rc::new(dialer(server, &traffic)?), Rc::<CrowdCounts>::default());
        let mut tasks = JoinSet::new();
        let start = Instant::now();
        for number in 0..size {
            sleep_until(start + Duration::from_secs(1) * number / RATE).await;
            let offset = COMMAND_PERIOD * number / size;
            tasks.spawn_local(Rc::clone(&counts).run_client(Rc::clone(&dialer), activity, offset));
        }
        let crowd = Self { counts, traffic, size, _tasks: tasks };
        crowd.require("hellos", size, || crowd.traffic.connects.get()).await?;
        if let Activity::Listen(channels) = activity {
            crowd.require("subscriptions", size * channels, || crowd.counts.replies.get()).await?;
        }
        Ok(crowd)
    }

    pub(crate) fn pings(&self) -> u64 {
        self.traffic.pings.get()
    }

    pub(crate) fn begin_commands(&self) {
        self.counts.commands_begin.send_replace(Some(Instant::now()));
    }

    /// Waits until all clients have received this many messages each, or none has arrived for a while.
    /// Returns the number of missing deliveries.
    pub(crate) async fn wait_for_messages(&self, messages: u32) -> u64 {
        let expected = u64::from(self.size) * u64::from(messages);
        expected - wait_for(expected, || self.counts.messages.get()).await.min(expected)
    }

    /// Returns the number of connections that have ended, and of wrong texts.
    pub(crate) fn errors(&self) -> u64 {
        u64::from(self.size).saturating_sub(self.traffic.open()) + self.counts.errors.get()
    }

    async fn require(&self, what: &str, expected: u32, count: impl Fn() -> u64) -> Result<(), BenchFailure> {
        let counted = wait_for(expected.into(), count).await;
        if counted == u64::from(expected) {
            return Ok(());
        }
        let why = self.counts.last_failure.take().unwrap_or_default();
        Err(format!("{counted} of {expected} {what} have arrived. {why}").into())
    }
}

/// Waits until a count has reached `expected`, or has not changed for a while. Returns the count.
async fn wait_for(expected: u64, count: impl Fn() -> u64) -> u64 {
    let (mut counted, mut since) = (count(), Instant::now());
    while counted < expected && since.elapsed() < GRACE {
        sleep(POLL_INTERVAL).await;
        if count() != counted {
            (counted, since) = (count(), Instant::now());
        }
    }
    counted
}

impl CrowdCounts {
    async fn run_client(self: Rc<Self>, dialer: Rc<Dialer>, activity: Activity, offset: Duration) {
        let failure = match (dialer.open(None).await, activity) {
            (Ok((connection, _)), Activity::Listen(channels)) => self.listen(connection, channels).await,
            // Boxed because a task is as large as the largest of its futures.
            (Ok((connection, _)), Activity::Publish) => Box::pin(self.publish_all(connection, offset)).await,
            (Err(failure), _) => failure.to_string(),
        };
        *self.last_failure.borrow_mut() = Some(failure);
    }

    /// Subscribes, and counts what arrives until the connection ends. Returns the reason.
    async fn listen(&self, mut connection: ClientConnection, channels: u32) -> String {
        for number in 0..channels {
            let suffix = if number == 0 { String::new() } else { format!("-{number}") };
            connection.subscribe(&format!("{CHANNEL}{suffix}")).await;
        }
        let (reader, mut last) = (ChannelReader::new(Target::Encke, CHANNEL), 0);
        let ended = connection.each(|event| {
            if let ClientEvent::Text(text) = event {
                match reader.read(text) {
                    Received::Reply(None) => increment(&self.replies),
                    Received::Message { offset, .. } if offset == last + 1 => {
                        last = offset;
                        self.record_arrival(offset);
                    }
                    _ => increment(&self.errors),
                }
            }
            ControlFlow::<()>::Continue(())
        });
        ended.await.map_or_else(|end| end.to_string(), |()| String::new())
    }

    fn record_arrival(&self, offset: u64) {
        increment(&self.messages);
        let (mut arrivals, now) = (self.last_arrivals.borrow_mut(), Instant::now());
        match arrivals.get_mut(usize::try_from(offset).unwrap_or_default() - 1) {
            Some(arrival) => *arrival = now,
            None => arrivals.push(now),
        }
    }

    /// Publishes once per period, and waits for the reply. Returns why the connection has ended.
    async fn publish_all(&self, connection: ClientConnection, offset: Duration) -> String {
        let mut publisher = Publisher { connection, reader: ChannelReader::new(Target::Encke, CHANNEL) };
        let mut begin = self.commands_begin.subscribe();
        let begin = begin.wait_for(Option::is_some).await.ok().and_then(|begin| *begin);
        let mut due = begin.unwrap_or_else(Instant::now) + offset;
        loop {
            sleep_until(due).await;
            due += COMMAND_PERIOD;
            if let Err(failure) = publisher.publish(r#""x""#).await {
                increment(&self.errors);
                return failure.to_string();
            }
            increment(&self.replies);
        }
    }
}

/// A client that publishes to [`CHANNEL`].
#[derive(Debug)]
pub(crate) struct Publisher {
    connection: ClientConnection,
    reader: ChannelReader,
}

impl Publisher {
    pub(crate) async fn connect(server: SocketAddr) -> Result<Self, BenchFailure> {
        let (connection, _) =
            dialer(server, &Traffic::default())?.open(None).await.map_err(|failure| failure.to_string())?;
        Ok(Self { connection, reader: ChannelReader::new(Target::Encke, CHANNEL) })
    }

    /// Publishes JSON, and waits for the reply.
    pub(crate) async fn publish(&mut self, data: &str) -> Result<(), BenchFailure> {
        let Self { connection, reader } = self;
        connection.publish(2, CHANNEL, data).await;
        let reply = connection.each(|event| match event {
            ClientEvent::Text(text) => ControlFlow::Break(match reader.read(text) {
                Received::Reply(None) => Ok(()),
                _ => Err(text.to_owned()),
            }),
            _ => ControlFlow::Continue(()),
        });
        Ok(reply.await.map_err(|end| end.to_string())??)
    }
}

/// Creates a dialer that opens connections like loadgen does.
fn dialer(server: SocketAddr, traffic: &Traffic) -> Result<Dialer, BenchFailure> {
    let options = DialOptions {
        url: format!("ws://{server}/ws").parse()?,
        target: Target::Encke,
        timeout: CONNECT_TIMEOUT,
        pong_timeout: None,
        poll_hold: None,
        ext_ack: false,
        token: None,
        tls: TlsOptions::default(),
        receive_buffer_bytes: None,
        closes_with_reset: false,
    };
    Ok(Dialer::new(options, Sources::new(server, 0..ADDRESSES), traffic))
}

fn increment(count: &Cell<u64>) {
    count.set(count.get() + 1);
}
