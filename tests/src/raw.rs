//! A client that sends hand-made bytes and does nothing on its own.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;
use socket2::{Domain, SockRef, Socket, Type};

use crate::Hello;
use crate::waiting::TIMEOUT;

/// Key of the example in RFC 6455, section 1.3, and the server's answer to it.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Masking key of the examples in RFC 6455, section 5.7.
pub const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// First byte of an unfragmented text frame.
pub const TEXT: u8 = 0x81;
/// First byte of an unfragmented binary frame.
pub const BINARY: u8 = 0x82;
/// First byte of a Close frame.
pub const CLOSE: u8 = 0x88;
/// First byte of a ping.
pub const PING: u8 = 0x89;
/// First byte of a pong.
pub const PONG: u8 = 0x8a;

/// How long one read blocks.
const READ_TIMEOUT: Duration = Duration::from_millis(5);

/// A frame from the server.
#[derive(Clone, Debug)]
pub struct ReceivedFrame {
    /// First byte: FIN, reserved bits, opcode.
    pub first: u8,
    pub payload: Vec<u8>,
    /// Lower bound on the time of arrival: a time at which the frame had not arrived yet. It is never after
    /// the arrival, however late a busy machine schedules the test.
    pub not_before: Instant,
    /// Upper bound on the time of arrival: a time at which the frame had been received.
    pub not_after: Instant,
}

/// Connection with direct access to the bytes.
#[derive(Debug)]
pub struct RawClient {
    stream: TcpStream,
    received: Vec<u8>,
    /// Start of the last read that found nothing.
    last_empty_read: Instant,
    /// Time just before the upgrade request was sent.
    pub started_at: Instant,
}

/// Options of a new socket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dial {
    /// Source address.
    pub source: Option<IpAddr>,
    /// Size of the kernel's receive buffer.
    pub receive_buffer: Option<usize>,
}

impl Dial {
    /// Connects from a local address. All of 127.0.0.0/8 is local.
    ///
    /// # Panics
    /// Panics if the address is malformed.
    #[must_use]
    #[track_caller]
    pub fn from(source: &str) -> Self {
        Self { source: Some(source.parse().expect("an IP address")), ..Self::default() }
    }

    /// Connects with these options.
    ///
    /// # Panics
    /// Panics if the server does not accept.
    #[must_use]
    #[track_caller]
    pub fn connect(self, address: SocketAddr) -> TcpStream {
        let connect = || -> io::Result<TcpStream> {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
            if let Some(size) = self.receive_buffer {
                socket.set_recv_buffer_size(size)?;
            }
            if let Some(source) = self.source {
                socket.bind(&SocketAddr::new(source, 0).into())?;
            }
            socket.connect(&address.into())?;
            Ok(socket.into())
        };
        connect().expect("the server accepts")
    }
}

/// Encodes a masked frame, as clients send them.
#[must_use]
pub fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | u8::try_from(length).expect("at most 125")),
        length @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend(u16::try_from(length).expect("at most 0xffff").to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
}

