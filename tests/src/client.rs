//! A stock WebSocket client: it follows RFC 6455 and answers pings automatically.

use std::fmt::Display;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message, WebSocket};

use crate::waiting::{TIMEOUT, eventually};

/// How long one read blocks before the client checks its own deadline.
const READ_TIMEOUT: Duration = Duration::from_millis(5);

/// First message from the server.
#[derive(Clone, Debug)]
pub struct Hello {
    /// Id of the session.
    pub session: String,
    /// Resume token.
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
    /// The payload of a pong.
    Pong(Vec<u8>),
    /// A Close frame: code and reason.
    Close(u16, String),
    /// The end of the connection.
    End,
}

/// A client that has received its hello.
#[derive(Debug)]
pub struct Client {
    socket: WebSocket<TcpStream>,
    pub hello: Hello,
}

impl Hello {
    /// Parses a `hello` object.
    ///
    /// # Panics
    /// Panics if a field is missing.
    #[must_use]
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
    ///
    /// # Panics
    /// Panics if no hello arrives.
    #[must_use]
    #[track_caller]
    pub fn connect(address: SocketAddr, query: &str) -> Self {
        Self::over(TcpStream::connect(address).expect("the server accepts"), query)
    }

    /// Like [`connect`](Self::connect), over a connected socket.
    #[must_use]
    #[track_caller]
    pub fn over(stream: TcpStream, query: &str) -> Self {
        Self::greet(stream, query).unwrap_or_else(|code| panic!("rejected with {code}"))
    }

    /// Connects. The server may reject the client after the upgrade.
    ///
    /// # Errors
    /// Returns the code of the Close frame.
    #[track_caller]
    pub fn try_connect(address: SocketAddr, query: &str) -> Result<Self, u16> {
        Self::greet(TcpStream::connect(address).expect("the server accepts"), query)
    }

    /// Like [`try_connect`](Self::try_connect), over a connected socket.
    ///
    /// # Errors
    /// Returns the code of the Close frame.
    #[track_caller]
    pub fn try_over(stream: TcpStream, query: &str) -> Result<Self, u16> {
        Self::greet(stream, query)
    }

    /// Connects and returns the code with which the server rejects the client after the upgrade.
    ///
    /// # Panics
    /// Panics if the client is accepted.
    #[must_use]
    #[track_caller]
    pub fn refusal_code(address: SocketAddr, query: &str) -> u16 {
        match Self::try_connect(address, query) {
            Err(code) => code,
            Ok(client) => panic!("accepted: {:?}", client.hello),
        }
    }

    #[track_caller]
    fn greet(stream: TcpStream, query: &str) -> Result<Self, u16> {
        let mut socket = upgrade(stream, query);
        loop {
            match read(&mut socket, TIMEOUT) {
                // A `goaway` says when to reconnect; the Close frame that follows has the reason.
                Some(ServerOutput::Object(object)) if object.get("goaway").is_some() => {}
                Some(ServerOutput::Object(object)) => {
                    return Ok(Self { socket, hello: Hello::parse(object) });
                }
                Some(ServerOutput::Close(code, _)) => return Err(code),
                other => panic!("expected a hello, got {other:?}"),
            }
        }
    }

    /// Sends a text message.
    ///
    /// # Panics
    /// Panics if the connection is closed.
    #[track_caller]
    pub fn send(&mut self, text: &str) {
        self.send_message(Message::text(text));
    }

    /// Sends a message of any kind.
    ///
    /// # Panics
    /// Panics if the connection is closed.
    #[track_caller]
    pub fn send_message(&mut self, message: Message) {
        self.socket.send(message).expect("the connection is open");
    }

    /// Returns what arrives next within `limit`.
    pub fn next_within(&mut self, limit: Duration) -> Option<ServerOutput> {
        read(&mut self.socket, limit)
    }

    /// Returns the next object. Pings that precede it are answered.
    ///
    /// # Panics
    /// Panics if anything else arrives first, or if nothing arrives in time.
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

    /// Sends a command and returns its reply.
    #[track_caller]
    pub fn request(&mut self, command: &str) -> Value {
        self.send(command);
        self.object()["reply"].clone()
    }

