//! A long-polling client that sends requests on one connection, reads their responses, and does nothing on
//! its own.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::admin::HttpResponse;
use crate::waiting::TIMEOUT;

/// Connection for successive or pipelined requests.
#[derive(Debug)]
pub struct PollClient<S = TcpStream> {
    stream: S,
    received: Vec<u8>,
}

impl PollClient {
    /// Connects to a server.
    ///
    /// # Panics
    /// Panics if the server does not accept.
    #[must_use]
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_read_timeout(Some(TIMEOUT)).expect("the socket timeout can be set");
        stream.set_nodelay(true).expect("the socket option can be set");
        Self::over(stream)
    }
}

impl<S: Read + Write> PollClient<S> {
    /// Wraps a connected socket that has a read timeout.
    #[must_use]
    pub fn over(stream: S) -> Self {
        Self { stream, received: Vec::new() }
    }

    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// Panics if the connection is closed.
    #[track_caller]
    pub fn send(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).expect("the connection is open");
        self.stream.flush().expect("the connection is open");
    }

    /// Sends `GET /poll?query` without waiting for the response.
    #[track_caller]
    pub fn send_get(&mut self, query: &str) {
        self.send(&get(query));
    }

    /// Sends `GET /poll?query` and returns the response.
    #[track_caller]
    pub fn get(&mut self, query: &str) -> HttpResponse {
        self.send_get(query);
        self.response()
    }

    /// Sends `POST /poll?query` with a JSON body and returns the response.
    #[track_caller]
    pub fn post(&mut self, query: &str, body: &str) -> HttpResponse {
        self.send(&post(query, "Content-Type: application/json\r\n", body));
        self.response()
    }

    /// Reads the next response.
    ///
    /// # Panics
    /// Panics if the connection ends first.
    #[track_caller]
    pub fn response(&mut self) -> HttpResponse {
        self.try_response().expect("a response arrives before the end of the connection")
    }

    /// Reads the next response. `None` at the end of the connection.
    ///
    /// # Panics
    /// Panics if neither arrives in time.
    #[track_caller]
    pub fn try_response(&mut self) -> Option<HttpResponse> {
        loop {
            if let Some(length) = self.response_length() {
                let response: Vec<u8> = self.received.drain(..length).collect();
                return Some(HttpResponse::parse(&String::from_utf8(response).expect("responses are text")));
            }
            let mut buffer = [0; 16 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    assert!(self.received.is_empty(), "an incomplete response: {:?}", self.received);
                    return None;
                }
                Ok(read) => self.received.extend(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset && self.received.is_empty() => {
                    return None;
                }
                Err(error) => panic!("neither a response nor the end of the connection: {error}"),
            }
        }
    }

    /// Waits for the end of the connection.
    ///
    /// # Panics
    /// Panics if a response arrives first, or if the connection does not end.
    #[track_caller]
    pub fn await_end(&mut self) {
        if let Some(response) = self.try_response() {
            panic!("expected the end of the connection, got {response:?}");
        }
    }

    /// Returns the length of the first response, once it is complete.
    fn response_length(&self) -> Option<usize> {
        let head = self.received.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
        let text = str::from_utf8(&self.received[..head]).expect("a head is text");
        let length = HttpResponse::parse(text)
            .header("content-length")
            .map_or(0, |length| length.parse::<usize>().expect("a length is a number"));
        (self.received.len() >= head + length).then_some(head + length)
    }
}

/// Returns the bytes of `GET /poll?query`.
#[must_use]
pub fn get(query: &str) -> String {
    get_with(query, "")
}

/// Like [`get`], with additional headers: lines that end in CR LF.
#[must_use]
pub fn get_with(query: &str, headers: &str) -> String {
    format!("GET /poll?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n")
}

/// Returns the bytes of `POST /poll?query` with additional headers: lines that end in CR LF.
#[must_use]
pub fn post(query: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /poll?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
}
