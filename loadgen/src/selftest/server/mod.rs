//! A small server of Encke's wire with a fault to order: hello, ping and pong, channels, resuming, taking over.
//!
//! It runs on the thread of its owner, beside the scenario that looks for the fault, and keeps everything in memory
//! for as long as it lives, which is a few seconds.

mod connection;
mod session;
mod world;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

use self::world::World;
use super::fault::Fault;

/// Dropping it ends all its connections.
pub(super) struct Server {
    address: SocketAddr,
    _task: JoinSet<Infallible>,
}

impl Server {
    /// Listens on a loopback port of its own.
    pub(super) async fn start(fault: Fault) -> io::Result<Self> {
        let listener = listen()?;
        let address = listener.local_addr()?;
        let mut task = JoinSet::new();
        task.spawn_local(accept(listener, Rc::new(World::new(fault))));
        Ok(Self { address, _task: task })
    }

    pub(super) fn url(&self) -> String {
        format!("ws://{}/ws", self.address)
    }
}

/// What the kernel keeps for a client that does not read; it doubles this. With the usual, which grows, such a one
/// would go unnoticed for megabytes.
const SEND_BUFFER_BYTES: u32 = 16 * 1024;
const BACKLOG: u32 = 128;

fn listen() -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    // Accepted sockets inherit it.
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    socket.listen(BACKLOG)
}

async fn accept(listener: TcpListener, world: Rc<World>) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // What could not be accepted shows as an error of the client that it was.
            Ok((stream, _)) = listener.accept() => drop(connections.spawn_local(connection::serve(stream, world.clone()))),
            Some(_) = connections.join_next() => {}
        }
    }
}
