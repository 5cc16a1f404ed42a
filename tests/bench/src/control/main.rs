//! The controls: the minimal cost of heartbeats and a broadcast over WebSocket in Rust.
//!
//! By default the control consists of a bare hyper upgrade, a tuned tokio-tungstenite, one task per
//! connection, pings from one thread, and one channel. With `--bare` it uses epoll instead of all these. It
//! has no sessions, no timeouts, and no cursors that outlive a connection: any higher cost of the server is
//! the price of these features.

mod bare;
mod frames;
mod hub;
mod messages;
mod pinger;
mod socket;
mod websocket;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tokio::net::TcpListener;

use hub::Hub;
use pinger::{PingSchedule, Pinger};

/// A WebSocket server that pings its clients, broadcasts what they publish, and does nothing else
#[derive(Debug, Parser)]
#[command(name = "control")]
struct ControlArgs {
    /// Address that clients connect to
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// How often each client is pinged
    #[arg(long, value_name = "D", default_value = "10s", value_parser = humantime::parse_duration)]
    interval: Duration,
    /// How often the pinging thread wakes up. Clients whose pings are due by then are pinged in one batch
    #[arg(long, value_name = "D", default_value = "100ms", value_parser = humantime::parse_duration)]
    batch: Duration,
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
fn run(args: &ControlArgs) -> io::Result<std::convert::Infallible> {
    rlimit::increase_nofile_limit(u64::MAX)?;
    let pace = PingSchedule::new(args.interval, args.batch).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "the interval must be at least two batches")
    })?;
    let listener = socket::listen(args.listen)?;
    let address = listener.local_addr()?;
    let mut out = io::stdout();
    writeln!(out, "control")?;
    writeln!(out, "  clients      ws://{address}/ws")?;
    out.flush()?;
    if args.bare {
        return bare::serve(listener, pace);
    }
    let pinger = Pinger::start(pace)?;
    // Configure the runtime like the server's.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().thread_name("control-io").enable_io().build()?;
    runtime.block_on(async { runtime.spawn(accept(listener, pinger)).await })?
}

async fn accept(
    listener: std::net::TcpListener,
    pinger: Arc<Pinger>,
) -> io::Result<std::convert::Infallible> {
    let listener = TcpListener::from_std(listener)?;
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
