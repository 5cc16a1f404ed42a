//! A server with one channel. It keeps everything that was published, so resuming is reading on; and it misbehaves
//! on demand, towards the session that was opened first.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use encke_core::dialect::json::{Hello, ServerMessage};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::accept::accept;

/// What is done to the first session; messages are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mischief {
    None,
    Lose(usize),
    Double(usize),
    /// This message and the next change places.
    Swap(usize),
    /// A gap in place of this message and the next.
    Gap(usize),
    /// Everyone who comes back is new.
    Forget,
    /// Everyone who comes back gets everything again.
    Repeat,
    /// Everyone may come back, however late.
    NeverExpire,
    /// Who takes in no more is cut at once.
    CutTheSlow,
    /// No one may subscribe.
    RefuseSubscriptions,
    /// No one may publish.
    RefusePublications,
}

pub(crate) struct FakeChannel {
    clients: SocketAddr,
    admin: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    mischief: Mischief,
    sessions: AtomicUsize,
    acks: AtomicU64,
    /// When a session was lost, by its number.
    lost_at: Mutex<HashMap<usize, Instant>>,
    log: watch::Sender<Vec<Arc<str>>>,
    /// What the admin listener was asked, heads only.
    calls: Mutex<Vec<String>>,
}

impl FakeChannel {
    pub(crate) async fn start(mischief: Mischief) -> Self {
        let (clients, at) = listen().await;
        let (admin, admin_at) = listen().await;
        let shared = Arc::new(Shared {
            mischief,
            sessions: AtomicUsize::new(0),
            acks: AtomicU64::new(0),
            lost_at: Mutex::default(),
            log: watch::Sender::new(Vec::new()),
            calls: Mutex::default(),
        });
        // Peers leave when they like: what fails here is a matter of the counts the tests assert.
        tokio::spawn(serve_each(clients, shared.clone(), |stream, shared: Arc<Shared>| async move {
            drop(serve(stream, &shared).await);
        }));
        tokio::spawn(serve_each(admin, shared.clone(), |stream, shared: Arc<Shared>| async move {
            drop(serve_admin(stream, &shared).await);
        }));
        Self { clients: at, admin: admin_at, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}/ws", self.clients)
    }

    pub(crate) fn admin_url(&self) -> String {
        format!("http://{}", self.admin)
    }

    pub(crate) fn acks(&self) -> u64 {
        self.shared.acks.load(Ordering::Relaxed)
    }

    /// The JSON texts of what was published.
    pub(crate) fn log(&self) -> Vec<String> {
        self.shared.log.borrow().iter().map(|data| data.to_string()).collect()
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.shared.calls.lock().expect("no test panics while it looks").clone()
    }
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    (listener, address)
}

async fn serve_each<F>(listener: TcpListener, shared: Arc<Shared>, serve: fn(TcpStream, Arc<Shared>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let (stream, _) = listener.accept().await.expect("the listener works");
        tokio::spawn(serve(stream, shared.clone()));
    }
}

/// How long a session waits for its client.
pub(crate) const WINDOW: Duration = Duration::from_secs(1);
/// How long a client may take nothing in.
const PATIENCE: Duration = Duration::from_millis(200);

/// Notes when a connection is gone.
struct Lost<'a> {
    session: usize,
    shared: &'a Shared,
}

impl Drop for Lost<'_> {
    fn drop(&mut self) {
        let mut lost_at = self.shared.lost_at.lock().expect("no test panics while it looks");
        lost_at.insert(self.session, Instant::now());
    }
}

type Socket = WebSocketStream<TcpStream>;

async fn serve(stream: TcpStream, shared: &Shared) -> Result<(), Error> {
    let (mut socket, query) = accept(stream).await?;
    let resume = parse_resume(&query).filter(|(session, _)| {
        let lost_at = shared.lost_at.lock().expect("no test panics while it looks").get(session).copied();
        let is_late = lost_at.is_some_and(|at| at.elapsed() > WINDOW);
        shared.mischief != Mischief::Forget && (!is_late || shared.mischief == Mischief::NeverExpire)
    });
    let session = resume.map_or_else(|| shared.sessions.fetch_add(1, Ordering::Relaxed), |(it, _)| it);
    let had = resume.filter(|_| shared.mischief != Mischief::Repeat);
    let mut sent = had.map_or(0, |(_, seq)| seq);
    let mut subscribed = resume.is_some();
    let _lost = Lost { session, shared };
    let hello = ServerMessage::Hello(Hello {
        version: 1,
        session: format!("s_{session}").into(),
        resume: format!("s_{session}.secret").into(),
        recovered: resume.is_some(),
        // It says where the client says it was, whatever it then sends.
        seq: resume.map_or(0, |(_, seq)| seq) as u64,
        ping_interval_ms: 60_000,
        pong_timeout_ms: 10_000,
        reconnect_window_ms: u64::try_from(WINDOW.as_millis()).expect("it is short"),
    });
    socket.send(Message::text(hello.to_json())).await?;
    let mut log = shared.log.subscribe();
    log.mark_changed();
    loop {
        tokio::select! {
            command = socket.next() => match command.transpose()? {
                Some(Message::Text(text)) => {
                    let text = text.to_string();
                    subscribed |= carry_out(&text, &mut socket, shared).await?;
                    // Who subscribes hears what comes after.
                    if text.contains("\"subscribe\"") {
                        sent = to_send(session, shared).len();
                    }
                }
                Some(_) => {}
                None => return Ok(()),
            },
            _ = log.changed(), if subscribed => {
                for (index, object) in to_send(session, shared).iter().enumerate().skip(sent) {
                    let send = socket.send(Message::text(object.with_seq(index + 1)));
                    match shared.mischief {
                        Mischief::CutTheSlow => match timeout(PATIENCE, send).await {
                            Ok(sent) => sent?,
                            Err(_) => return Ok(()),
                        },
                        _ => send.await?,
                    }
                    sent = index + 1;
                }
            }
        }
    }
}

