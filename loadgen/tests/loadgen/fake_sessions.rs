//! A server whose sessions outlive their connections, for the announced window or as each test requires.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use encke_core::dialect::json::{Hello, ServerMessage};
use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::accept::accept;

/// Reconnect window that the hello announces.
pub(crate) const WINDOW: Duration = Duration::from_secs(2);

/// How the server treats sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionBehaviour {
    /// How long a session is kept after its connection has closed.
    pub(crate) keep_duration: Duration,
    /// Close code for a connection whose session was taken over. `None`: it stays open.
    pub(crate) replaced: Option<u16>,
}

impl Default for SessionBehaviour {
    fn default() -> Self {
        Self { keep_duration: WINDOW, replaced: Some(4100) }
    }
}

#[derive(Default)]
struct FakeSession {
    lost_at: Option<Instant>,
    /// Number of connections so far. Only the end of the latest one starts the window.
    connections: u64,
    replace: Option<oneshot::Sender<()>>,
}

#[derive(Default)]
struct FakeSessionStore {
    by_token: HashMap<String, FakeSession>,
    opened: u64,
}

pub(crate) struct FakeSessions {
    address: SocketAddr,
}

impl FakeSessions {
    pub(crate) async fn start(behaviour: SessionBehaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let sessions = Arc::<Mutex<FakeSessionStore>>::default();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("accepting works");
                let sessions = sessions.clone();
                // Clients may disconnect at any time. The counts that the tests assert show any failure that
                // matters.
                tokio::spawn(async move { drop(serve(stream, behaviour, &sessions).await) });
            }
        });
        Self { address }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}/ws", self.address)
    }
}

async fn serve(
    stream: TcpStream,
    behaviour: SessionBehaviour,
    sessions: &Mutex<FakeSessionStore>,
) -> Result<(), Error> {
    let (mut socket, query) = accept(stream).await?;
    let (replace, replaced) = oneshot::channel();
    let (token, connection, recovered) = {
        let mut sessions = sessions.lock().expect("the mutex is not poisoned");
        attach(&mut sessions, &query, behaviour, replace)
    };
    let hello = ServerMessage::Hello(Hello {
        version: 1,
        session: token.as_str().into(),
        resume: token.as_str().into(),
        recovered,
        seq: 0,
        ping_interval_ms: 60_000,
        pong_timeout_ms: 10_000,
        reconnect_window_ms: u64::try_from(WINDOW.as_millis()).expect("it fits into u64"),
    });
    let served = async {
        socket.send(Message::text(hello.to_json())).await?;
        tokio::select! {
            _ = replaced => if let Some(code) = behaviour.replaced {
                socket.send(Message::Close(Some(CloseFrame { code: code.into(), reason: "".into() }))).await?;
            },
            _ = socket.next() => return Ok(()),
        }
        while socket.next().await.transpose()?.is_some() {}
        Ok(())
    };
    let result = served.await;
    let mut sessions = sessions.lock().expect("the mutex is not poisoned");
    if let Some(session) = sessions.by_token.get_mut(&token)
        && session.connections == connection
    {
        session.lost_at = Some(Instant::now());
    }
    result
}

/// Returns the session's token, the number of this connection, and whether the session existed before.
fn attach(
    sessions: &mut FakeSessionStore,
    query: &str,
    behaviour: SessionBehaviour,
    replace: oneshot::Sender<()>,
) -> (String, u64, bool) {
    let asked_for = query.strip_prefix("resume=").and_then(|rest| rest.split_once("&seq=")).map(|it| it.0);
    let alive = asked_for.filter(|token| {
        let session = sessions.by_token.get(*token);
        session.is_some_and(|session| session.lost_at.is_none_or(|at| at.elapsed() < behaviour.keep_duration))
    });
    let token = alive.map_or_else(|| format!("s_{}.secret", sessions.opened), str::to_owned);
    sessions.opened += 1;
    let session = sessions.by_token.entry(token.clone()).or_default();
    session.lost_at = None;
    session.connections += 1;
    if let Some(before) = session.replace.replace(replace) {
        let _ = before.send(());
    }
    (token, session.connections, alive.is_some())
}
