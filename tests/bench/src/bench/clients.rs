//! Clients that connect at a fixed rate and answer pings. For some measurements, they also subscribe and
//! count the messages received, or send commands.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use encke_loadgen::{
    ADDRESSES, ClientConnection, ClientEvent, DialOptions, Dialer, Sources, Target, Traffic,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::BenchFailure;
use crate::command_load::CommandLoad;
use crate::subscribers::{SubscriberProgress, SubscriberTotals};

/// Maximum time from the connection attempt to the hello.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// All clients of a measurement. Their sockets are closed when this is dropped.
#[derive(Debug)]
pub(crate) struct BenchClients {
    counts: Rc<ClientCounts>,
    size: u32,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct ClientCounts {
    /// Number of connections that received a hello.
    greeted: Cell<u32>,
    /// Number of connections that received a first ping.
    pinged: Cell<u32>,
    /// Number of pings answered.
    pings: Cell<u64>,
    /// Number of connections that have ended, greeted or not.
    ended: Cell<u32>,
    last_error: RefCell<Option<String>>,
    errand: Workload,
}

/// Work of each client in addition to answering pings.
#[derive(Debug, Default)]
pub(crate) enum Workload {
    #[default]
    None,
    /// Subscribe, and count the messages received.
    Subscribe(SubscriberTotals),
    SendCommands(Rc<CommandLoad>),
}

impl BenchClients {
    /// Connects `size` clients at `rate` per second, and waits until each has received its hello and the
    /// replies to its subscriptions.
    pub(crate) async fn connect(
        server: SocketAddr,
        size: u32,
        rate: u32,
        errand: Workload,
    ) -> Result<Self, BenchFailure> {
        let clients =
            Self::connect_all(server, size, rate, ClientCounts { errand, ..ClientCounts::default() }).await?;
        if let Some(subscribers) = clients.subscribers() {
            let each = u32::try_from(subscribers.commands.len())?;
            let subscribed = |_: &ClientCounts| subscribers.subscribed.get() / each;
            clients.wait_for(subscribed, CONNECT_TIMEOUT, "subscribed").await?;
        }
        Ok(clients)
    }

    async fn connect_all(
        server: SocketAddr,
        size: u32,
        rate: u32,
        counts: ClientCounts,
    ) -> Result<Self, BenchFailure> {
        let (dialer, counts) = (Rc::new(dialer(server)?), Rc::new(counts));
        let mut tasks = JoinSet::new();
        let start = Instant::now();
        for number in 0..size {
            let due = start + Duration::from_secs(1) * number / rate;
            if due > Instant::now() {
                sleep_until(due).await;
            }
            tasks.spawn_local(run(Rc::clone(&dialer), Rc::clone(&counts), number));
        }
        let clients = Self { counts, size, _tasks: tasks };
        clients.wait_for(|counts| counts.greeted.get(), CONNECT_TIMEOUT, "greeted").await?;
        Ok(clients)
    }

    /// Waits until each client has received its first ping.
    pub(crate) async fn all_pinged(&self, timeout: Duration) -> Result<(), BenchFailure> {
        self.wait_for(|counts| counts.pinged.get(), timeout, "pinged").await
    }

    pub(crate) fn pings(&self) -> u64 {
        self.counts.pings.get()
    }

    /// Returns the totals of received messages, if the clients have subscribed.
    pub(crate) fn subscribers(&self) -> Option<&SubscriberTotals> {
        match &self.counts.errand {
            Workload::Subscribe(subscribers) => Some(subscribers),
            Workload::None | Workload::SendCommands(_) => None,
        }
    }

    /// Returns the number of connections that have ended.
    pub(crate) fn ended(&self) -> u32 {
        self.counts.ended.get()
    }

    async fn wait_for(
        &self,
        count: impl Fn(&ClientCounts) -> u32,
        timeout: Duration,
        what: &str,
    ) -> Result<(), BenchFailure> {
        let until = Instant::now() + timeout;
        while count(&self.counts) < self.size {
            if self.ended() > 0 || Instant::now() > until {
                let counted = count(&self.counts);
                let (size, ended) = (self.size, self.ended());
                let why = self.counts.last_error.borrow().as_ref().map(|error| format!(": {error}"));
                let why = why.unwrap_or_default();
                return Err(format!(
                    "{counted} of {size} clients were {what}; {ended} connections have ended{why}"
                )
                .into());
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }
}

/// Creates a dialer that opens connections like loadgen does.
pub(crate) fn dialer(server: SocketAddr) -> Result<Dialer, BenchFailure> {
    let options = DialOptions {
        url: format!("ws://{server}/ws").parse()?,
        target: Target::Encke,
        timeout: CONNECT_TIMEOUT,
        pong_timeout: None,
        reconnect_window: None,
        poll_hold: None,
        ext_ack: false,
        token: None,
    };
    Ok(Dialer::new(options, Sources::new(server, 0..ADDRESSES), &Traffic::default()))
}

async fn run(dialer: Rc<Dialer>, counts: Rc<ClientCounts>, number: u32) {
    let error = match dialer.open(None).await {
        Ok((mut connection, _)) => {
            increment(&counts.greeted);
            match &counts.errand {
                Workload::None => answer_pings(connection, &counts, None).await,
                Workload::Subscribe(subscribers) => {
                    answer_pings(connection, &counts, Some(subscribers)).await
                }
                // Box this future: a task is as large as the largest of them.
                Workload::SendCommands(speaking) => {
                    Box::pin(speaking.run_client(&mut connection, number)).await
                }
            }
        }
        Err(failure) => failure.to_string(),
    };
    increment(&counts.ended);
    *counts.last_error.borrow_mut() = Some(error);
}

/// Answers pings until the connection ends. Returns the reason.
async fn answer_pings(
    mut connection: ClientConnection,
    counts: &ClientCounts,
    subscribers: Option<&SubscriberTotals>,
) -> String {
    for command in subscribers.iter().flat_map(|subscribers| &subscribers.commands) {
        connection.send(command).await;
    }
    let (mut is_pinged, mut progress) = (false, SubscriberProgress::default());
    let ended = connection.each(|event| {
        match event {
            ClientEvent::Ping(_) | ClientEvent::EmptyPoll(_) => {
                counts.pings.set(counts.pings.get() + 1);
                if !std::mem::replace(&mut is_pinged, true) {
                    increment(&counts.pinged);
                }
            }
            ClientEvent::Text(text) => {
                let received = subscribers.map_or(Ok(()), |it| it.receive(text, &mut progress));
                if let Err(code) = received {
                    return ControlFlow::Break(format!("the server refused the subscription: {code}"));
                }
            }
            ClientEvent::Pong(_) | ClientEvent::Id(_) => {}
        }
        ControlFlow::Continue(())
    });
    ended.await.unwrap_or_else(|end| end.to_string())
}

fn increment(count: &Cell<u32>) {
    count.set(count.get() + 1);
}
