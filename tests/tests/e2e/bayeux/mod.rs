// Cuts, restarts, a server that pauses, a client that is killed.
mod broken;
// CometD and Faye in Chromium.
mod browser;
// Each stock client with each transport.
mod clients;
// Many clients at once.
mod crowd;
// No losses and no duplicates: the acknowledgement extension.
mod lossless;
// Behind nginx with its default settings.
mod nginx;
// The same for a client that changes transports, and reports of losses without the extension.
mod raw_cuts;
// The protocol byte by byte.
mod wire;

use std::net::SocketAddr;

use encke_tests::stock::{ALL, BayeuxTransport};
use encke_tests::{BayeuxLibrary, RunningServer, StockClient};

/// A running stock client.
struct StartedClient {
    name: String,
    stock: BayeuxLibrary,
    transport: BayeuxTransport,
    client: StockClient,
    session: String,
}

/// Starts all stock clients in parallel, each subscribed to these channels, and waits until all are.
#[track_caller]
fn start_all(server: SocketAddr, channels: &[&str]) -> Vec<StartedClient> {
    start(&ALL, server, channels)
}

/// Starts these clients in parallel, each subscribed to these channels, and waits until all are.
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

/// Publishes numbers to a channel through the API.
fn publish(server: &RunningServer, channel: &str, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        server.admin.publish(channel, number);
    }
}

/// Numbers from 1 to `last`.
fn up_to(last: u64) -> Vec<serde_json::Value> {
    (1..=last).map(serde_json::Value::from).collect()
}
