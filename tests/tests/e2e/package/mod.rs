//! The JavaScript client in `server/client`, in node and in Chromium, over each of its transports.

mod blocked_transports;
pub(crate) mod broken_connections;
mod commands;
mod middlebox;
mod module_http;
mod npm;
mod persistence;
mod room;
mod server_restart;
mod tokens;

use std::net::SocketAddr;
use std::path::PathBuf;

use encke_tests::waiting::until;
use encke_tests::{RunningServer, Script};
use serde_json::{Value, json};

/// Runtime and transport of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClientKind {
    place: &'static str,
    transport: &'static str,
}

const KINDS: [ClientKind; 6] = [
    ClientKind { place: "node", transport: "websocket" },
    ClientKind { place: "node", transport: "events" },
    ClientKind { place: "node", transport: "poll" },
    ClientKind { place: "page", transport: "websocket" },
    ClientKind { place: "page", transport: "events" },
    ClientKind { place: "page", transport: "poll" },
];

/// Client kinds for tests that do not depend on the combination of Chromium and transport. Only one uses
/// Chromium, which takes a while to start.
const KINDS_WITH_ONE_PAGE: [ClientKind; 4] = [KINDS[0], KINDS[1], KINDS[2], KINDS[4]];

impl ClientKind {
    /// Starts a client of `server` that connects through `base`.
    fn start(self, server: &RunningServer, base: SocketAddr, options: &Value) -> Script {
        let mut all = json!({"transports": [self.transport], "ws": true});
        merge(&mut all, options);
        start(self.place, server, base, &all)
    }

    /// Starts a client that subscribes to these channels, and returns it with its hello. `options` are added
    /// to its options.
    #[track_caller]
    fn start_subscribed(
        self,
        server: &RunningServer,
        base: SocketAddr,
        channels: &[&str],
        options: &Value,
    ) -> (Script, Value) {
        let mut all = json!({ "channels": channels });
        merge(&mut all, options);
        let client = self.start(server, base, &all);
        await_subscribed(&client, channels);
        let hello = client.await_value("hello", 1);
        (client, hello)
    }
}

fn merge(into: &mut Value, from: &Value) {
    let object = into.as_object_mut().expect("options are an object");
    object.extend(from.as_object().expect("options are an object").clone());
}

/// Starts a client that connects to `base` with exactly these options.
fn start(place: &str, server: &RunningServer, base: SocketAddr, options: &Value) -> Script {
    let (base, options) = (format!("http://{base}"), options.to_string());
    if place == "page" {
        Script::start_in_browser("client_page.mjs", &[&base, &options, &server.public.to_string()])
    } else {
        Script::start("client.mjs", &[&base, &options])
    }
}

/// Waits until the server has confirmed the subscriptions to all channels.
#[track_caller]
fn await_subscribed(client: &Script, channels: &[&str]) {
    for channel in channels {
        let is_subscribed = || client.values("reply").iter().any(|reply| reply["ok"]["channel"] == *channel);
        until(format!("the client is subscribed to {channel}"), is_subscribed);
    }
}

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../server/client"].iter().collect()
}

pub(crate) fn session_id(hello: &Value) -> &str {
    hello["session"].as_str().expect("a hello has a session")
}

/// Returns the data received on a channel, in order of arrival.
fn data(client: &Script, channel: &str) -> Vec<u64> {
    let messages = client.values("message").into_iter().filter(|message| message["channel"] == channel);
    messages.map(|message| message["data"].as_u64().expect("numbers were published")).collect()
}

/// Asserts that the numbers from 1 to `last` arrive on `news`, once each and in order, and nothing else.
#[track_caller]
pub(crate) fn assert_news(client: &Script, last: u64) {
    client.await_object("message", usize::try_from(last).expect("a small number"));
    assert_eq!(data(client, "news"), Vec::from_iter(1..=last));
}

/// Returns the names of the states that the client has been in.
fn states(client: &Script) -> Vec<String> {
    let name = |state: &Value| state["state"].as_str().expect("a state has a name").to_owned();
    client.values("state").iter().map(name).collect()
}

/// Waits until the client is open for the `nth` time, counted from 1. Returns the state, which names the
/// transport.
#[track_caller]
fn await_open(client: &Script, nth: usize) -> Value {
    let open = || client.values("state").into_iter().filter(|state| state["state"] == "open");
    until(format!("open {nth} times; states so far: {:?}", states(client)), || open().count() >= nth);
    open().nth(nth - 1).expect("the state was counted")
}

/// Waits until the client is closed permanently and returns the reason.
#[track_caller]
fn await_closed(client: &Script) -> String {
    let closed = || client.values("state").into_iter().find(|state| state["state"] == "closed");
    until("the client is closed", || closed().is_some());
    closed().expect("the client is closed")["reason"]
        .as_str()
        .expect("a closed state has a reason")
        .to_owned()
}
