//! A WebSocket client that sends hand-made frames and does nothing on its own.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use encke_client::transport::websocket::{FrameHead, Opcode, write_masked};
use serde_json::Value;

use crate::Hello;
pub use crate::connection::Dial;
use crate::connection::{Connection, Transport};
use crate::waiting::TIMEOUT;

/// Key of the example in RFC 6455, section 1.3, and the server's answer to it.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Masking key of the examples in RFC 6455, section 5.7.
pub const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// First bytes of unfragmented frames.
pub const TEXT: u8 = 0x81;
pub const BINARY: u8 = 0x82;
pub const CLOSE: u8 = 0x88;
pub const PING: u8 = 0x89;
pub const PONG: u8 = 0x8a;

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

/// Connection for WebSocket frames.
pub type RawClient<S = TcpStream> = Connection<S>;

/// Returns an upgrade request with these `Connection` headers and additional headers: lines that end in CR LF.
pub fn upgrade_request(connection: &[&str], path: &str, headers: &str) -> String {
    let connection: String = connection.iter().map(|options| format!("Connection: {options}\r\n")).collect();
    format!(
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{connection}Upgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{headers}\r\n"
    )
}

/// Encodes a masked frame, as clients send them.
pub fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    write_masked(&mut frame, Opcode::Text, payload, MASK);
    frame[0] = first;
    frame
}

impl Connection {
    #[track_caller]
    pub fn upgraded(address: SocketAddr, query: &str) -> Self {
        let mut client = Self::connect(address);
        client.upgrade(query);
        client
    }

    #[track_caller]
    pub fn greeted(address: SocketAddr, query: &str) -> (Self, Hello) {
        let mut client = Self::upgraded(address, query);
        let hello = client.hello();
        (client, hello)
    }
}

impl<S: Transport> Connection<S> {
    #[track_caller]
    pub fn upgrade(&mut self, query: &str) {
        self.request_upgrade(query);
        self.await_upgrade();
    }

    /// Upgrades with a query, and reads the hello.
    #[track_caller]
    pub fn greet(&mut self, query: &str) -> Hello {
        self.upgrade(query);
        self.hello()
    }

    pub fn request_upgrade(&mut self, query: &str) {
        self.request_upgrade_with(query, "");
    }

    /// Sends the upgrade request with additional headers: lines that end in CR LF.
    pub fn request_upgrade_with(&mut self, query: &str, headers: &str) {
        self.request_upgrade_at(&format!("/ws?{query}"), headers);
    }

    /// Like [`request_upgrade_with`](Self::request_upgrade_with), for another path.
    pub fn request_upgrade_at(&mut self, path: &str, headers: &str) {
        self.request_upgrade_with_connection(&["Upgrade"], path, headers);
    }

    /// Like [`request_upgrade_at`](Self::request_upgrade_at), with these `Connection` headers.
    pub fn request_upgrade_with_connection(&mut self, connection: &[&str], path: &str, headers: &str) {
        self.started_at = Instant::now();
        self.send(upgrade_request(connection, path, headers));
    }

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

    #[track_caller]
    pub fn hello(&mut self) -> Hello {
        Hello::parse(self.object())
    }

    pub fn text(&mut self, text: &str) {
        self.send(masked(TEXT, text.as_bytes()));
    }

    /// Returns the next frame, or `None` if none arrives within `limit`.
    /// An error if the connection ends.
    pub fn frame_within(&mut self, limit: Duration) -> io::Result<Option<ReceivedFrame>> {
        let Some((first, payload)) = self.take_within(limit, take_frame)? else { return Ok(None) };
        // No read takes place while a whole frame is buffered, so the last empty read precedes the arrival of
        // its bytes.
        let not_before = self.last_empty_read;
        Ok(Some(ReceivedFrame { first, payload, not_before, not_after: Instant::now() }))
    }

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
    #[track_caller]
    pub fn object(&mut self) -> Value {
        let payload = self.frame_of(TEXT).payload;
        serde_json::from_slice(&payload).expect("the server sends JSON")
    }

    /// Returns the next text message unparsed. Pings that precede it are not answered.
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
    #[track_caller]
    pub fn close_frame(&mut self) -> (u16, String, ReceivedFrame) {
        let frame = self.skip_to(CLOSE);
        let (code, reason) = frame.payload.split_first_chunk().expect("the Close frame has a code");
        let reason = String::from_utf8(reason.to_vec()).expect("reasons are text");
        (u16::from_be_bytes(*code), reason, frame)
    }

    /// Skips to the next frame with this first byte.
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
}

/// Removes a whole frame from `received`: its first byte and its payload.
fn take_frame(received: &mut Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let head = FrameHead::parse(received).expect("the server sends valid frames")?;
    let end = head.head_bytes + usize::try_from(head.payload_bytes).expect("the length fits into memory");
    let payload = received.get(head.head_bytes..end)?.to_vec();
    let first = received.drain(..end).next()?;
    Some((first, payload))
}
