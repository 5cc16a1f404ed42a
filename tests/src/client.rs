//! A WebSocket client that answers pings and Close frames.

use std::fmt::Display;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;

use crate::RawClient;
use crate::connection::{Dial, Transport};
use crate::raw::{CLOSE, PING, PONG, ReceivedFrame, TEXT, masked};
use crate::waiting::{TIMEOUT, until};

/// How long one read of a client in the background blocks.
const READ_TIMEOUT: Duration = Duration::from_millis(5);

/// Stands for a Close frame without a code (RFC 6455, section 7.4.1).
const NO_CODE: u16 = 1005;

/// First message from the server.
#[derive(Clone, Debug)]
pub struct Hello {
    pub session: String,
    pub resume: String,
    /// Whether the requested session was resumed.
    pub recovered: bool,
    /// The whole object.
    pub object: Value,
}

/// Message or event that a client can receive from the server.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerOutput {
    /// A text message, which is a JSON object.
    Object(Value),
    /// The payload of a ping, which has been answered.
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    /// A Close frame: code and reason.
    Close(u16, String),
    End,
}

/// A client that has received its hello.
#[derive(Debug)]
pub struct Client<S = TcpStream> {
    pub(crate) raw: RawClient<S>,
    pub hello: Hello,
}

impl Hello {
    #[track_caller]
    pub fn parse(object: Value) -> Self {
        let hello = &object["hello"];
        let text =
            |name: &str| hello[name].as_str().unwrap_or_else(|| panic!("no {name}: {object}")).to_owned();
        Self {
            session: text("session"),
            resume: text("resume"),
            recovered: hello["recovered"].as_bool().expect("recovered is a bool"),
            object,
        }
    }
}

impl Client {
    /// Connects with a query and waits for the hello.
    #[track_caller]
    pub fn connect(address: SocketAddr, query: &str) -> Self {
        Self::over(Dial::default().connect(address), query)
    }

    /// Connects. The server may reject the client after the upgrade, with the code that is returned.
    #[track_caller]
    pub fn try_connect(address: SocketAddr, query: &str) -> Result<Self, u16> {
        Self::try_over(Dial::default().connect(address), query)
    }

    /// Connects and returns the code with which the server rejects the client after the upgrade.
    #[track_caller]
    pub fn refusal_code(address: SocketAddr, query: &str) -> u16 {
        match Self::try_connect(address, query) {
            Err(code) => code,
            Ok(client) => panic!("accepted: {:?}", client.hello),
        }
    }

    /// Moves the client to a background thread, which answers pings and records everything it receives.
    pub fn into_background(mut self) -> BackgroundClient {
        let background = BackgroundClient { hello: self.hello.clone(), received: Arc::default() };
        let received = Arc::downgrade(&background.received);
        std::thread::spawn(move || {
            while let Some(received) = received.upgrade() {
                let output = self.next_within(READ_TIMEOUT);
                let has_ended = output == Some(ServerOutput::End);
                received.lock().extend(output);
                if has_ended {
                    return;
                }
            }
        });
        background
    }
}

impl<S: Transport> Client<S> {
    /// Like [`connect`](Client::connect), over a connected stream.
    #[track_caller]
    pub fn over(stream: S, query: &str) -> Self {
        Self::try_over(stream, query).unwrap_or_else(|code| panic!("rejected with {code}"))
    }

    /// Like [`try_connect`](Client::try_connect), over a connected stream.
    #[track_caller]
    pub fn try_over(stream: S, query: &str) -> Result<Self, u16> {
        let mut raw = RawClient::over(stream);
        raw.upgrade(query);
        loop {
            match next_output(&mut raw, TIMEOUT) {
                // A `goaway` says when to reconnect; the Close frame that follows has the reason.
                Some(ServerOutput::Object(object)) if object.get("goaway").is_some() => {}
                Some(ServerOutput::Object(object)) => return Ok(Self { raw, hello: Hello::parse(object) }),
                Some(ServerOutput::Close(code, _)) => return Err(code),
                other => panic!("expected a hello, got {other:?}"),
            }
        }
    }

    pub fn send(&mut self, command: impl Display) {
        self.raw.text(&command.to_string());
    }

    /// Sends a ping without waiting for the pong.
    pub fn send_ping(&mut self, payload: &[u8]) {
        self.raw.send(masked(PING, payload));
    }

    /// Sends a ping and waits for the pong.
    #[track_caller]
    pub fn ping(&mut self) {
        let payload = b"are you there";
        self.send_ping(payload);
        loop {
            match self.next_within(TIMEOUT) {
                Some(ServerOutput::Pong(answer)) if answer == payload => return,
                Some(ServerOutput::Ping(_)) => {}
                other => panic!("expected a pong, got {other:?}"),
            }
        }
    }

    /// Returns what arrives next within `limit`.
    pub fn next_within(&mut self, limit: Duration) -> Option<ServerOutput> {
        next_output(&mut self.raw, limit)
    }

