//! A server with one channel. It keeps everything that was published, so resuming is reading on; and it misbehaves
//! on demand, towards the session that was opened first.

mod admin;
mod client;
mod stream;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

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
            drop(client::serve(stream, &shared).await);
        }));
        tokio::spawn(serve_each(admin, shared.clone(), |stream, shared: Arc<Shared>| async move {
            drop(admin::serve(stream, &shared).await);
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

fn publish(data: &Value, shared: &Shared) {
    shared.log.send_modify(|log| log.push(data.to_string().into()));
}
