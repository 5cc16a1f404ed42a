//! The controls: the minimal cost of heartbeats and a broadcast over WebSocket in Rust.
//!
//! By default the control consists of a bare hyper upgrade, a tuned tokio-tungstenite, one task per
//! connection, pings from one thread, and one channel. With `--bare` it uses epoll instead of all these. It
//! has no sessions, no timeouts, and no cursors that outlive a connection: any higher cost of the server is
//! the price of these features.

mod bare;
mod hub;
mod messages;
mod pinger;
mod websocket;

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use socket2::{Domain, Protocol, Socket, Type};

use hub::Hub;
use pinger::{BATCH, Pinger};

/// Same as the server's default.
const BACKLOG: i32 = 4096;
const SEND_BUFFER: usize = 64 * 1024;

/// A WebSocket server that pings its clients, broadcasts what they publish, and does nothing else
#[derive(Debug, Parser)]
#[command(name = "control")]
struct ControlArgs {
    /// How often each client is pinged
    #[arg(long, value_name = "D", default_value = "10s", value_parser = humantime::parse_duration)]
    interval: Duration,
    /// Use one thread and epoll, without tokio and hyper
    #[arg(long)]
    bare: bool,
}

fn main() -> ExitCode {
    match run(&ControlArgs::parse()) {
        Ok(never) => match never {},
        Err(error) => {
            // Ignore failures: if stderr is closed, the error cannot be reported.
            let _ = writeln!(io::stderr(), "control: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until the process is killed.
fn run(args: &ControlArgs) -> io::Result<Infallible> {
    rlimit::increase_nofile_limit(u64::MAX)?;
    let batches = usize::try_from(args.interval.as_millis() / BATCH.as_millis()).unwrap_or_default();
    if batches < 2 {
        return Err(io::Error::other("the interval must be at least two batches"));
    }
    let listener = listen()?;
    writeln!(io::stdout(), "control\n  clients      ws://{}/ws", listener.local_addr()?)?;
    if args.bare {
        return bare::serve(listener, batches);
    }
    let pinger = Pinger::start(batches)?;
    // Configure the runtime like the server's.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().thread_name("control-io").enable_io().build()?;
    runtime.block_on(async { runtime.spawn(accept(listener, pinger)).await })?
}

/// Listens on a free port, with the server's socket options. Accepted sockets inherit them.
fn listen() -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

async fn accept(listener: TcpListener, pinger: Arc<Pinger>) -> io::Result<Infallible> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let hub = Arc::<Hub>::default();
    loop {
        match listener.accept().await {
            Ok((socket, _)) => websocket::serve(socket, Arc::clone(&pinger), Arc::clone(&hub)),
            // The peer closed the connection before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
    }
}