    /// Returns the next object. Pings that precede it are answered.
    #[track_caller]
    pub fn object(&mut self) -> Value {
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.next_within(until.saturating_duration_since(Instant::now())) {
                Some(ServerOutput::Object(object)) => return object,
                Some(ServerOutput::Ping(_) | ServerOutput::Pong(_)) => {}
                other => panic!("expected an object, got {other:?}"),
            }
        }
    }

    /// Returns the content of the next object, which must be a message.
    #[track_caller]
    pub fn message(&mut self) -> Value {
        let mut object = self.object();
        assert!(object["message"]["seq"].is_u64(), "{object}");
        object["message"].take()
    }

    #[track_caller]
    pub fn request(&mut self, command: impl Display) -> Value {
        self.send(command);
        self.object()["reply"].take()
    }

    /// Sends a command and asserts that it is refused with this code.
    #[track_caller]
    pub fn assert_refused(&mut self, command: impl Display, code: &str) {
        let reply = self.request(&command);
        assert_eq!(reply["error"]["code"], code, "{command}: {reply}");
        assert!(reply["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{reply}");
        assert!(reply.get("ok").is_none(), "{reply}");
    }

    /// Subscribes to a channel. Returns the epoch of its log.
    #[track_caller]
    pub fn subscribe(&mut self, channel: &str) -> String {
        let reply = self.request(format!(r#"{{"id":1,"subscribe":{{"channel":"{channel}"}}}}"#));
        reply["ok"]["epoch"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
    }

    /// Publishes all of `data` and waits until it is in the log. Returns the offset of the last message. The
    /// client must not have any subscriptions.
    pub fn publish(&mut self, channel: &str, data: impl IntoIterator<Item = impl Display>) -> u64 {
        let mut data = data.into_iter().peekable();
        loop {
            let each = data.next().expect("there are data to publish");
            let command = format!(r#""publish":{{"channel":"{channel}","data":{each}}}}}"#);
            if data.peek().is_none() {
                let reply = self.request(format!(r#"{{"id":1,{command}"#));
                return reply["ok"]["offset"].as_u64().unwrap_or_else(|| panic!("{reply}"));
            }
            self.send(format!("{{{command}"));
        }
    }

    /// Reads until the connection ends. Returns the code of the Close frame, if one arrived.
    #[track_caller]
    pub fn close_code(&mut self) -> Option<u16> {
        let until = Instant::now() + TIMEOUT;
        let mut code = None;
        loop {
            match self.next_within(until.saturating_duration_since(Instant::now())) {
                Some(ServerOutput::Close(with, _)) => code = Some(with),
                Some(ServerOutput::End) => return code,
                Some(_) => {}
                None => panic!("the connection does not end"),
            }
        }
    }

    /// Closes the session with a command, and waits for the Close frame.
    #[track_caller]
    pub fn close(&mut self) {
        self.send(r#"{"close":{}}"#);
        assert_eq!(self.close_code(), Some(1000));
    }

    /// Closes the socket without a Close frame.
    pub fn drop_connection(self) -> Hello {
        self.hello
    }
}

/// Returns what arrives next within `limit`, and answers it.
fn next_output<S: Transport>(raw: &mut RawClient<S>, limit: Duration) -> Option<ServerOutput> {
    let Ok(frame) = raw.frame_within(limit) else { return Some(ServerOutput::End) };
    let ReceivedFrame { first, payload, .. } = frame?;
    Some(match first {
        TEXT => ServerOutput::Object(serde_json::from_slice(&payload).expect("the server sends JSON")),
        PING => {
            // If the connection is closed, the next read reports it.
            let _ = raw.try_send(masked(PONG, &payload));
            ServerOutput::Ping(payload)
        }
        PONG => ServerOutput::Pong(payload),
        CLOSE => {
            let _ = raw.try_send(masked(CLOSE, &payload));
            let code = payload.first_chunk().map_or(NO_CODE, |code| u16::from_be_bytes(*code));
            let reason = payload.get(2..).unwrap_or_default();
            ServerOutput::Close(code, String::from_utf8_lossy(reason).into_owned())
        }
        other => panic!("unexpected kind of frame: {other:#04x}"),
    })
}

/// Client that runs in the background. After it is dropped, its thread closes the socket without a Close frame.
#[derive(Debug)]
pub struct BackgroundClient {
    pub hello: Hello,
    received: Arc<Mutex<Vec<ServerOutput>>>,
}

impl BackgroundClient {
    pub fn received(&self) -> Vec<ServerOutput> {
        self.received.lock().clone()
    }

    pub fn pings(&self) -> usize {
        self.received.lock().iter().filter(|output| matches!(output, ServerOutput::Ping(_))).count()
    }

    #[track_caller]
    pub fn await_more_pings(&self, more: usize) {
        let wanted = self.pings() + more;
        until(format!("{more} more pings"), || self.pings() >= wanted);
    }

    /// Whether the connection has been closed or lost.
    pub fn has_ended(&self) -> bool {
        self.received.lock().iter().any(|it| matches!(it, ServerOutput::Close(..) | ServerOutput::End))
    }
}
