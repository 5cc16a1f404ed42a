//! The attacker: a thread with connections of its own, from an address of its own.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

use super::attack;
use super::bill::{Bill, Place};
use crate::args::{Attack, FrameKind};
use crate::client::{
    ChannelReader, Connection, DialOptions, Dialer, Event, Failure, Greeting, Received, Ticket,
};
use crate::record::Traffic;
use crate::target::{ServerUrl, Target};
use crate::transport::websocket::{End, Opcode, write_frame};
use crate::transport::{ConnectError, ResponseHead, Sources};

/// 127.0.0.1, where the server is on loopback. The healthy session has another address.
const ATTACKER: u8 = 0;
/// After a connection that could not be opened, so that a dead server is not called in a loop.
const PAUSE: Duration = Duration::from_millis(10);
const CPU_LOOK: Duration = Duration::from_millis(100);
/// How long the answers to a batch of commands may take.
const ANSWERS: Duration = Duration::from_secs(5);

/// What an attack is told.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    pub(super) attack: Attack,
    pub(super) connections: u32,
    pub(super) kind: Option<FrameKind>,
    pub(super) server: SocketAddr,
    pub(super) dial: DialOptions,
    pub(super) duration: Duration,
}

/// What the connections of an attack share.
#[derive(Debug)]
pub(super) struct Attacker {
    pub(super) orders: Orders,
    dialer: Dialer,
    bill: Arc<Bill>,
    reader: ChannelReader,
}

/// A connection that was let in. It ends with a reset, when it is dropped.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) connection: Connection,
    pub(super) greeting: Greeting,
    _place: Place,
}

/// Commands that go out in one piece.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) frames: Vec<u8>,
    pub(super) commands: u32,
}

impl Batch {
    pub(super) fn of(commands: impl IntoIterator<Item = String>) -> Self {
        commands.into_iter().fold(Self::default(), |mut batch, command| {
            write_frame(&mut batch.frames, Opcode::Text, command.as_bytes());
            batch.commands += 1;
            batch
        })
    }
}

/// Attacks until the time is over, or the returned future is dropped.
pub(super) fn attack(orders: Orders, bill: Arc<Bill>) -> io::Result<impl Future<Output = ()>> {
    let (done, is_done) = oneshot::channel();
    let body = move || {
        // Where this fails there is no attack, and its bill says so.
        if let Ok(runtime) = Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
            runtime.block_on(strike(orders, bill, done));
        }
    };
    thread::Builder::new().name("attacker".to_owned()).spawn(body)?;
    Ok(async move { drop(is_done.await) })
}

async fn strike(orders: Orders, bill: Arc<Bill>, mut done: oneshot::Sender<()>) {
    let Orders { attack, connections, duration, .. } = orders;
    let attacker = Rc::new(Attacker::new(orders, bill.clone()));
    let worker = attack::worker(attack);
    let mut workers = JoinSet::new();
    for index in 0..connections {
        workers.spawn_local(worker(attacker.clone(), index));
    }
    let watch_cpu = async {
        let mut look = interval(CPU_LOOK);
        loop {
            look.tick().await;
            bill.note_cpu();
        }
    };
    tokio::select! {
        () = sleep(duration) => {}
        () = done.closed() => {}
        () = watch_cpu => {}
    }
    drop(workers);
    bill.note_cpu();
    // Nobody may be there any more.
    let _ = done.send(());
}

impl Attacker {
    fn new(orders: Orders, bill: Arc<Bill>) -> Self {
        let sources = Sources::new(orders.server, ATTACKER..ATTACKER + 1);
        let dialer = Dialer::new(orders.dial.clone(), sources, &Traffic::default());
        Self { orders, dialer, bill, reader: ChannelReader::new("") }
    }

    pub(super) fn target(&self) -> Target {
        self.orders.dial.target
    }

    pub(super) fn url(&self) -> &ServerUrl {
        &self.orders.dial.url
    }

