//! A small server that implements Encke's wire protocol with a chosen [`Behaviour`]: hello, pings and pongs,
//! channels, resuming.
//!
//! It lives for a few seconds and keeps everything in memory.

mod connection;
mod state;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::state::ServerState;
use super::behaviour::Behaviour;

/// A running server. Dropping it ends all its connections.
#[derive(Debug)]
pub struct FaultyServer {
    address: SocketAddr,
    seen: watch::Receiver<Seen>,
    _task: JoinSet<Infallible>,
}

/// Record of the connections so far.
#[derive(Debug, Default)]
pub struct Seen {
    /// Number of hellos sent.
    pub greeted: usize,
    pub pongs: usize,
    /// Token and seq of each resume, in order of arrival.
    pub resumes: Vec<(String, u64)>,
}

impl FaultyServer {
    /// Starts the server on a free loopback port. `behave` returns the behaviour for the n-th connection, counted
    /// from 0.
    ///
    /// # Errors
    /// Returns an error if no port can be opened.
    pub async fn start(behave: impl Fn(usize) -> Behaviour + Send + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, state) = (listener.local_addr()?, Arc::<ServerState>::default());
        let (seen, mut task) = (state.seen.subscribe(), JoinSet::new());
        task.spawn(async move {
            let mut connections = JoinSet::new();
            let mut behaviours = (0..).map(behave);
            loop {
                tokio::select! {
                    // Ignore failures to accept: the affected client reports an error.
                    Ok((stream, _)) = listener.accept() => {
                        let behaviour = behaviours.next().expect("the numbers do not run out");
                        // Clients may disconnect at any time. The counts of the run show what matters.
                        connections.spawn(connection::serve(stream, behaviour, state.clone()));
                    }
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Ok(Self { address, seen, _task: task })
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("ws://{}/ws", self.address)
    }

    #[must_use]
    pub fn seen(&self) -> watch::Ref<'_, Seen> {
        self.seen.borrow()
    }

    /// Waits until this many clients have been sent a hello.
    pub async fn has_greeted(&self, clients: usize) {
        // The sender lives as long as the server.
        let _ = self.seen.clone().wait_for(|seen| seen.greeted >= clients).await;
    }
}
