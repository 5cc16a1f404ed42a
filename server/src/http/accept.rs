use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use crate::config::Config;
use crate::server::Shared;

/// How often to log that connections cannot be accepted.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// How long to wait when there is no descriptor for another connection.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// A bound address. Connections can come, and wait, before [`accept`] runs.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    pub(crate) address: SocketAddr,
}

impl Listener {
    /// Must be called within the runtime. What is set here, every accepted socket inherits: it costs no system call
    /// a connection.
    pub(crate) fn bind(address: SocketAddr, config: &Config) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        // Heartbeats and replies are small, and waited for.
        socket.set_tcp_nodelay(true)?;
        // A client that never reads would otherwise take up to 4 MB of kernel memory.
        socket.set_send_buffer_size(config.limits.send_buffer)?;
        socket.bind(&address.into())?;
        socket.listen(config.backlog)?;
        let socket = TcpListener::from_std(socket.into())?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }
}

/// Accepts until the server drains, and hands each connection to `serve`.
pub(crate) async fn accept(
    listener: Listener,
    shared: Arc<Shared>,
    serve: impl Fn(TcpStream, SocketAddr, Arc<Shared>),
) {
    let accepting = pin!(accept_to_the_end(listener, Arc::clone(&shared), serve));
    select(accepting, pin!(shared.stop_accepting.wait())).await;
}

/// Accepts for as long as the runtime lives.
pub(crate) async fn accept_to_the_end(
    listener: Listener,
    shared: Arc<Shared>,
    serve: impl Fn(TcpStream, SocketAddr, Arc<Shared>),
) {
    let mut quiet_until = None;
    loop {
        match listener.socket.accept().await {
            Ok((socket, peer)) => serve(socket, peer, Arc::clone(&shared)),
            // The peer was gone before we came to it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                shared.metrics.accept_failed();
                let now = shared.timeouts.clock().now();
                if quiet_until.is_none_or(|until| now >= until) {
                    quiet_until = Some(now + LOG_INTERVAL);
                    tracing::error!(%error, "cannot accept connections; trying on");
                }
                shared.timeouts.sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }
}
