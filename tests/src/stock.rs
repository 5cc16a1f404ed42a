//! Unmodified third-party Bayeux clients: `CometD` and Faye under node, and aiocometd under Python.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::network::NetworkLink;
use crate::waiting::{eventually, until};
use crate::{Script, binaries};

/// Client library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BayeuxLibrary {
    /// npm's `cometd`.
    CometD,
    /// npm's `cometd` with its acknowledgement extension.
    CometDWithAck,
    /// npm's `faye`.
    Faye,
    /// The Python package `aiocometd-noloop`.
    Aiocometd,
}

/// Transport that the client may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BayeuxTransport {
    /// HTTP requests only.
    LongPolling,
    /// A WebSocket, as soon as the client supports it: Faye and aiocometd begin with a request.
    WebSocket,
}

/// All combinations of library and transport.
pub const ALL: [(BayeuxLibrary, BayeuxTransport); 8] = [
    (BayeuxLibrary::CometD, BayeuxTransport::LongPolling),
    (BayeuxLibrary::CometD, BayeuxTransport::WebSocket),
    (BayeuxLibrary::CometDWithAck, BayeuxTransport::LongPolling),
    (BayeuxLibrary::CometDWithAck, BayeuxTransport::WebSocket),
    (BayeuxLibrary::Faye, BayeuxTransport::LongPolling),
    (BayeuxLibrary::Faye, BayeuxTransport::WebSocket),
    (BayeuxLibrary::Aiocometd, BayeuxTransport::LongPolling),
    (BayeuxLibrary::Aiocometd, BayeuxTransport::WebSocket),
];

/// Client that runs until this is dropped. It then exits without closing its session.
#[derive(Debug)]
pub struct StockClient {
    script: Script,
}

impl BayeuxTransport {
    /// Returns the transport's name in the Bayeux protocol.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LongPolling => "long-polling",
            Self::WebSocket => "websocket",
        }
    }
}

impl StockClient {
    /// Starts a client that connects to `server` and subscribes to `channels` after its first handshake.
    #[must_use]
    #[track_caller]
    pub fn start(
        stock: BayeuxLibrary,
        transport: BayeuxTransport,
        server: SocketAddr,
        channels: &[&str],
    ) -> Self {
        Self::start_at(stock, transport, &format!("http://{server}/bayeux"), channels)
    }

    /// Like [`start`](Self::start), with a whole URL.
    #[must_use]
    #[track_caller]
    pub fn start_at(stock: BayeuxLibrary, transport: BayeuxTransport, url: &str, channels: &[&str]) -> Self {
        let options = options(stock, transport, channels);
        let script = match stock {
            BayeuxLibrary::Aiocometd => {
                Script::spawn(aiocometd(Command::new(binaries::python_with_aiocometd()), url, &options))
            }
            _ => Script::start(script(stock), &[url, &options]),
        };
        Self { script }
    }

    /// Like [`start`](Self::start), at the far end of a link.
    #[must_use]
    #[track_caller]
    pub fn start_beyond(
        link: &NetworkLink,
        stock: BayeuxLibrary,
        transport: BayeuxTransport,
        server: SocketAddr,
        channels: &[&str],
    ) -> Self {
        let (url, options) = (format!("http://{server}/bayeux"), options(stock, transport, channels));
        let python = || binaries::python_with_aiocometd().display().to_string();
        let script = match stock {
            BayeuxLibrary::Aiocometd => Script::spawn(aiocometd(link.command(&python()), &url, &options)),
            _ => Script::start_beyond(link, script(stock), &[&url, &options]),
        };
        Self { script }
    }

    /// Waits until the client has a session, uses this transport and is subscribed to these channels. Returns
    /// the id of its session.
    #[track_caller]
    pub fn await_ready(&self, transport: BayeuxTransport, channels: &[&str]) -> String {
        let session = self.await_session(1);
        until(format!("the client uses {transport:?}; so far {:?}", self.values("transport")), || {
            self.values("transport").last().is_some_and(|used| used == transport.name())
        });
        self.await_object("connect", 1);
        self.await_subscribed(channels, 1);
        session
    }

