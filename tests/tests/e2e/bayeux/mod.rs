// Cuts, restarts, a server that stands still, a client that is killed.
mod broken;
// CometD and Faye in Chromium.
mod browser;
// Each stock client by each transport.
mod clients;
// Many at once.
mod crowd;
// Nothing lost, nothing doubled: the acknowledgement extension.
mod lossless;
// nginx with its defaults in front.
mod nginx;
// The same, and what is told of what is lost, of a client that changes transports.
mod raw_cuts;
// Byte by byte.
mod wire;

use std::net::SocketAddr;

use encke_tests::stock::{ALL, BayeuxTransport};
use encke_tests::{RunningServer, BayeuxLibrary, StockClient};

/// A stock client that is running, and what it may use.
struct Running {
    name: String,
    stock: BayeuxLibrary,
    transport: BayeuxTransport,
    client: StockClient,
    session: String,
}

/// Starts all of them side by side, each following these channels, and waits until all do.
#[track_caller]
fn start_all(server: SocketAddr, channels: &[&str]) -> Vec<Running> {
    start(&ALL, server, channels)
}

/// Starts these side by side, each following these channels, and waits until all do.
#[track_caller]
fn start(which: &[(BayeuxLibrary, BayeuxTransport)], server: SocketAddr, channels: &[&str]) -> Vec<Running> {
    let start = |&(stock, transport): &(BayeuxLibrary, BayeuxTransport)| {
        (stock, transport, StockClient::start(stock, transport, server, channels))
    };
    let started: Vec<_> = which.iter().map(start).collect();
    let ready = started.into_iter().map(|(stock, transport, client)| {
        let session = client.await_ready(transport, channels);
        Running { name: format!("{stock:?} by {transport:?}"), stock, transport, client, session }
    });
    ready.collect()
}

/// Publishes numbers on a channel, from nowhere.
fn publish(server: &RunningServer, channel: &str, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        server.admin.publish(channel, number);
    }
}

/// So many numbers, from 1 on.
fn up_to(last: u64) -> Vec<serde_json::Value> {
    (1..=last).map(serde_json::Value::from).collect()
}
