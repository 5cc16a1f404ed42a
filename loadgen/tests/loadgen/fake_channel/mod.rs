//! A server with one channel. It keeps everything that was published, so a resumed session can simply
//! continue to read. On demand the server misbehaves towards the session that was opened first.

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

/// Misbehaviour towards the first session. Messages are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ChannelFault {
    None,
    Lose(usize),
    Double(usize),
    /// Swaps this message and the next.
    Swap(usize),
    /// Sends a gap instead of this message and the next.
    Gap(usize),
    /// Treats reconnecting clients as new.
    Forget,
    /// Sends everything again to reconnecting clients.
    Repeat,
    /// Accepts reconnecting clients regardless of how late they are.
    NeverExpire,
    /// Disconnects clients that do not read.
    DisconnectSlow,
    /// Rejects all subscriptions.
    RefuseSubscriptions,
    /// Rejects all publishes.
    RefusePublications,
}

pub(crate) struct FakeChannel {
    clients: SocketAddr,
    admin: SocketAddr,
    shared: Arc<FakeChannelState>,
}

struct FakeChannelState {
    fault: ChannelFault,
    sessions: AtomicUsize,
    acks: AtomicU64,
    /// When each session lost its connection, keyed by session number.
    lost_at: Mutex<HashMap<usize, Instant>>,
    log: watch::Sender<Vec<Arc<str>>>,
    /// Heads of the requests to the admin listener.
    calls: Mutex<Vec<String>>,
}

impl FakeChannel {
    pub(crate) async fn start(fault: ChannelFault) -> Self {
        let (clients, at) = listen().await;
        let (admin, admin_at) = listen().await;
        let shared = Arc::new(FakeChannelState {
            fault,
            sessions: AtomicUsize::new(0),
            acks: AtomicU64::new(0),
            lost_at: Mutex::default(),
            log: watch::Sender::new(Vec::new()),
            calls: Mutex::default(),
        });
        // Clients may disconnect at any time. The counts that the tests assert show any failure that matters.
        tokio::spawn(serve_each(
            clients,
            shared.clone(),
            |stream, shared: Arc<FakeChannelState>| async move {
                drop(client::serve(stream, &shared).await);
            },
        ));
        tokio::spawn(serve_each(admin, shared.clone(), |stream, shared: Arc<FakeChannelState>| async move {
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

    /// Returns the data of each published message, as JSON.
    pub(crate) fn log(&self) -> Vec<String> {
        self.shared.log.borrow().iter().map(|data| data.to_string()).collect()
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.shared.calls.lock().expect("the mutex is not poisoned").clone()
    }
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    (listener, address)
}

async fn serve_each<F>(
    listener: TcpListener,
    shared: Arc<FakeChannelState>,
    serve: fn(TcpStream, Arc<FakeChannelState>) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let (stream, _) = listener.accept().await.expect("accepting works");
        tokio::spawn(serve(stream, shared.clone()));
    }
}

fn publish(data: &Value, shared: &FakeChannelState) {
    shared.log.send_modify(|log| log.push(data.to_string().into()));
}
