//! The attacker: a separate thread with its own connections, from its own source address.

use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use encke_client::transport::websocket::{Opcode, write_frame};
use encke_client::transport::{ConnectError, ResponseHead, Stream};
use encke_client::{
    ChannelReader, ClientConnection, ClientEvent, ClientFailure, ConnectionEnd, DialOptions, Dialer,
    Greeting, Received, ServerUrl, Sources, Target, Ticket,
};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

use super::attack;
use super::costs::{AttackCosts, OpenGuard};
use crate::args::{AbuseOptions, Attack};
use crate::record::Traffic;

/// Index of the source address 127.0.0.1, used if the server is on loopback. The healthy session uses another
/// address.
const ATTACKER_ADDRESS: u8 = 0;
/// Delay after a failed connection attempt, so that the attacker does not spin while the server is down.
const FAILURE_DELAY: Duration = Duration::from_millis(10);
const CPU_SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// Time limit for the replies to a batch of commands.
const BATCH_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(super) struct AttackParameters {
    pub(super) attack: Attack,
    pub(super) options: AbuseOptions,
    pub(super) server: SocketAddr,
    pub(super) dial: DialOptions,
}

/// State shared by the connections of an attack.
#[derive(Debug)]
pub(super) struct Attacker {
    pub(super) parameters: AttackParameters,
    dialer: Dialer,
    pub(super) costs: Arc<AttackCosts>,
    reader: ChannelReader,
}

/// A connection that the server has admitted.
#[derive(Debug)]
pub(super) struct AttackSession {
    pub(super) connection: ClientConnection,
    pub(super) greeting: Greeting,
    _place: OpenGuard,
}

/// Commands that are sent together.
#[derive(Debug, Default)]
pub(super) struct CommandBatch {
    pub(super) frames: Vec<u8>,
    pub(super) commands: u32,
}

impl CommandBatch {
    pub(super) fn of(commands: impl IntoIterator<Item = String>) -> Self {
        commands.into_iter().fold(Self::default(), |mut batch, command| {
            write_frame(&mut batch.frames, Opcode::Text, command.as_bytes());
            batch.commands += 1;
            batch
        })
    }
}

/// Attacks until the duration is over or the returned future is dropped.
pub(super) fn attack(
    parameters: AttackParameters,
    costs: Arc<AttackCosts>,
) -> io::Result<impl Future<Output = ()>> {
    let (done, is_done) = oneshot::channel();
    let body = move || {
        // If this fails there is no attack, and the reported cost is zero.
        if let Ok(runtime) = Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
            runtime.block_on(run_attack(parameters, costs, done));
        }
    };
    thread::Builder::new().name("attacker".to_owned()).spawn(body)?;
    Ok(async move { drop(is_done.await) })
}

async fn run_attack(parameters: AttackParameters, costs: Arc<AttackCosts>, mut done: oneshot::Sender<()>) {
    let (attack, options) = (parameters.attack, parameters.options.clone());
    let attacker = Rc::new(Attacker::new(parameters, costs.clone()));
    let worker = attack::worker(attack);
    let mut workers = JoinSet::new();
    for index in 0..options.connections(attack) {
        workers.spawn_local(worker(attacker.clone(), index));
    }
    let watch_cpu = async {
        let mut sample = interval(CPU_SAMPLE_INTERVAL);
        loop {
            sample.tick().await;
            costs.note_cpu();
        }
    };
    tokio::select! {
        () = sleep(options.duration) => {}
        () = done.closed() => {}
        () = watch_cpu => {}
    }
    drop(workers);
    costs.note_cpu();
    // The receiver may have been dropped already.
    let _ = done.send(());
}

impl Attacker {
    fn new(parameters: AttackParameters, costs: Arc<AttackCosts>) -> Self {
        let sources = Sources::new(parameters.server, ATTACKER_ADDRESS..ATTACKER_ADDRESS + 1);
        let dial = DialOptions {
            receive_buffer_bytes: attack::receive_buffer_bytes(parameters.attack),
            // Otherwise data that the server has not read would stay queued long after the attack, and the port
            // would be in use for a minute.
            closes_with_reset: true,
            ..parameters.dial.clone()
        };
        let dialer = Dialer::new(dial, sources, &Traffic::default());
        Self { parameters, dialer, costs, reader: ChannelReader::new(Target::Encke, "") }
    }

