//! A client of server-sent events that reads raw bytes and does nothing on its own.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::Hello;
use crate::admin::{HttpResponse, send_request};
use crate::waiting::TIMEOUT;

/// Event stream that the server has accepted with a 200.
#[derive(Debug)]
pub struct EventStream {
    stream: TcpStream,
    received: Vec<u8>,
    /// Head of the response, including the empty line.
    pub head: String,
}

/// Sends `GET /events?query` with additional headers (lines that end in CR LF) and reads the whole response.
/// The server must end it.
#[must_use]
#[track_caller]
pub fn request_events(address: SocketAddr, query: &str, headers: &str) -> HttpResponse {
    let request =
        format!("GET /events?{query} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
    send_request(address, &request)
}

impl EventStream {
    /// Connects with a query.
    #[must_use]
    #[track_caller]
    pub fn open(address: SocketAddr, query: &str) -> Self {
        Self::open_with(address, query, "")
    }

    /// Connects with a query and additional headers: lines that end in CR LF.
    #[must_use]
    #[track_caller]
    pub fn open_with(address: SocketAddr, query: &str, headers: &str) -> Self {
        Self::over(TcpStream::connect(address).expect("the server accepts"), query, headers)
    }

    /// Reconnects as an `EventSource` does: with the original query and the id of the last event received.
    #[must_use]
    #[track_caller]
    pub fn reconnect(address: SocketAddr, query: &str, last_id: &str) -> Self {
        Self::open_with(address, query, &format!("Last-Event-ID: {last_id}\r\n"))
    }

    /// Like [`open_with`](Self::open_with), over a connected socket.
    ///
    /// # Panics
    /// Panics if the response is not an event stream.
    #[must_use]
    #[track_caller]
    pub fn over(mut stream: TcpStream, query: &str, headers: &str) -> Self {
        stream.set_read_timeout(Some(TIMEOUT)).expect("the socket timeout can be set");
        let host = stream.peer_addr().expect("the socket is connected");
        let request = format!("GET /events?{query} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).expect("the connection is open");
        let mut events = Self { stream, received: Vec::new(), head: String::new() };
        events.head = events.take_through(b"\r\n\r\n").expect("a response arrives");
        assert!(events.head.starts_with("HTTP/1.1 200 OK\r\n"), "{}", events.head);
        events
    }

    /// Sends bytes, which a server does not expect on an event stream.
    ///
    /// # Panics
    /// Panics if the connection is closed.
    #[track_caller]
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the connection is open");
    }

    /// Returns the next block: a heartbeat, or the lines up to the next empty line, which is not included.
    /// `None` at the end of the stream.
    #[track_caller]
    pub fn block(&mut self) -> Option<String> {
        let mut block = String::new();
        loop {
            let line = self.take_through(b"\n")?;
            block.push_str(line.trim_end_matches('\n'));
            if line == "\n" || block == ":" {
                return Some(block.trim_end_matches('\n').to_owned());
            }
            block.push('\n');
        }
    }

    /// Returns the next event, skipping heartbeats.
    ///
    /// # Panics
    /// Panics if the stream ends first.
    #[track_caller]
    pub fn event(&mut self) -> String {
        loop {
            match self.block().as_deref() {
                Some(":") => {}
                Some(event) => return event.to_owned(),
                None => panic!("expected an event, got the end of the stream"),
            }
        }
    }

    /// Returns the id and the object of the next event.
    ///
    /// # Panics
    /// Panics if the event has no data.
    #[track_caller]
    pub fn object(&mut self) -> (Option<String>, Value) {
        let event = self.event();
        let field =
            |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(ToOwned::to_owned);
        let data = field("data: ").unwrap_or_else(|| panic!("no data: {event}"));
        (field("id: "), serde_json::from_str(&data).expect("the server sends JSON"))
    }

    /// Reads the hello.
    #[track_caller]
    pub fn hello(&mut self) -> Hello {
        Hello::parse(self.object().1)
    }

    /// Reads to the end of the stream and returns its events, without heartbeats.
    #[track_caller]
    pub fn to_end(mut self) -> Vec<String> {
        std::iter::from_fn(|| self.block()).filter(|block| block != ":").collect()
    }

    #[track_caller]
    fn take_through(&mut self, end: &[u8]) -> Option<String> {
        loop {
            if let Some(at) = self.received.windows(end.len()).position(|bytes| bytes == end) {
                let taken: Vec<u8> = self.received.drain(..at + end.len()).collect();
                return Some(String::from_utf8(taken).expect("events are text"));
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    assert!(self.received.is_empty(), "an incomplete event: {:?}", self.received);
                    return None;
                }
                Ok(read) => self.received.extend(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("neither an event nor the end of the stream: {error}"),
            }
        }
    }
}
