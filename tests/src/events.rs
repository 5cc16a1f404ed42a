//! A client of server-sent events that reads raw bytes and does nothing on its own.

use std::mem;
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::Hello;
use crate::connection::{Connection, Dial, Transport, take_through};
use crate::http::{HttpResponse, send_request};

/// Event stream that the server has accepted with a 200.
#[derive(Debug)]
pub struct EventStream<S = TcpStream> {
    pub connection: Connection<S>,
    /// Head of the response, including the empty line.
    pub head: String,
    is_chunked: bool,
    /// Body of the response, as far as it has been received and not returned yet.
    text: Vec<u8>,
}

/// Sends `GET /events?query` with additional headers (lines that end in CR LF) and reads the whole response.
/// The server must end it.
#[track_caller]
pub fn request_events(address: SocketAddr, query: &str, headers: &str) -> HttpResponse {
    let request =
        format!("GET /events?{query} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
    send_request(address, &request)
}

impl EventStream {
    pub fn open(address: SocketAddr, query: &str) -> Self {
        Self::open_with(address, query, "")
    }

    /// Connects and reads the hello.
    #[track_caller]
    pub fn greeted(address: SocketAddr, query: &str) -> (Self, Hello) {
        let mut stream = Self::open(address, query);
        let hello = stream.hello();
        (stream, hello)
    }

    /// Connects with a query and additional headers: lines that end in CR LF.
    pub fn open_with(address: SocketAddr, query: &str, headers: &str) -> Self {
        Self::over(Dial::default().connect(address), query, headers)
    }

    /// Reconnects as an `EventSource` does: with the original query and the id of the last event received.
    pub fn reconnect(address: SocketAddr, query: &str, last_id: &str) -> Self {
        Self::open_with(address, query, &format!("Last-Event-ID: {last_id}\r\n"))
    }
}

impl<S: Transport> EventStream<S> {
    /// Like [`open_with`](EventStream::open_with), over a connected stream.
    #[track_caller]
    pub fn over(stream: S, query: &str, headers: &str) -> Self {
        let mut connection = Connection::over(stream);
        connection.send(format!("GET /events?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n"));
        Self::read(connection)
    }

    /// Reads the response to a request that has been sent.
    #[track_caller]
    pub fn read(mut connection: Connection<S>) -> Self {
        let head = connection.http_head();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        let is_chunked = HttpResponse::parse(&head).header("transfer-encoding") == Some("chunked");
        Self { connection, head, is_chunked, text: Vec::new() }
    }

    /// Sends bytes, which a server does not expect on an event stream.
    pub fn send(&mut self, bytes: &[u8]) {
        self.connection.send(bytes);
    }

    /// Returns the next block: a heartbeat, or the lines up to the next empty line, which is not included.
    /// `None` at the end of the stream.
    #[track_caller]
    pub fn block(&mut self) -> Option<String> {
        loop {
            if let Some(block) = take_block(&mut self.text) {
                return Some(block);
            }
            let take = if self.is_chunked { take_chunk } else { take_all };
            let more = self.connection.take(take).unwrap_or_default();
            if more.is_empty() {
                assert!(self.text.is_empty(), "an incomplete event: {:?}", self.text);
                return None;
            }
            self.text.extend(more);
        }
    }

    /// Returns the next event, skipping heartbeats.
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

    /// Returns the id and the object of the next event. Skips ids without data, which an `EventSource` does not
    /// report to its page, either.
    #[track_caller]
    pub fn object(&mut self) -> (Option<String>, Value) {
        let is_id_alone = |event: &String| event.starts_with("id: ") && !event.contains('\n');
        let event =
            std::iter::repeat_with(|| self.event()).find(|event| !is_id_alone(event)).expect("endless");
        let field =
            |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(ToOwned::to_owned);
        let data = field("data: ").unwrap_or_else(|| panic!("no data: {event}"));
        (field("id: "), serde_json::from_str(&data).expect("the server sends JSON"))
    }

    #[track_caller]
    pub fn hello(&mut self) -> Hello {
        Hello::parse(self.object().1)
    }

    /// Reads to the end of the stream and returns its events, without heartbeats.
    #[track_caller]
    pub fn to_end(mut self) -> Vec<String> {
        std::iter::from_fn(|| self.block()).filter(|block| block != ":").collect()
    }
}

/// Removes a block of lines, without its last line break.
fn take_block(text: &mut Vec<u8>) -> Option<String> {
    let end: &[u8] = if text.starts_with(b":\n") || text.starts_with(b"\n") { b"\n" } else { b"\n\n" };
    let block = String::from_utf8(take_through(text, end)?).expect("events are text");
    Some(block.trim_end_matches('\n').to_owned())
}

fn take_all(received: &mut Vec<u8>) -> Option<Vec<u8>> {
    (!received.is_empty()).then(|| mem::take(received))
}

/// Removes the content of a chunk (RFC 9112, section 7.1). The last chunk is empty.
fn take_chunk(received: &mut Vec<u8>) -> Option<Vec<u8>> {
    let start = received.windows(2).position(|two| two == b"\r\n")? + 2;
    let length = str::from_utf8(&received[..start - 2]).expect("the length of a chunk is text");
    let end = start + usize::from_str_radix(length, 16).expect("a chunk has a length");
    let chunk = received.get(start..end + 2)?[..end - start].to_vec();
    received.drain(..end + 2);
    Some(chunk)
}
