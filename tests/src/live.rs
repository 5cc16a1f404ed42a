//! A viewer of the admin listener's `/api/live`.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::raw::Dial;
use crate::waiting::TIMEOUT;
use crate::{Admin, HttpResponse};

/// Event stream that the server has accepted with a 200, read chunk by chunk.
#[derive(Debug)]
pub struct LiveStream {
    stream: TcpStream,
    /// Head of the response.
    pub head: HttpResponse,
    /// Bytes that are still in chunked encoding.
    received: Vec<u8>,
    text: String,
    lines: VecDeque<String>,
}

impl LiveStream {
    /// Opens the stream and reads the head of the response.
    ///
    /// # Panics
    /// Panics if the response is not a stream.
    #[must_use]
    #[track_caller]
    pub fn open(admin: Admin) -> Self {
        let mut stream = request_live(admin, Dial::default());
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a response arrives");
            head.push(byte[0]);
        }
        let head = HttpResponse::parse(&String::from_utf8(head).expect("the stream is text"));
        assert_eq!(head.status, 200, "{head:?}");
        Self { stream, head, received: Vec::new(), text: String::new(), lines: VecDeque::new() }
    }

    /// Returns the data of the next event, which must have this name.
    ///
    /// # Panics
    /// Panics if the next event has another name, or if the stream ends.
    #[track_caller]
    pub fn event(&mut self, name: &str) -> Value {
        let (found, data) = self.next().expect("the stream continues");
        assert_eq!(found, name, "{data}");
        data
    }

    fn line(&mut self) -> Option<String> {
        while self.lines.is_empty() {
            if !self.read_chunk() {
                return None;
            }
        }
        self.lines.pop_front()
    }

    /// Reads a chunk (RFC 9112, section 7.1). Returns `false` at the last one, which is empty.
    fn read_chunk(&mut self) -> bool {
        let chunk = loop {
            match take_chunk(&mut self.received) {
                Some(chunk) => break chunk,
                None if self.read_more() => {}
                None => return false,
            }
        };
        self.text.push_str(&String::from_utf8(chunk.clone()).expect("the stream is text"));
        while let Some(end) = self.text.find('\n') {
            let line: String = self.text.drain(..=end).collect();
            self.lines.push_back(line.trim_end_matches('\n').to_owned());
        }
        !chunk.is_empty()
    }

    fn read_more(&mut self) -> bool {
        let mut bytes = [0; 16 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(read) => {
                self.received.extend_from_slice(&bytes[..read]);
                true
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("cannot read the stream: {error}"),
        }
    }
}

impl Iterator for LiveStream {
    type Item = (String, Value);

    /// Returns the name and the data of the next event. `None` at the end of the stream.
    fn next(&mut self) -> Option<(String, Value)> {
        let mut name = None;
        loop {
            let line = self.line()?;
            if let Some(event) = line.strip_prefix("event: ") {
                name = Some(event.to_owned());
            } else if let Some(data) = line.strip_prefix("data: ") {
                let name = name.take().expect("every event has a name");
                assert_eq!(self.line().as_deref(), Some(""), "an event has one line of data");
                return Some((name, serde_json::from_str(data).expect("the server sends JSON")));
            } else {
                panic!("neither a name nor data: {line}");
            }
        }
    }
}

/// Requests the stream without reading the response.
///
/// # Panics
/// Panics if the request cannot be sent.
#[must_use]
#[track_caller]
pub fn request_live(admin: Admin, dial: Dial) -> TcpStream {
    let mut stream = dial.connect(admin.address());
    stream.set_read_timeout(Some(TIMEOUT)).expect("the socket timeout can be set");
    let request = format!("GET /api/live HTTP/1.1\r\n{}\r\n", admin.headers());
    stream.write_all(request.as_bytes()).expect("the connection is open");
    stream
}

fn take_chunk(received: &mut Vec<u8>) -> Option<Vec<u8>> {
    let line = received.windows(2).position(|two| two == b"\r\n")?;
    let length = usize::from_str_radix(std::str::from_utf8(&received[..line]).ok()?, 16)
        .expect("a chunk has a length");
    let (from, to) = (line + 2, line + 2 + length);
    if received.len() < to + 2 {
        return None;
    }
    let chunk = received[from..to].to_vec();
    received.drain(..to + 2);
    Some(chunk)
}