impl RawClient {
    /// Connects and sends nothing.
    #[must_use]
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(Dial::default().connect(address))
    }

    /// Wraps a connected socket.
    ///
    /// # Panics
    /// Panics if its options cannot be set.
    #[must_use]
    pub fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("the socket option can be set");
        stream.set_read_timeout(Some(READ_TIMEOUT)).expect("the socket timeout can be set");
        stream.set_write_timeout(Some(TIMEOUT)).expect("the socket timeout can be set");
        let now = Instant::now();
        Self { stream, received: Vec::new(), last_empty_read: now, started_at: now }
    }

    /// Connects and upgrades with a query.
    #[must_use]
    #[track_caller]
    pub fn upgraded(address: SocketAddr, query: &str) -> Self {
        let mut client = Self::connect(address);
        client.request_upgrade(query);
        client.await_upgrade();
        client
    }

    /// Connects, upgrades and reads the hello.
    #[must_use]
    #[track_caller]
    pub fn greeted(address: SocketAddr, query: &str) -> (Self, Hello) {
        let mut client = Self::upgraded(address, query);
        let hello = client.hello();
        (client, hello)
    }

    /// Sends the upgrade request.
    #[track_caller]
    pub fn request_upgrade(&mut self, query: &str) {
        self.request_upgrade_with(query, "");
    }

    /// Sends the upgrade request with additional headers: lines that end in CR LF.
    #[track_caller]
    pub fn request_upgrade_with(&mut self, query: &str, headers: &str) {
        self.request_upgrade_at(&format!("/ws?{query}"), headers);
    }

    /// Like [`request_upgrade_with`](Self::request_upgrade_with), for another path.
    #[track_caller]
    pub fn request_upgrade_at(&mut self, path: &str, headers: &str) {
        self.request_upgrade_with_connection(&["Upgrade"], path, headers);
    }

    /// Like [`request_upgrade_at`](Self::request_upgrade_at), with these `Connection` headers.
    #[track_caller]
    pub fn request_upgrade_with_connection(&mut self, connection: &[&str], path: &str, headers: &str) {
        let connection: String =
            connection.iter().map(|options| format!("Connection: {options}\r\n")).collect();
        self.started_at = Instant::now();
        self.send(
            format!(
                "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{connection}Upgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{headers}\r\n"
            )
            .as_bytes(),
        );
    }

    /// Reads the response to the upgrade request.
    ///
    /// # Panics
    /// Panics if the response is not the one that RFC 6455 requires.
    #[track_caller]
    pub fn await_upgrade(&mut self) {
        let head = self.http_head();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        for header in
            [&format!("sec-websocket-accept: {ACCEPT}"), "connection: upgrade", "upgrade: websocket"]
        {
            // Stock clients accept only these exact values: `Upgrade, close`, for example, is rejected.
            let line = |line: &str| line.eq_ignore_ascii_case(header);
            assert!(head.lines().any(line), "{header}: {head}");
        }
    }

    /// Whether anything has been received, or is received within `limit`.
    ///
    /// # Errors
    /// Returns an error if the connection ends.
    pub fn has_received_within(&mut self, limit: Duration) -> io::Result<bool> {
        if !self.received.is_empty() {
            return Ok(true);
        }
        match self.read_some(Instant::now() + limit)? {
            Some(0) => Err(ErrorKind::UnexpectedEof.into()),
            read => Ok(read.is_some()),
        }
    }

    /// Reads the head of an HTTP response.
    ///
    /// # Panics
    /// Panics if no response arrives.
    #[track_caller]
    pub fn http_head(&mut self) -> String {
        let until = Instant::now() + TIMEOUT;
        loop {
            if let Some(end) = self.received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let head: Vec<u8> = self.received.drain(..end + 4).collect();
                return String::from_utf8(head).expect("heads are text");
            }
            let read = self.read_some(until);
            assert!(matches!(read, Ok(Some(1..))), "no response: {read:?}");
        }
    }

    /// Reads the hello.
    #[track_caller]
    pub fn hello(&mut self) -> Hello {
        Hello::parse(self.object())
    }

    /// Sends bytes unchanged.
    ///
    /// # Panics
    /// Panics if the connection is closed.
    #[track_caller]
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the connection is open");
    }

    /// Sends bytes unchanged.
    ///
    /// # Errors
    /// Returns the error of the socket.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends a masked text frame.
    #[track_caller]
    pub fn text(&mut self, text: &str) {
        self.send(&masked(TEXT, text.as_bytes()));
    }

    /// Returns the socket, so that it can be configured, or written to by another thread.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Resets the connection.
    ///
    /// # Panics
    /// Panics if the socket option cannot be set.
    pub fn reset(self) {
        let linger = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        linger.expect("the socket option can be set");
    }

    /// Returns the next frame, or `None` if none arrives within `limit`.
    ///
    /// # Errors
    /// Returns [`ErrorKind::UnexpectedEof`] or the kernel's error if the connection ends.
    pub fn frame_within(&mut self, limit: Duration) -> io::Result<Option<ReceivedFrame>> {
        let until = Instant::now() + limit;
        loop {
            if let Some((first, payload)) = take_frame(&mut self.received) {
                // No read takes place while a whole frame is buffered, so the last empty read precedes the
                // arrival of its bytes.
                let not_before = self.last_empty_read;
                return Ok(Some(ReceivedFrame { first, payload, not_before, not_after: Instant::now() }));
            }
            match self.read_some(until)? {
                None => return Ok(None),
                Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Some(_) => {}
            }
        }
    }

    /// Returns the next frame.
    ///
    /// # Panics
    /// Panics if none arrives.
    #[track_caller]
    pub fn frame(&mut self) -> ReceivedFrame {
        match self.frame_within(TIMEOUT) {
            Ok(Some(frame)) => frame,
            other => panic!("expected a frame, got {other:?}"),
        }
    }

    /// Returns the next frame, which must have this first byte.
    #[track_caller]
    pub fn frame_of(&mut self, first: u8) -> ReceivedFrame {
        let frame = self.frame();
        assert_eq!(frame.first, first, "{}", String::from_utf8_lossy(&frame.payload));
        frame
    }

    /// Returns the next frame, which must be a text frame with a JSON object.
    ///
    /// # Panics
    /// Panics if it is not.
    #[track_caller]
    pub fn object(&mut self) -> Value {
        let payload = self.frame_of(TEXT).payload;
        serde_json::from_slice(&payload).expect("the server sends JSON")
    }

    /// Returns the next text message unparsed. Pings that precede it are not answered.
    ///
    /// # Panics
    /// Panics if anything else arrives first, or if nothing arrives in time.
    #[track_caller]
    pub fn text_message(&mut self) -> String {
        let frame = loop {
            let frame = self.frame();
            if frame.first != PING {
                break frame;
            }
        };
        let text = String::from_utf8(frame.payload).expect("the server sends text");
        assert_eq!(frame.first, TEXT, "{text}");
        text
    }

    /// Skips to the Close frame and returns its code.
    #[track_caller]
    pub fn close_code(&mut self) -> u16 {
        self.close_frame().0
    }

    /// Skips to the Close frame and returns its code, its reason, and the frame itself.
    ///
    /// # Panics
    /// Panics if the connection ends without a Close frame.
    #[track_caller]
    pub fn close_frame(&mut self) -> (u16, String, ReceivedFrame) {
        let frame = self.skip_to(CLOSE);
        let (code, reason) = frame.payload.split_first_chunk().expect("the Close frame has a code");
        let reason = String::from_utf8(reason.to_vec()).expect("reasons are text");
        (u16::from_be_bytes(*code), reason, frame)
    }

    /// Skips to the next frame with this first byte.
    ///
    /// # Panics
    /// Panics if none arrives.
    #[track_caller]
    pub fn skip_to(&mut self, first: u8) -> ReceivedFrame {
        let until = Instant::now() + TIMEOUT;
        loop {
            let frame = self.frame();
            if frame.first == first {
                return frame;
            }
            assert!(frame.not_after < until, "no frame {first:#04x} arrived in time");
        }
    }

    /// Reads and discards everything until the connection ends. Returns the time of its end.
    ///
    /// # Panics
    /// Panics if the connection does not end.
    #[track_caller]
    pub fn await_end(&mut self) -> Instant {
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.read_some(until) {
                Ok(None) => panic!("the connection does not end"),
                Ok(Some(0)) | Err(_) => return Instant::now(),
                Ok(Some(_)) => self.received.clear(),
            }
        }
    }

    /// Reads what is available. Returns `None` if nothing arrives before `until`, and 0 at the end of the
    /// stream.
    fn read_some(&mut self, until: Instant) -> io::Result<Option<usize>> {
        let mut buffer = [0; 4096];
        loop {
            let now = Instant::now();
            match self.stream.read(&mut buffer) {
                Ok(read) => {
                    self.received.extend(&buffer[..read]);
                    return Ok(Some(read));
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    self.last_empty_read = now;
                }
                Err(error) => return Err(error),
            }
            if now >= until {
                return Ok(None);
            }
        }
    }
}

