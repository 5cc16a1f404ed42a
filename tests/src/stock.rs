//! Unmodified third-party Bayeux clients: `CometD` and Faye under node, and aiocometd under Python.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::bayeux::session;
use crate::waiting::{eventually, until};
use crate::{Script, binaries, script};

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
pub struct StockClient(Script);

impl BayeuxLibrary {
    /// Returns the client's interpreter and its script.
    fn script(self) -> [PathBuf; 2] {
        let python_script = || Path::new(env!("CARGO_MANIFEST_DIR")).join("bayeux/aiocometd_client.py");
        match self {
            Self::CometD | Self::CometDWithAck => ["node".into(), script::in_browser_folder("cometd.mjs")],
            Self::Faye => ["node".into(), script::in_browser_folder("faye.mjs")],
            Self::Aiocometd => [binaries::python_with_aiocometd(), python_script()],
        }
    }
}

impl BayeuxTransport {
    /// Returns the transport's name in the Bayeux protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::LongPolling => "long-polling",
            Self::WebSocket => "websocket",
        }
    }
}

impl StockClient {
    /// Starts a client that connects to `server` and subscribes to `channels` after its first handshake.
    pub fn start(
        stock: BayeuxLibrary,
        transport: BayeuxTransport,
        server: SocketAddr,
        channels: &[&str],
    ) -> Self {
        let url = format!("http://{server}/bayeux");
        let ack = stock == BayeuxLibrary::CometDWithAck;
        let options = json!({ "transport": transport.name(), "subscribe": channels, "ack": ack });
        let [interpreter, script] = stock.script();
        let mut command = Command::new(interpreter);
        command.arg(script).args([url, options.to_string()]);
        Self(Script::spawn(command))
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
        let opened = || {
            let handshakes = self.values("handshake");
            let successful =
                handshakes.iter().filter(|handshake| handshake["successful"] == true).nth(nth - 1)?;
            Some(session(successful["clientId"].as_str().expect("a handshake reply has a client id")))
        };
        // If the handshake fails, this wait reports what the script printed instead.
        if nth == 1 {
            self.await_object("handshake", 1);
        }
        eventually(format!("handshake number {nth} succeeds"), opened)
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
    fn subscribe_confirmations(&self, channel: &str) -> usize {
        let names = |reply: &Value| match &reply["subscription"] {
            Value::Array(names) => names.contains(&json!(channel)),
            name => name == channel,
        };
        let replies = self.values("subscribe");
        replies.iter().filter(|reply| reply["successful"] == true && names(reply)).count()
    }

    #[track_caller]
    pub fn subscribe(&mut self, channel: &str) {
        let before = self.subscribe_confirmations(channel);
        self.send_command(&json!({ "subscribe": channel }));
        self.await_subscribed(&[channel], before + 1);
    }

    /// Publishes without waiting for the reply.
    pub fn publish(&mut self, channel: &str, data: impl Into<Value>) {
        let data: Value = data.into();
        self.send_command(&json!({ "publish": [channel, data] }));
    }

    /// Returns the data that the client's subscriptions received from a channel, in order of arrival.
    pub fn delivered(&self, channel: &str) -> Vec<Value> {
        data(self.values("message"), channel)
    }

    /// Returns the data of each message that the server sent on a channel, once per message regardless of how
    /// many subscriptions match.
    pub fn received(&self, channel: &str) -> Vec<Value> {
        data(self.values("came"), channel)
    }

    /// Waits until exactly these messages have arrived on a channel, once each and in order.
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
        &self.0
    }
}

impl DerefMut for StockClient {
    fn deref_mut(&mut self) -> &mut Script {
        &mut self.0
    }
}

fn data(messages: Vec<Value>, channel: &str) -> Vec<Value> {
    let of_channel = messages.into_iter().filter(|message| message["channel"] == channel);
    of_channel.map(|mut message| message["data"].take()).collect()
}