    pub(super) fn url(&self) -> &ServerUrl {
        &self.parameters.dial.url
    }

    /// Opens a TCP connection without sending anything. `None` after a failure, which is counted.
    pub(super) async fn connect(&self) -> Option<Stream> {
        self.costs.connections.increment();
        match self.dialer.connect().await {
            Ok(stream) => Some(stream),
            Err(failure) => self.count_failure(&failure).await,
        }
    }

    /// Opens a session, or resumes one. `None` after a failure, which is counted.
    pub(super) async fn open(&self, resume: Option<&Ticket>) -> Option<AttackSession> {
        self.costs.connections.increment();
        self.costs.count_sent(self.dialer.opening_bytes(resume).await, 0);
        match self.dialer.open(resume).await {
            Ok((connection, greeting)) => {
                Some(AttackSession { connection, greeting, _place: self.costs.count_open() })
            }
            Err(failure) => self.count_failure(&failure).await,
        }
    }

    async fn count_failure<T>(&self, failure: &ClientFailure) -> Option<T> {
        self.costs.count_answer(&failure.kind());
        sleep(FAILURE_DELAY).await;
        None
    }

    /// Counts the response to a request, or the error that occurred instead.
    pub(super) fn count_response(&self, answer: Result<ResponseHead, ConnectError>) {
        match answer {
            Ok(ResponseHead { status, .. }) | Err(ConnectError::Refused(status)) => {
                self.costs.count_answer(&format!("http_{status}"));
            }
            Err(ConnectError::Io(_)) => self.costs.count_answer("cut"),
            Err(_) => self.costs.count_answer("other"),
        }
    }

    pub(super) fn count_end(&self, end: ConnectionEnd) {
        self.costs.count_answer(&format!("close_{}", end.code()));
    }

    /// Counts the event if it is a reply to a command. Returns whether it is.
    fn count_reply(&self, event: ClientEvent<'_>) -> bool {
        let ClientEvent::Text(text) = event else { return false };
        match self.reader.read(text) {
            Received::Reply(None) => self.costs.count_answer("ok"),
            Received::Reply(Some(code)) => self.costs.count_answer(&format!("error_{code}")),
            _ => return false,
        }
        true
    }

    /// Sends commands together, and reads until each has a reply. Returns false if the connection ended, or
    /// the replies took too long.
    pub(super) async fn send_batch(&self, session: &mut AttackSession, batch: &CommandBatch) -> bool {
        self.costs.count_sent(batch.frames.len(), batch.commands.into());
        session.connection.queue(&batch.frames);
        let mut unanswered = batch.commands;
        let answers = session.connection.each(|event| {
            unanswered = unanswered.saturating_sub(self.count_reply(event).into());
            if unanswered == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let answered = timeout(BATCH_TIMEOUT, answers).await;
        match answered {
            Ok(Ok(())) => {}
            Ok(Err(end)) => self.count_end(end),
            Err(_) => self.costs.count_answer("no_answer"),
        }
        matches!(answered, Ok(Ok(())))
    }

    /// Queues frames that count as one request. They are sent with the next read.
    pub(super) fn queue(&self, session: &mut AttackSession, frames: &[u8]) {
        if !frames.is_empty() {
            self.costs.count_sent(frames.len(), 1);
            session.connection.queue(frames);
        }
    }

    /// Sends these frames repeatedly, as fast as the server accepts them, until the connection ends.
    pub(super) async fn flood(&self, session: &mut AttackSession, frames: &[u8], requests: u64) {
        let next = |out: &mut Vec<u8>| {
            self.costs.count_sent(frames.len(), requests);
            out.extend_from_slice(frames);
        };
        let end = session.connection.flood(next, |event| _ = self.count_reply(event)).await;
        self.count_end(end);
    }

    pub(super) async fn read_to_end(&self, session: &mut AttackSession) {
        let end = session.connection.listen(|event| _ = self.count_reply(event)).await;
        self.count_end(end);
    }
}