    /// Waits for the `nth` successful handshake and returns the session's id.
    #[track_caller]
    pub fn await_session(&self, nth: usize) -> String {
        let session = || {
            let handshakes = self.values("handshake");
            let successful =
                handshakes.iter().filter(|handshake| handshake["successful"] == true).nth(nth - 1)?;
            Some(session_of(successful["clientId"].as_str().expect("a handshake reply has a client id")))
        };
        // If the handshake fails, this wait reports what the script printed instead.
        if nth == 1 {
            self.await_object("handshake", 1);
        }
        eventually(format!("handshake number {nth} succeeds"), session)
    }

    /// Waits until the server has confirmed a subscription to each of these channels `times` times.
    #[track_caller]
    pub fn await_subscribed(&self, channels: &[&str], times: usize) {
        for channel in channels {
            until(format!("{times} confirmed subscriptions to {channel}"), || {
                self.subscribe_confirmations(channel) >= times
            });
        }
    }

    /// Returns how often the server has confirmed a subscription to this channel.
    #[must_use]
    pub fn subscribe_confirmations(&self, channel: &str) -> usize {
        let names = |reply: &Value| match &reply["subscription"] {
            Value::Array(names) => names.contains(&json!(channel)),
            name => name == channel,
        };
        let replies = self.values("subscribe");
        replies.iter().filter(|reply| reply["successful"] == true && names(reply)).count()
    }

    /// Subscribes to another channel and waits for the confirmation.
    #[track_caller]
    pub fn subscribe(&mut self, channel: &str) {
        let before = self.subscribe_confirmations(channel);
        self.send_command(&json!({ "subscribe": channel }));
        self.await_subscribed(&[channel], before + 1);
    }

    /// Publishes without waiting for the reply.
    #[track_caller]
    pub fn publish(&mut self, channel: &str, data: impl Into<Value>) {
        let data: Value = data.into();
        self.send_command(&json!({ "publish": [channel, data] }));
    }

    /// Returns the data that the client's subscriptions received from a channel, in order of arrival.
    #[must_use]
    pub fn delivered(&self, channel: &str) -> Vec<Value> {
        data(self.values("message"), channel)
    }

    /// Returns the data of each message that the server sent on a channel, once per message regardless of how
    /// many subscriptions match.
    #[must_use]
    pub fn received(&self, channel: &str) -> Vec<Value> {
        data(self.values("came"), channel)
    }

    /// Waits until exactly these messages have arrived on a channel, once each and in order.
    ///
    /// # Panics
    /// Panics if other messages arrive.
    #[track_caller]
    pub fn await_delivered(&self, channel: &str, expected: &[Value]) {
        until(format!("{} messages arrive on {channel}", expected.len()), || {
            self.delivered(channel).len() >= expected.len()
        });
        assert_eq!(self.delivered(channel), expected, "{channel}");
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

/// Returns the id of the session that a client id belongs to.
#[must_use]
pub fn session_of(client_id: &str) -> String {
    client_id.split('.').next().unwrap_or_default().to_owned()
}

fn data(messages: Vec<Value>, channel: &str) -> Vec<Value> {
    let of_channel = messages.into_iter().filter(|message| message["channel"] == channel);
    of_channel.map(|mut message| message["data"].take()).collect()
}

fn script(stock: BayeuxLibrary) -> &'static str {
    match stock {
        BayeuxLibrary::CometD | BayeuxLibrary::CometDWithAck => "cometd.mjs",
        BayeuxLibrary::Faye => "faye.mjs",
        BayeuxLibrary::Aiocometd => unreachable!("aiocometd is not a node script"),
    }
}

fn options(stock: BayeuxLibrary, transport: BayeuxTransport, channels: &[&str]) -> String {
    let ack = stock == BayeuxLibrary::CometDWithAck;
    json!({ "transport": transport.name(), "subscribe": channels, "ack": ack }).to_string()
}

fn aiocometd(mut python: Command, url: &str, options: &str) -> Command {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("bayeux/aiocometd_client.py");
    python.arg(client).args([url, options]);
    python
}