    /// Subscribes to a channel. Returns the epoch of its log.
    ///
    /// # Panics
    /// Panics if the subscription is rejected.
    #[track_caller]
    pub fn subscribe(&mut self, channel: &str) -> String {
        let reply = self.request(&format!(r#"{{"id":1,"subscribe":{{"channel":"{channel}"}}}}"#));
        reply["ok"]["epoch"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
    }

    /// Publishes all of `data` and waits until it is in the log. Returns the offset of the last message. The
    /// client must not have any subscriptions.
    ///
    /// # Panics
    /// Panics if a message is rejected.
    #[track_caller]
    pub fn publish(&mut self, channel: &str, data: impl IntoIterator<Item = impl Display>) -> u64 {
        let mut data = data.into_iter().peekable();
        loop {
            let each = data.next().expect("there are data to publish");
            let command = format!(r#""publish":{{"channel":"{channel}","data":{each}}}}}"#);
            if data.peek().is_none() {
                let reply = self.request(&format!(r#"{{"id":1,{command}"#));
                return reply["ok"]["offset"].as_u64().unwrap_or_else(|| panic!("{reply}"));
            }
            self.send(&format!("{{{command}"));
        }
    }

    /// Reads until the connection ends. Returns the code of the Close frame, if one arrived.
    ///
    /// # Panics
    /// Panics if the connection does not end.
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

    /// Closes the socket without a Close frame.
    pub fn drop_connection(self) -> Hello {
        self.hello
    }

    /// Moves the client to a background thread, which answers pings and records everything it receives.
    #[must_use]
    pub fn into_background(self) -> BackgroundClient {
        let received = Arc::new(Mutex::new(Vec::new()));
        let leave = Arc::new(AtomicBool::new(false));
        let hello = self.hello.clone();
        let thread = std::thread::spawn({
            let (received, leave) = (Arc::clone(&received), Arc::clone(&leave));
            move || self.receive(&received, &leave)
        });
        BackgroundClient { hello, received, leave, thread: Some(thread) }
    }

    fn receive(mut self, received: &Mutex<Vec<ServerOutput>>, leave: &AtomicBool) {
        while !leave.load(Ordering::Acquire) {
            let Some(output) = self.next_within(READ_TIMEOUT) else { continue };
            let is_end = output == ServerOutput::End;
            received.lock().push(output);
            if is_end {
                return;
            }
        }
    }
}

#[track_caller]
fn upgrade(stream: TcpStream, query: &str) -> WebSocket<TcpStream> {
    stream.set_nodelay(true).expect("the socket option can be set");
    stream.set_read_timeout(Some(TIMEOUT)).expect("the socket timeout can be set");
    stream.set_write_timeout(Some(TIMEOUT)).expect("the socket timeout can be set");
    let peer = stream.peer_addr().expect("the socket is connected");
    let config = WebSocketConfig::default().read_buffer_size(4096).max_message_size(Some(1 << 20));
    let request = format!("ws://{peer}/ws?{query}");
    let (socket, _) =
        tungstenite::client::client_with_config(request, stream, Some(config)).expect("the server upgrades");
    socket.get_ref().set_read_timeout(Some(READ_TIMEOUT)).expect("the socket timeout can be set");
    socket
}

fn read(socket: &mut WebSocket<TcpStream>, limit: Duration) -> Option<ServerOutput> {
    let until = Instant::now() + limit;
    loop {
        let last = Instant::now() >= until;
        match socket.read() {
            Ok(Message::Text(text)) => {
                return Some(ServerOutput::Object(
                    serde_json::from_str(&text).expect("the server sends JSON"),
                ));
            }
            Ok(Message::Ping(payload)) => {
                // Flush immediately: the pong must not wait for the next read. If the connection is closed,
                // the next read reports it.
                let _ = socket.flush();
                return Some(ServerOutput::Ping(payload.to_vec()));
            }
            Ok(Message::Pong(payload)) => return Some(ServerOutput::Pong(payload.to_vec())),
            Ok(Message::Close(frame)) => {
                let (code, reason) = frame
                    .map_or((1005, String::new()), |frame| (frame.code.into(), frame.reason.to_string()));
                return Some(ServerOutput::Close(code, reason));
            }
            Ok(other) => panic!("unexpected kind of message: {other:?}"),
            Err(Error::Io(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return Some(ServerOutput::End),
        }
        if last {
            return None;
        }
    }
}

/// Client that runs in the background. Dropping it closes the socket without a Close frame.
#[derive(Debug)]
pub struct BackgroundClient {
    pub hello: Hello,
    received: Arc<Mutex<Vec<ServerOutput>>>,
    leave: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundClient {
    /// Returns everything received so far.
    #[must_use]
    pub fn received(&self) -> Vec<ServerOutput> {
        self.received.lock().clone()
    }

    /// Returns the number of pings answered.
    #[must_use]
    pub fn pings(&self) -> usize {
        self.received.lock().iter().filter(|output| matches!(output, ServerOutput::Ping(_))).count()
    }

    /// Waits for this many more pings.
    #[track_caller]
    pub fn await_more_pings(&self, more: usize) {
        let wanted = self.pings() + more;
        eventually(format!("{more} more pings"), || (self.pings() >= wanted).then_some(()));
    }

    /// Whether the connection has been closed or lost.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.received
            .lock()
            .iter()
            .any(|output| matches!(output, ServerOutput::Close(..) | ServerOutput::End))
    }

    /// Waits for the Close frame and returns its code.
    #[track_caller]
    pub fn await_close(&self) -> u16 {
        eventually("a Close frame", || {
            self.received.lock().iter().find_map(|output| match output {
                ServerOutput::Close(code, _) => Some(*code),
                _ => None,
            })
        })
    }
}

impl Drop for BackgroundClient {
    fn drop(&mut self) {
        self.leave.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, its message has been printed already.
            let _ = thread.join();
        }
    }
}
