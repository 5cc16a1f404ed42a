//! Bayeux clients as others have built them, unmodified: those of `CometD` and Faye in node, and aiocometd in Python.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::network::NetworkLink;
use crate::waiting::{eventually, until};
use crate::{Script, binaries};

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stock {
    /// npm's `cometd`.
    CometD,
    /// The same with its acknowledgement extension.
    CometDWithAck,
    /// npm's `faye`.
    Faye,
    /// The Python package `aiocometd-noloop`.
    Aiocometd,
}

/// What it is allowed to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Requests only.
    LongPolling,
    /// A WebSocket, as soon as the client can: Faye and aiocometd begin with a request.
    WebSocket,
}

/// Each client by each transport.
pub const ALL: [(Stock, Transport); 8] = [
    (Stock::CometD, Transport::LongPolling),
    (Stock::CometD, Transport::WebSocket),
    (Stock::CometDWithAck, Transport::LongPolling),
    (Stock::CometDWithAck, Transport::WebSocket),
    (Stock::Faye, Transport::LongPolling),
    (Stock::Faye, Transport::WebSocket),
    (Stock::Aiocometd, Transport::LongPolling),
    (Stock::Aiocometd, Transport::WebSocket),
];

/// A client that runs until this is dropped; then it leaves without a word.
#[derive(Debug)]
pub struct StockClient {
    script: Script,
}

impl Transport {
    /// Its name in Bayeux.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LongPolling => "long-polling",
            Self::WebSocket => "websocket",
        }
    }
}

impl StockClient {
    /// Starts one that comes to this address, and follows these channels from its first handshake on.
    #[must_use]
    #[track_caller]
    pub fn start(stock: Stock, transport: Transport, server: SocketAddr, channels: &[&str]) -> Self {
        Self::start_at(stock, transport, &format!("http://{server}/bayeux"), channels)
    }

    /// The same with a URL of its own.
    #[must_use]
    #[track_caller]
    pub fn start_at(stock: Stock, transport: Transport, url: &str, channels: &[&str]) -> Self {
        let options = options(stock, transport, channels);
        let script = match stock {
            Stock::Aiocometd => {
                Script::spawn(aiocometd(Command::new(binaries::python_with_aiocometd()), url, &options))
            }
            _ => Script::start(script(stock), &[url, &options]),
        };
        Self { script }
    }

    /// The same at the far end of a link.
    #[must_use]
    #[track_caller]
    pub fn start_beyond(
        link: &NetworkLink,
        stock: Stock,
        transport: Transport,
        server: SocketAddr,
        channels: &[&str],
    ) -> Self {
        let (url, options) = (format!("http://{server}/bayeux"), options(stock, transport, channels));
        let python = || binaries::python_with_aiocometd().display().to_string();
        let script = match stock {
            Stock::Aiocometd => Script::spawn(aiocometd(link.command(&python()), &url, &options)),
            _ => Script::start_beyond(link, script(stock), &[&url, &options]),
        };
        Self { script }
    }

    /// Waits until it has a session, uses this transport and follows these channels: the session's id.
    #[track_caller]
    pub fn await_ready(&self, transport: Transport, channels: &[&str]) -> String {
        let session = self.await_session(1);
        until(format!("it uses {transport:?}; {:?}", self.heard("transport")), || {
            self.heard("transport").last().is_some_and(|used| used == transport.name())
        });
        self.await_object("connect", 1);
        self.await_followed(channels, 1);
        session
    }

    /// The id of the session of its `nth` successful handshake.
    #[track_caller]
    pub fn await_session(&self, nth: usize) -> String {
        let session = || {
            let handshakes = self.heard("handshake");
            let successful =
                handshakes.iter().filter(|handshake| handshake["successful"] == true).nth(nth - 1)?;
            Some(session_of(successful["clientId"].as_str().expect("a handshake gives a client id")))
        };
        // What there is instead helps to see why.
        if nth == 1 {
            self.await_object("handshake", 1);
        }
        eventually(format!("handshake number {nth} succeeds"), session)
    }

    /// Waits until it was told so many times that it follows each of these.
    #[track_caller]
    pub fn await_followed(&self, channels: &[&str], times: usize) {
        for channel in channels {
            until(format!("it follows {channel}, told {times} times"), || self.followed(channel) >= times);
        }
    }

    /// How often it was told that it follows this.
    #[must_use]
    pub fn followed(&self, channel: &str) -> usize {
        let names = |reply: &Value| match &reply["subscription"] {
            Value::Array(names) => names.contains(&json!(channel)),
            name => name == channel,
        };
        let replies = self.heard("subscribe");
        replies.iter().filter(|reply| reply["successful"] == true && names(reply)).count()
    }

    /// Follows one more channel, and waits until it does.
    #[track_caller]
    pub fn subscribe(&mut self, channel: &str) {
        let before = self.followed(channel);
        self.tell(&json!({ "subscribe": channel }));
        self.await_followed(&[channel], before + 1);
    }

    /// Publishes, and awaits nothing.
    #[track_caller]
    pub fn publish(&mut self, channel: &str, data: impl Into<Value>) {
        let data: Value = data.into();
        self.tell(&json!({ "publish": [channel, data] }));
    }

    /// What its subscriptions were given from a channel, in the order in which it came.
    #[must_use]
    pub fn given(&self, channel: &str) -> Vec<Value> {
        data(self.heard("message"), channel)
    }

    /// What came from the server on a channel, however many of its subscriptions match.
    #[must_use]
    pub fn came(&self, channel: &str) -> Vec<Value> {
        data(self.heard("came"), channel)
    }

    /// These come on a channel, once and in order, and nothing else.
    ///
    /// # Panics
    /// When others come.
    #[track_caller]
    pub fn await_given(&self, channel: &str, expected: &[Value]) {
        until(format!("{} messages come on {channel}", expected.len()), || {
            self.given(channel).len() >= expected.len()
        });
        assert_eq!(self.given(channel), expected, "{channel}");
    }
}

impl Deref for StockClient {
    type Target = Script;

    fn deref(&self) -> &Script {
        &self.script
    }
}

impl DerefMut for StockClient {
    fn deref_mut(&mut self) -> &mut Script {
        &mut self.script
    }
}

/// The id of the session that a client id is the key to.
#[must_use]
pub fn session_of(client_id: &str) -> String {
    client_id.split('.').next().unwrap_or_default().to_owned()
}

fn data(messages: Vec<Value>, channel: &str) -> Vec<Value> {
    let of_channel = messages.into_iter().filter(|message| message["channel"] == channel);
    of_channel.map(|mut message| message["data"].take()).collect()
}

fn script(stock: Stock) -> &'static str {
    match stock {
        Stock::CometD | Stock::CometDWithAck => "cometd.mjs",
        Stock::Faye => "faye.mjs",
        Stock::Aiocometd => unreachable!("it is no script of node"),
    }
}

fn options(stock: Stock, transport: Transport, channels: &[&str]) -> String {
    let ack = stock == Stock::CometDWithAck;
    json!({ "transport": transport.name(), "subscribe": channels, "ack": ack }).to_string()
}

fn aiocometd(mut python: Command, url: &str, options: &str) -> Command {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("bayeux/aiocometd_client.py");
    python.arg(client).args([url, options]);
    python
}