fn parse_resume(query: &str) -> Option<(usize, usize)> {
    let (token, seq) = query.strip_prefix("resume=s_")?.split_once("&seq=")?;
    Some((token.strip_suffix(".secret")?.parse().ok()?, seq.parse().expect("a seq is a number")))
}

/// What a session is to have from the log, mischief included.
fn to_send(session: usize, shared: &Shared) -> Vec<Object> {
    let log = shared.log.borrow();
    let message = |index: usize| Object::Message { offset: index + 1, data: Arc::clone(&log[index]) };
    let mischief = if session == 0 { shared.mischief } else { Mischief::None };
    let mut objects = Vec::new();
    for index in 0..log.len() {
        match mischief {
            Mischief::Lose(lost) if lost == index => {}
            Mischief::Double(doubled) if doubled == index => objects.extend([message(index), message(index)]),
            Mischief::Swap(first) if first == index => {
                // Both when both are there.
                objects.extend((index + 1 < log.len()).then(|| message(index + 1)));
                objects.extend((index + 1 < log.len()).then(|| message(index)));
            }
            Mischief::Swap(first) if first + 1 == index => {}
            Mischief::Gap(first) if first == index => objects.push(Object::Gap { from: index + 1 }),
            Mischief::Gap(first) if first + 1 == index => {}
            _ => objects.push(message(index)),
        }
    }
    objects
}

/// What a session is sent, but for its seq.
enum Object {
    Message { offset: usize, data: Arc<str> },
    Gap { from: usize },
}

impl Object {
    fn with_seq(&self, seq: usize) -> String {
        match self {
            Self::Message { offset, data } => format!(
                r#"{{"message":{{"seq":{seq},"channel":"loadgen","offset":{offset},"data":{data}}}}}"#
            ),
            Self::Gap { from } => format!(
                r#"{{"gap":{{"seq":{seq},"channel":"loadgen","epoch":"e","from":{from},"to":{}}}}}"#,
                from + 1
            ),
        }
    }
}

/// Whether it was a subscription.
async fn carry_out(text: &str, socket: &mut Socket, shared: &Shared) -> Result<bool, Error> {
    let command: Value = serde_json::from_str(text).expect("clients send JSON");
    if command.get("ack").is_some() {
        shared.acks.fetch_add(1, Ordering::Relaxed);
        return Ok(false);
    }
    let is_subscription = command.get("subscribe").is_some();
    let refused = match shared.mischief {
        Mischief::RefuseSubscriptions => is_subscription,
        Mischief::RefusePublications => !is_subscription,
        _ => false,
    };
    let outcome = if refused {
        json!({"id": command["id"], "error": {"code": "forbidden", "message": "no"}})
    } else if is_subscription {
        assert_eq!(command["subscribe"]["channel"], "loadgen");
        json!({"id": command["id"], "ok": {"channel": "loadgen", "epoch": "e", "offset": 0}})
    } else {
        assert_eq!(command["publish"]["channel"], "loadgen");
        publish(&command["publish"]["data"], shared);
        json!({"id": command["id"], "ok": {"epoch": "e", "offset": 1}})
    };
    socket.send(Message::text(json!({"reply": outcome}).to_string())).await?;
    Ok(is_subscription && !refused)
}

fn publish(data: &Value, shared: &Shared) {
    shared.log.send_modify(|log| log.push(data.to_string().into()));
}

async fn serve_admin(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let head = head.to_ascii_lowercase();
        if head.starts_with("get ") {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await?;
            continue;
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.and_then(|text| text.parse().ok()).expect("a call has a length")];
        stream.read_exact(&mut body).await?;
        let call: Value = serde_json::from_slice(&body).expect("calls are JSON");
        assert_eq!(call["channel"], "loadgen");
        let refused = shared.mischief == Mischief::RefusePublications;
        if !refused {
            publish(&call["data"], shared);
        }
        shared.calls.lock().expect("no test panics while it looks").push(head);
        let (status, body) = if refused { ("503 No", "") } else { ("200 OK", r#"{"offset":1,"epoch":"e"}"#) };
        let reply = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(reply.as_bytes()).await?;
    }
}