    /// Connects, and says nothing. `None` after a failure, which is counted.
    pub(super) async fn stream(&self) -> Option<TcpStream> {
        self.bill.connection();
        match self.dialer.connect().await {
            Ok((stream, _)) => {
                // As with sessions. If it fails, a port stays taken.
                let _ = stream.set_zero_linger();
                Some(stream)
            }
            Err(failure) => self.failed(&failure).await,
        }
    }

    /// Opens a session, or comes back to one. `None` after a failure, which is counted.
    pub(super) async fn open(&self, resume: Option<&Ticket>) -> Option<Session> {
        self.open_with(resume, None).await
    }

    /// The same, with this much that the kernel takes in before it is read.
    pub(super) async fn open_with(&self, resume: Option<&Ticket>, buffer: Option<u32>) -> Option<Session> {
        self.bill.connection();
        self.bill.sent(self.dialer.opening_bytes(resume).await, 0);
        match self.dialer.open_with(resume, buffer).await {
            Ok((mut connection, greeting)) => {
                // What the server has not read yet would be there long after the attack, and a port taken for a minute.
                connection.reset_on_drop();
                Some(Session { connection, greeting, _place: self.bill.place() })
            }
            Err(failure) => self.failed(&failure).await,
        }
    }

    async fn failed<T>(&self, failure: &Failure) -> Option<T> {
        self.bill.answer(&failure.kind());
        sleep(PAUSE).await;
        None
    }

    pub(super) fn sent(&self, bytes: usize, requests: u64) {
        self.bill.sent(bytes, requests);
    }

    pub(super) fn answer(&self, kind: &str) {
        self.bill.answer(kind);
    }

    /// Counts the answer to a request, or what came in its place.
    pub(super) fn head(&self, answer: Result<ResponseHead, ConnectError>) {
        match answer {
            Ok(ResponseHead { status, .. }) | Err(ConnectError::Refused(status)) => {
                self.answer(&format!("http_{status}"));
            }
            Err(ConnectError::Io(_)) => self.answer("cut"),
            Err(ConnectError::NotHttp(_) | ConnectError::Upgrade(_) | ConnectError::NoEventStream) => {
                self.answer("other");
            }
        }
    }

    pub(super) fn ended(&self, end: End) {
        self.bill.answer(&format!("close_{}", end.code()));
    }

    /// Counts the reply to a command, if that is what it is.
    fn note(&self, event: Event<'_>) -> bool {
        let Event::Text(text) = event else { return false };
        match self.reader.read(text) {
            Received::Reply(None) => self.bill.answer("ok"),
            Received::Reply(Some(code)) => self.bill.answer(&format!("error_{code}")),
            _ => return false,
        }
        true
    }

    /// Sends commands in one piece, and reads until each is answered. False when the connection has ended, or answers no more.
    pub(super) async fn ask(&self, session: &mut Session, batch: &Batch) -> bool {
        self.sent(batch.frames.len(), batch.commands.into());
        session.connection.queue(&batch.frames);
        let mut unanswered = batch.commands;
        let answers = session.connection.each(|event| {
            unanswered = unanswered.saturating_sub(self.note(event).into());
            if unanswered == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match timeout(ANSWERS, answers).await {
            Ok(Ok(())) => true,
            Ok(Err(end)) => {
                self.ended(end);
                false
            }
            Err(_) => {
                self.answer("no_answer");
                false
            }
        }
    }

    /// Sends these frames again and again, as fast as the server takes them, until the connection ends.
    pub(super) async fn flood(&self, session: &mut Session, frames: &[u8], requests: u64) {
        let next = |out: &mut Vec<u8>| {
            self.sent(frames.len(), requests);
            out.extend_from_slice(frames);
        };
        let end = session
            .connection
            .flood(next, |event| {
                self.note(event);
            })
            .await;
        self.ended(end);
    }

    /// Reads until the connection ends.
    pub(super) async fn listen(&self, session: &mut Session) {
        let listened = session.connection.each(|event| {
            self.note(event);
            ControlFlow::<Infallible>::Continue(())
        });
        let Err(end) = listened.await;
        self.ended(end);
    }
}

impl Session {
    /// Ends the session: nothing is left of it.
    pub(super) async fn close(mut self) {
        self.connection.send(r#"{"close":{}}"#).await;
    }
}