/// Removes a whole frame from `received`. Servers do not mask their frames.
fn take_frame(received: &mut Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let (&[first, length], rest) = received.split_first_chunk()?;
    assert_eq!(length & 0x80, 0, "a server's frame is not masked");
    let (header, length) = match length {
        126 => (4, usize::from(u16::from_be_bytes(*rest.first_chunk()?))),
        127 => (
            10,
            usize::try_from(u64::from_be_bytes(*rest.first_chunk()?)).expect("the length fits into memory"),
        ),
        length => (2, usize::from(length)),
    };
    let payload = received.get(header..header + length)?.to_vec();
    received.drain(..header + length);
    Some((first, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_match_the_examples_of_the_rfc() {
        assert_eq!(
            masked(TEXT, b"Hello"),
            [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58],
            "RFC 6455, section 5.7"
        );
        assert_eq!(masked(BINARY, &[0; 126])[..4], [0x82, 0xfe, 0x00, 0x7e]);
        assert_eq!(masked(BINARY, &[0; 65536])[..10], [0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0]);
        let mut received = vec![0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x89];
        assert_eq!(take_frame(&mut received), Some((TEXT, b"Hello".to_vec())));
        assert_eq!(take_frame(&mut received), None);
        assert_eq!(received, [0x89]);
    }
}
