//! The controls: what heartbeats and a broadcast over WebSocket cost in Rust when there is nothing else.
//!
//! A bare hyper upgrade and a tuned tokio-tungstenite, one task a connection, pings from one thread, one channel; or, with `--bare`, epoll
//! without any of these. No sessions, no timeouts, no cursors that outlive a connection: what the server costs beyond this is the price of
//! what it does beyond this.

mod bare;
mod frames;
mod hub;
mod pinger;
mod socket;
mod websocket;
mod words;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tokio::net::TcpListener;

use hub::Hub;
use pinger::{Pace, Pinger};

/// A WebSocket server that pings its clients, passes on what one publishes to all, and does nothing else.
#[derive(Debug, Parser)]
#[command(name = "control")]
struct Args {
    /// Where clients connect.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// How often each client is pinged.
    #[arg(long, value_name = "D", default_value = "10s", value_parser = humantime::parse_duration)]
    interval: Duration,
    /// How often the pinging thread wakes up. Everyone whose ping is due by then is pinged in one batch.
    #[arg(long, value_name = "D", default_value = "100ms", value_parser = humantime::parse_duration)]
    batch: Duration,
    /// One thread and epoll, without tokio and hyper.
    #[arg(long)]
    bare: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(never) => match never {},
        Err(error) => {
            // Nowhere to complain to when stderr is closed.
            let _ = writeln!(io::stderr(), "control: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until the process is killed.
fn run(args: &Args) -> io::Result<std::convert::Infallible> {
    rlimit::increase_nofile_limit(u64::MAX)?;
    let pace = Pace::new(args.interval, args.batch).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "the interval must have room for two batches")
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
    // As the server builds it.
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
            // The peer was gone before we came to it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
    }
}
