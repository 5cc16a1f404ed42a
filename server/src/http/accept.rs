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

/// How long to wait when there is no descriptor for another connection.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// A bound address. Connections can come, and wait, before [`accept`] runs.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: std::net::TcpListener,
    pub(crate) address: SocketAddr,
}

impl Listener {
    /// What is set here, every accepted socket inherits: it costs no system call a connection.
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
        let socket = std::net::TcpListener::from(socket);
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }
}

/// Accepts until the server drains, and hands each connection to `serve`.
pub(crate) async fn accept(listener: Listener, shared: Arc<Shared>, serve: impl Fn(TcpStream, Arc<Shared>)) {
    let accepting = pin!(accept_to_the_end(listener, Arc::clone(&shared), serve));
    select(accepting, pin!(shared.stop_accepting.wait())).await;
}

/// Accepts for as long as the runtime lives.
pub(crate) async fn accept_to_the_end(
    listener: Listener,
    shared: Arc<Shared>,
    serve: impl Fn(TcpStream, Arc<Shared>),
) {
    let listener = match TcpListener::from_std(listener.socket) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot listen"),
    };
    let mut failing = false;
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                failing = false;
                serve(socket, Arc::clone(&shared));
            }
            // The peer was gone before we came to it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                shared.metrics.accept_failed();
                if !std::mem::replace(&mut failing, true) {
                    tracing::error!(%error, "cannot accept connections; trying on");
                }
                shared.timeouts.sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }
}
