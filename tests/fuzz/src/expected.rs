//! Required answers of a server to a client's frames, according to tungstenite's decoder.

use std::io::{self, Cursor, Read, Write};

use encke_core::close::CloseCode::{self, BadFrame, InvalidPayload, Normal, TooBig, UnsupportedData};
use encke_core::dialect::json::parse_command;
use encke_core::dialect::{Command, CommandRequest};
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Error, Message, WebSocket};

/// Maximum length of a message and of a frame, in bytes. Set in the server's configuration.
pub(crate) const MAX_MESSAGE: usize = 1024;

/// A pong, or the reply to a command with an id.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Pong(Vec<u8>),
    Reply { id: u64, is_error: bool },
}

/// Output of the server.
#[derive(Debug, Default)]
pub(crate) struct ReceivedAnswers {
    pub(crate) answers: Vec<Answer>,
    /// Number of errors without the id of a command.
    pub(crate) errors_without_id: usize,
    /// `None`: the connection is open. `Some(None)`: it was closed with an unknown code.
    pub(crate) close: Option<Option<CloseCode>>,
}

/// How a connection ends.
#[derive(Debug)]
enum ExpectedEnd {
    Open,
    /// The server closes with one of these codes.
    Closed(&'static [CloseCode]),
    /// The stream ends within a frame, which the server may refuse as soon as it has the header.
    Undecided,
    ByClient,
}

impl ExpectedEnd {
    fn permits(&self, close: Option<Option<CloseCode>>) -> bool {
        match (self, close) {
            (Self::Open | Self::Undecided, None) | (Self::ByClient, Some(_)) => true,
            (Self::Closed(codes), Some(Some(code))) => codes.contains(&code),
            (Self::Undecided, Some(code)) => matches!(code, Some(BadFrame | TooBig)),
            _ => false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct ExpectedAnswers {
    answers: Vec<Answer>,
    /// Number of commands without an id that are malformed, and of all others without an id.
    malformed_without_id: usize,
    others_without_id: usize,
    /// `None`: not known yet.
    end: Option<ExpectedEnd>,
    /// Number of answers after which the server may close the session because the client acknowledged a
    /// message that was never sent.
    may_end_after: Option<usize>,
}

impl ExpectedAnswers {
    pub(crate) fn to(stream: &[u8]) -> Self {
        let mut expected = Self {
            answers: Vec::new(),
            malformed_without_id: 0,
            others_without_id: 0,
            end: None,
            may_end_after: None,
        };
        let config =
            WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
        let mut socket = WebSocket::from_raw_socket(ClientBytes(stream), Role::Server, Some(config));
        while expected.end.is_none() {
            let end = match socket.read() {
                Ok(Message::Text(text)) => {
                    expected.command(&text);
                    continue;
                }
                Ok(Message::Ping(payload)) => {
                    expected.answers.push(Answer::Pong(payload.to_vec()));
                    continue;
                }
                Ok(Message::Pong(payload)) => {
                    // A pong acknowledges messages if its payload is a seq.
                    if payload.len() == 8 {
                        expected.may_end();
                    }
                    continue;
                }
                Ok(Message::Binary(_)) => ExpectedEnd::Closed(&[UnsupportedData]),
                Ok(Message::Close(_) | Message::Frame(_)) => ExpectedEnd::ByClient,
                Err(Error::Io(_)) if ends_within_a_frame(stream) => ExpectedEnd::Undecided,
                Err(Error::Io(_)) => ExpectedEnd::Open,
                Err(Error::Utf8(_)) => ExpectedEnd::Closed(&[InvalidPayload]),
                Err(Error::Capacity(_)) => ExpectedEnd::Closed(&[TooBig, BadFrame]),
                Err(_) => ExpectedEnd::Closed(&[BadFrame]),
            };
            expected.end = Some(end);
        }
        expected
    }

    fn command(&mut self, text: &str) {
        let CommandRequest { id, command } = parse_command(text);
        match command {
            Ok(Command::Ack { .. } | Command::Pong { .. }) => self.may_end(),
            Ok(Command::Close) => self.end = Some(ExpectedEnd::Closed(&[Normal])),
            _ => {}
        }
        match (id, command.is_err()) {
            (Some(id), is_error) => self.answers.push(Answer::Reply { id, is_error }),
            (None, true) => self.malformed_without_id += 1,
            (None, false) => self.others_without_id += 1,
        }
    }

    fn may_end(&mut self) {
        self.may_end_after.get_or_insert(self.answers.len());
    }

    /// Asserts that these answers have arrived. If the engine is late, replies wait for it but pongs do not.
    pub(crate) fn check(mut self, mut received: ReceivedAnswers, is_late: bool) {
        let close = received.close;
        if let Some(first) = self.may_end_after
            && close == Some(Some(CloseCode::ProtocolError))
        {
            // An acknowledgement does not wait for a late engine, so the session may close before the other
            // answers.
            if is_late {
                return;
            }
            assert!(received.answers.len() >= first, "{received:?} instead of {self:?}");
            self.answers.truncate(received.answers.len());
        } else {
            let possible = self.malformed_without_id..=self.malformed_without_id + self.others_without_id;
            assert!(possible.contains(&received.errors_without_id), "{received:?} instead of {self:?}");
            assert!(self.end.as_ref().is_some_and(|end| end.permits(close)), "{close:?}: {self:?}");
        }
        if is_late {
            self.answers.sort_by_key(|answer| matches!(answer, Answer::Pong(_)));
            received.answers.sort_by_key(|answer| matches!(answer, Answer::Pong(_)));
        }
        let is_same = self.answers.len() == received.answers.len()
            && self.answers.iter().zip(&received.answers).all(|(expected, answer)| expected.permits(answer));
        assert!(is_same, "{received:?} instead of {self:?}");
    }
}

impl Answer {
    /// Returns whether this is the answer. A command that is not malformed may be refused, too.
    fn permits(&self, answer: &Self) -> bool {
        match (self, answer) {
            (Self::Pong(payload), Self::Pong(other)) => payload == other,
            (Self::Reply { id, is_error }, Self::Reply { id: other, is_error: is_refused }) => {
                id == other && (*is_refused || !is_error)
            }
            _ => false,
        }
    }
}

fn ends_within_a_frame(stream: &[u8]) -> bool {
    let mut cursor = Cursor::new(stream);
    while let Ok(Some((_, length))) = FrameHeader::parse(&mut cursor) {
        cursor.set_position(cursor.position().saturating_add(length));
    }
    cursor.position() != stream.len() as u64
}

/// Socket with the bytes of a client, which is silent when they have been read.
struct ClientBytes<'a>(&'a [u8]);

impl Read for ClientBytes<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { self.0.read(into) }
    }
}

impl Write for ClientBytes<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
