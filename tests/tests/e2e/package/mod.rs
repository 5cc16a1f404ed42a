//! The JavaScript client in `server/client`, in node and in Chromium, over each of its transports.

mod blocked;
mod commands;
mod cut;
mod npm;
mod restarted;
mod served;
mod tokens;

use std::net::SocketAddr;
use std::path::PathBuf;

use encke_tests::waiting::until;
use encke_tests::{RunningServer, Script};
use serde_json::{Value, json};

/// Runtime and transport of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    place: &'static str,
    transport: &'static str,
}

const KINDS: [Kind; 6] = [
    Kind { place: "node", transport: "websocket" },
    Kind { place: "node", transport: "events" },
    Kind { place: "node", transport: "poll" },
    Kind { place: "page", transport: "websocket" },
    Kind { place: "page", transport: "events" },
    Kind { place: "page", transport: "poll" },
];

/// Kinds for tests that do not depend on the combination of Chromium and transport: Chromium takes a while to
/// start.
const WITH_ONE_PAGE: [Kind; 4] = [
    Kind { place: "node", transport: "websocket" },
    Kind { place: "node", transport: "events" },
    Kind { place: "node", transport: "poll" },
    Kind { place: "page", transport: "events" },
];

impl Kind {
    /// Starts a client of `server` that connects through `base`.
    fn start(self, server: &RunningServer, base: SocketAddr, options: &Value) -> Script {
        let mut all = json!({"transports": [self.transport], "ws": true});
        merge(&mut all, options);
        start(self.place, server, base, &all)
    }

    /// Starts a client that subscribes to these channels, and returns it with its hello. `options` are
    /// additional.
    #[track_caller]
    fn follow(
        self,
        server: &RunningServer,
        base: SocketAddr,
        channels: &[&str],
        options: &Value,
    ) -> (Script, Value) {
        let mut all = json!({ "channels": channels });
        merge(&mut all, options);
        let client = self.start(server, base, &all);
        await_followed(&client, channels);
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
    let (address, base) = (server.public.to_string(), format!("http://{base}"));
    Script::start("client.mjs", &[place, &address, &base, &options.to_string()])
}

/// Waits until the server has confirmed the subscriptions to all channels.
#[track_caller]
fn await_followed(client: &Script, channels: &[&str]) {
    for channel in channels {
        let is_followed = || client.values("reply").iter().any(|reply| reply["ok"]["channel"] == *channel);
        until(format!("it follows {channel}"), is_followed);
    }
}

/// Folder of the npm package.
fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../server/client"].iter().collect()
}

/// Session id of a hello.
fn id(hello: &Value) -> &str {
    hello["session"].as_str().expect("a hello has a session")
}

/// Data received on a channel, in order of arrival.
fn data(client: &Script, channel: &str) -> Vec<u64> {
    let messages = client.values("message").into_iter().filter(|message| message["channel"] == channel);
    messages.map(|message| message["data"].as_u64().expect("numbers were published")).collect()
}

fn publish(server: &RunningServer, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        server.admin.publish("news", number);
    }
}

/// Asserts that the numbers from 1 to `last` arrive on `news`, once and in order, and nothing else.
#[track_caller]
fn assert_news(client: &Script, last: u64) {
    client.await_object("message", usize::try_from(last).expect("not that many"));
    assert_eq!(data(client, "news"), Vec::from_iter(1..=last));
}

/// Names of the states that the client has been in.
fn states(client: &Script) -> Vec<String> {
    let name = |state: &Value| state["state"].as_str().expect("a state has a name").to_owned();
    client.values("state").iter().map(name).collect()
}

/// Waits until the client is open for the `nth` time, counted from 1. Returns the state, which names the
/// transport.
#[track_caller]
fn await_open(client: &Script, nth: usize) -> Value {
    let open = || client.values("state").into_iter().filter(|state| state["state"] == "open");
    until(format!("open for the {nth}th time, of {:?}", states(client)), || open().count() >= nth);
    open().nth(nth - 1).expect("it was counted")
}

/// Waits until the client is closed for good. Returns the reason.
#[track_caller]
fn await_closed(client: &Script) -> String {
    let closed = || client.values("state").into_iter().find(|state| state["state"] == "closed");
    until("the client is closed", || closed().is_some());
    closed().expect("it is")["reason"].as_str().expect("there is a reason").to_owned()
}
