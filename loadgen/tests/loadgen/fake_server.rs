//! A minimal server that misbehaves on demand.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use encke_core::dialect::json::{Hello, ServerMessage};
use encke_core::dialect::ping_payload;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::accept::accept;

/// Pong timeout that the hello announces. A client that answers a ping is pinged again after half of this
/// time.
pub(crate) const PONG_TIMEOUT: Duration = Duration::from_millis(400);
/// Seq of the last message that every session receives.
pub(crate) const LAST_SEQ: u64 = 57;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Behaviour {
    /// Sends a hello and pings, and closes with 4000 when no pong arrives for this long.
    GiveUpAfter(Duration),
    /// Same as [`Self::GiveUpAfter`], but without a Close frame.
    CutAfter(Duration),
    /// Closes right after the hello.
    CloseWith(u16),
    CloseBeforeHello(u16),
    /// Treats every client as new.
    Forget,
    RefuseUpgrade,
    /// Closes the socket without a response.
    Hang,
    /// Upgrades, but never sends a hello.
    NeverGreet,
}

/// Statistics and requests that the server has recorded.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) greeted: u64,
    pub(crate) pongs: u64,
    /// Token and seq of each resume, in order of arrival.
    pub(crate) resumes: Vec<(String, u64)>,
}

pub(crate) struct FakeServer {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    greeted: watch::Receiver<u64>,
}

struct SharedSeen {
    seen: Arc<Mutex<Seen>>,
    greeted: watch::Sender<u64>,
}

impl FakeServer {
    /// Starts a server. `behave` returns the behaviour for the n-th connection, counted from 0.
    pub(crate) async fn start(behave: impl Fn(usize) -> Behaviour + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let seen = Arc::<Mutex<Seen>>::default();
        let (sender, greeted) = watch::channel(0);
        let shared = Arc::new(SharedSeen { seen: seen.clone(), greeted: sender });
        tokio::spawn(async move {
            for index in 0.. {
                let (stream, _) = listener.accept().await.expect("accepting works");
                // Clients may disconnect at any time. The counts that the tests assert show any failure that
                // matters.
                let shared = shared.clone();
                let behaviour = behave(index);
                tokio::spawn(async move { drop(serve(stream, index, behaviour, &shared).await) });
            }
        });
        Self { address, seen, greeted }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}/ws", self.address)
    }

    pub(crate) fn seen<T>(&self, read: impl FnOnce(&Seen) -> T) -> T {
        read(&self.seen.lock().expect("the mutex is not poisoned"))
    }

    /// Waits until this many clients have been sent a hello.
    pub(crate) async fn has_greeted(&self, connections: u64) {
        let mut greeted = self.greeted.clone();
        greeted.wait_for(|greeted| *greeted >= connections).await.expect("the server is running");
    }
}

async fn serve(
    mut stream: TcpStream,
    index: usize,
    behaviour: Behaviour,
    shared: &SharedSeen,
) -> Result<(), Error> {
    match behaviour {
        Behaviour::Hang => return Ok(()),
        Behaviour::RefuseUpgrade => {
            let mut request = [0; 2048];
            let _ = stream.read(&mut request).await?;
            return Ok(stream
                .write_all(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
                .await?);
        }
        _ => {}
    }
    let (mut socket, query) = accept(stream).await?;
    match behaviour {
        Behaviour::CloseBeforeHello(code) => close(&mut socket, code).await,
        Behaviour::NeverGreet => drain(&mut socket).await,
        Behaviour::CloseWith(code) => {
            send_hello(&mut socket, index, &query, true, shared).await?;
            close(&mut socket, code).await
        }
        Behaviour::Forget => {
            send_hello(&mut socket, index, &query, false, shared).await?;
            drain(&mut socket).await
        }
        Behaviour::GiveUpAfter(limit) => {
            send_hello(&mut socket, index, &query, true, shared).await?;
            ping_until_silence(&mut socket, limit, shared).await?;
            close(&mut socket, 4000).await
        }
        Behaviour::CutAfter(limit) => {
            send_hello(&mut socket, index, &query, true, shared).await?;
            ping_until_silence(&mut socket, limit, shared).await
        }
        Behaviour::Hang | Behaviour::RefuseUpgrade => unreachable!("handled before the upgrade"),
    }
}

type FakeSocket = WebSocketStream<TcpStream>;

/// Sends a hello, a message of an unknown kind, and a message with a seq.
async fn send_hello(
    socket: &mut FakeSocket,
    index: usize,
    query: &str,
    remember: bool,
    shared: &SharedSeen,
) -> Result<(), Error> {
    let resume = parse_resume(query);
    // Record the resume before sending anything: a client may disconnect as soon as it has received the
    // messages below.
    shared.seen.lock().expect("the mutex is not poisoned").resumes.extend(resume.clone());
    let hello = ServerMessage::Hello(Hello {
        version: 1,
        session: format!("s_{index}").into(),
        resume: format!("s_{index}.secret").into(),
        recovered: remember && resume.is_some(),
        seq: 1,
        ping_interval_ms: 1000,
        pong_timeout_ms: u64::try_from(PONG_TIMEOUT.as_millis()).expect("it fits into u64"),
        reconnect_window_ms: 60_000,
    });
    let message =
        format!(r#"{{"message":{{"seq":{LAST_SEQ},"channel":"news","offset":42,"data":{{"a":1}}}}}}"#);
    // Record the resume before sending the hello: the client may disconnect, and its run may end, as soon as
    // it has received the hello.
    shared.seen.lock().expect("the mutex is not poisoned").resumes.extend(resume);
    for text in [hello.to_json(), r#"{"surprise":{"seq":99}}"#.to_owned(), message] {
        socket.send(Message::text(text)).await?;
    }
    shared.seen.lock().expect("the mutex is not poisoned").greeted += 1;
    shared.greeted.send_modify(|greeted| *greeted += 1);
    Ok(())
}

fn parse_resume(query: &str) -> Option<(String, u64)> {
    let (token, seq) = query.strip_prefix("resume=")?.split_once("&seq=")?;
    Some((token.to_owned(), seq.parse().expect("a seq is a number")))
}

async fn ping_until_silence(
    socket: &mut FakeSocket,
    limit: Duration,
    shared: &SharedSeen,
) -> Result<(), Error> {
    loop {
        let payload = ping_payload(LAST_SEQ);
        socket.send(Message::Ping(payload.to_vec().into())).await?;
        let Ok(answer) = timeout(limit, socket.next()).await else { return Ok(()) };
        let Some(answer) = answer.transpose()? else { return Ok(()) };
        if answer.is_close() {
            return Ok(());
        }
        assert_eq!(answer, Message::Pong(payload.to_vec().into()));
        shared.seen.lock().expect("the mutex is not poisoned").pongs += 1;
        sleep(PONG_TIMEOUT / 2).await;
    }
}

/// Sends a Close frame and waits until the client closes the connection, so that no reset overtakes the
/// frame.
async fn close(socket: &mut FakeSocket, code: u16) -> Result<(), Error> {
    socket.send(Message::Close(Some(CloseFrame { code: code.into(), reason: "".into() }))).await?;
    drain(socket).await
}

async fn drain(socket: &mut FakeSocket) -> Result<(), Error> {
    while socket.next().await.transpose()?.is_some() {}
    Ok(())
}
