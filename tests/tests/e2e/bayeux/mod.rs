// Network cuts, server restarts, and sessions that an administrator ends.
mod broken;
// CometD and Faye in Chromium.
mod browser;
// Each stock client with each transport.
mod clients;
// The acknowledgement extension prevents losses and duplicates.
mod lossless;
// Clients behind nginx with its default settings.
mod nginx;
// Without the extension, losses are reported.
mod raw_cuts;
// The protocol byte by byte.
mod wire;

use std::net::SocketAddr;

use encke_tests::stock::{ALL, BayeuxTransport};
use encke_tests::{BayeuxLibrary, StockClient};

/// A running stock client.
struct StartedClient {
    name: String,
    stock: BayeuxLibrary,
    transport: BayeuxTransport,
    client: StockClient,
    session: String,
}

/// Starts all stock clients in parallel and waits until each of them is subscribed to these channels.
#[track_caller]
fn start_all(server: SocketAddr, channels: &[&str]) -> Vec<StartedClient> {
    start(&ALL, server, channels)
}

/// Starts these clients in parallel and waits until each of them is subscribed to these channels.
#[track_caller]
fn start(
    selected: &[(BayeuxLibrary, BayeuxTransport)],
    server: SocketAddr,
    channels: &[&str],
) -> Vec<StartedClient> {
    let start = |&(stock, transport): &(BayeuxLibrary, BayeuxTransport)| {
        (stock, transport, StockClient::start(stock, transport, server, channels))
    };
    let started: Vec<_> = selected.iter().map(start).collect();
    let ready = started.into_iter().map(|(stock, transport, client)| {
        let session = client.await_ready(transport, channels);
        StartedClient { name: format!("{stock:?} by {transport:?}"), stock, transport, client, session }
    });
    ready.collect()
}

/// Returns the numbers from 1 to `last`.
fn up_to(last: u64) -> Vec<serde_json::Value> {
    (1..=last).map(serde_json::Value::from).collect()
}
