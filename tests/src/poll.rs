//! A client of long-polling that sends requests and reads their answers, on one connection, and nothing more.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::admin::HttpResponse;
use crate::waiting::TIMEOUT;

/// A connection for requests, one after the other or several at once.
#[derive(Debug)]
pub struct PollClient<S = TcpStream> {
    stream: S,
    received: Vec<u8>,
}

impl PollClient {
    /// Connects.
    ///
    /// # Panics
    /// When the server does not accept.
    #[must_use]
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a socket takes a timeout");
        stream.set_nodelay(true).expect("a socket takes an option");
        Self::over(stream)
    }
}

impl<S: Read + Write> PollClient<S> {
    /// Takes a connected socket whose reads time out.
    #[must_use]
    pub fn over(stream: S) -> Self {
        Self { stream, received: Vec::new() }
    }

    /// The socket.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// When the server does not read.
    #[track_caller]
    pub fn send(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).expect("the server reads");
        self.stream.flush().expect("the server reads");
    }

    /// Sends `GET /poll?query`, and awaits nothing.
    #[track_caller]
    pub fn send_get(&mut self, query: &str) {
        self.send(&get(query));
    }

    /// `GET /poll?query`, and its answer.
    #[track_caller]
    pub fn get(&mut self, query: &str) -> HttpResponse {
        self.send_get(query);
        self.response()
    }

    /// `POST /poll?query` with a JSON body, and its answer.
    #[track_caller]
    pub fn post(&mut self, query: &str, body: &str) -> HttpResponse {
        self.send(&post(query, "Content-Type: application/json\r\n", body));
        self.response()
    }

    /// The next answer.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn response(&mut self) -> HttpResponse {
        self.try_response().expect("an answer comes before the end of the connection")
    }

    /// The next answer; `None` at the end of the connection.
    ///
    /// # Panics
    /// When neither comes.
    #[track_caller]
    pub fn try_response(&mut self) -> Option<HttpResponse> {
        loop {
            if let Some(length) = self.response_length() {
                let answer: Vec<u8> = self.received.drain(..length).collect();
                return Some(HttpResponse::parse(&String::from_utf8(answer).expect("answers are text")));
            }
            let mut buffer = [0; 16 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    assert!(self.received.is_empty(), "half an answer: {:?}", self.received);
                    return None;
                }
                Ok(read) => self.received.extend(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset && self.received.is_empty() => {
                    return None;
                }
                Err(error) => panic!("neither an answer nor the end of the connection: {error}"),
            }
        }
    }

    /// Reads on to the end of the connection, before which nothing may come.
    ///
    /// # Panics
    /// When something comes, or no end.
    #[track_caller]
    pub fn await_end(&mut self) {
        if let Some(answer) = self.try_response() {
            panic!("expected the end of the connection, got {answer:?}");
        }
    }

    /// The length of the first answer, once all of it has come.
    fn response_length(&self) -> Option<usize> {
        let head = self.received.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
        let text = str::from_utf8(&self.received[..head]).expect("a head is text");
        let length = HttpResponse::parse(text)
            .header("content-length")
            .map_or(0, |length| length.parse::<usize>().expect("a length is a number"));
        (self.received.len() >= head + length).then_some(head + length)
    }
}

/// The bytes of `GET /poll?query`.
#[must_use]
pub fn get(query: &str) -> String {
    get_with(query, "")
}

/// The same with headers besides `Host`: lines that end in CR LF.
#[must_use]
pub fn get_with(query: &str, headers: &str) -> String {
    format!("GET /poll?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n")
}

/// The bytes of `POST /poll?query`, with headers besides those that it needs: lines that end in CR LF.
#[must_use]
pub fn post(query: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /poll?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
}
