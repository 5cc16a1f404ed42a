//! A small server that implements Encke's wire protocol with a chosen fault: hello, pings and pongs,
//! channels, resuming, take-overs.
//!
//! The server runs on the thread of its owner, alongside the scenario that must detect the fault. It lives
//! for a few seconds and keeps everything in memory.

mod connection;
mod session;
mod state;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

use self::state::ServerState;
use super::fault::Fault;

/// A running server. Dropping it ends all its connections.
pub(super) struct FaultyServer {
    address: SocketAddr,
    _task: JoinSet<Infallible>,
}

impl FaultyServer {
    /// Starts the server on a free loopback port.
    pub(super) async fn start(fault: Fault) -> io::Result<Self> {
        let listener = listen()?;
        let address = listener.local_addr()?;
        let mut task = JoinSet::new();
        task.spawn_local(accept(listener, Rc::new(ServerState::new(fault))));
        Ok(Self { address, _task: task })
    }

    pub(super) fn url(&self) -> String {
        format!("ws://{}/ws", self.address)
    }
}

/// Size of the kernel's send buffer, which the kernel doubles. The default buffer grows with use, so
/// megabytes would be sent before a client that does not read is noticed.
const SEND_BUFFER_BYTES: u32 = 16 * 1024;
const BACKLOG: u32 = 128;

fn listen() -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    // Set the size before accepting: accepted sockets inherit it.
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    socket.listen(BACKLOG)
}

async fn accept(listener: TcpListener, world: Rc<ServerState>) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // Ignore failures to accept: the affected client reports an error.
            Ok((stream, _)) = listener.accept() => drop(connections.spawn_local(connection::serve(stream, world.clone()))),
            Some(_) = connections.join_next() => {}
        }
    }
}
