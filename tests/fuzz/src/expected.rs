//! A model of the server's answers to a client's frames, written to be simple rather than fast.

use encke_core::close::CloseCode::{self, BadFrame, InvalidPayload, TooBig, UnsupportedData};
use encke_core::dialect::json::{Reply, ReplyOutcome, parse_command};
use encke_core::dialect::{Command, CommandRequest};

use crate::rfc6455::{BINARY, CLOSE, CONTINUATION, FrameHeader, PING, PONG, ParsedFrame, TEXT, frames};

/// Maximum length of a message and of a frame, in bytes. Set in the server's configuration.
pub(crate) const MAX_MESSAGE: usize = 1024;

/// An answer that the server must send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedAnswer {
    /// A Pong frame with this payload.
    Pong(Vec<u8>),
    /// A reply to a command. `id` is `None` if the command has no id.
    Reply { id: Option<u64>, is_error: bool },
    /// An optional reply to a command without an id: the server replies only if it rejects the command.
    Refusal,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedEnd {
    /// The connection stays open.
    Open,
    /// The frames violate RFC 6455 or a limit of the server. The close code is one of the listed codes.
    Refused(&'static [CloseCode]),
    /// The client sent a Close frame.
    ByClient,
    /// The client sent the command `close`.
    ByCommand,
}

/// Expected reaction of the server to a stream of frames.
#[derive(Debug)]
pub(crate) struct ExpectedStream {
    pub(crate) answers: Vec<ExpectedAnswer>,
    pub(crate) end: ExpectedEnd,
    /// Number of answers after which the server may close the session because the client acknowledged a
    /// message that was never sent.
    pub(crate) may_end_after: Option<usize>,
    /// Fragmented message whose last frame has not been read.
    open: Option<OpenMessage>,
}

#[derive(Debug)]
struct OpenMessage {
    is_text: bool,
    bytes: Vec<u8>,
}

impl ExpectedStream {
    pub(crate) fn of(stream: &[u8]) -> Self {
        let mut expected =
            Self { answers: Vec::new(), end: ExpectedEnd::Open, may_end_after: None, open: None };
        let (frames, rest) = frames(stream);
        for frame in frames {
            expected.frame(frame);
            if expected.end != ExpectedEnd::Open {
                return expected;
            }
        }
        // The server does not wait for the rest of a frame whose header shows that it must be refused.
        if let Some(header) = FrameHeader::read(rest) {
            expected.header(&header);
        }
        expected
    }

    /// Sets the end if a frame with this header must be refused.
    fn header(&mut self, header: &FrameHeader) {
        let is_control = header.opcode >= CLOSE;
        let follows = match header.opcode {
            CONTINUATION => self.open.is_some(),
            TEXT | BINARY => self.open.is_none(),
            opcode => matches!(opcode, CLOSE | PING | PONG),
        };
        let is_sound = header.is_plain
            && header.mask.is_some()
            && follows
            && !(is_control && (!header.is_final || header.payload > 125));
        let open = self.open.as_ref().filter(|_| !is_control).map_or(0, |open| open.bytes.len() as u64);
        let is_short = header.payload.saturating_add(open) <= MAX_MESSAGE as u64;
        if !is_sound || !is_short {
            self.end = ExpectedEnd::Refused(match (is_sound, is_short) {
                (true, _) => &[TooBig],
                (false, true) => &[BadFrame],
                (false, false) => &[BadFrame, TooBig],
            });
        }
    }

    fn frame(&mut self, ParsedFrame { header, payload }: ParsedFrame) {
        self.header(&header);
        if self.end != ExpectedEnd::Open {
            return;
        }
        match header.opcode {
            CONTINUATION => self.part(header.is_final, &payload),
            TEXT | BINARY => {
                self.open = Some(OpenMessage { is_text: header.opcode == TEXT, bytes: Vec::new() });
                self.part(header.is_final, &payload);
            }
            PING => self.answers.push(ExpectedAnswer::Pong(payload)),
            PONG if payload.len() == 8 => self.may_end(),
            PONG => {}
            _ => self.end = close(&payload),
        }
    }

    fn part(&mut self, is_last: bool, payload: &[u8]) {
        let open = self.open.as_mut().expect("a message is open");
        open.bytes.extend(payload);
        // A character may continue in the next frame, but bytes that cannot become valid UTF-8 are rejected
        // immediately.
        let is_good = match std::str::from_utf8(&open.bytes) {
            Err(error) if open.is_text => !is_last && error.error_len().is_none(),
            _ => true,
        };
        let is_short = open.bytes.len() <= MAX_MESSAGE;
        if !is_short || !is_good {
            self.end = ExpectedEnd::Refused(match (is_short, is_good) {
                (false, true) => &[TooBig],
                (true, _) => &[InvalidPayload],
                (false, false) => &[TooBig, InvalidPayload],
            });
        } else if is_last && !open.is_text {
            self.end = ExpectedEnd::Refused(&[UnsupportedData]);
        } else if is_last {
            let open = self.open.take().expect("a message is open");
            self.command(std::str::from_utf8(&open.bytes).expect("its UTF-8 was checked"));
        }
    }

    fn command(&mut self, text: &str) {
        let CommandRequest { id, command } = parse_command(text);
        match command {
            Ok(Command::Ack { .. } | Command::Pong { .. }) => {
                self.may_end();
                if id.is_none() {
                    return;
                }
            }
            Ok(Command::Close) => self.end = ExpectedEnd::ByCommand,
            _ => {}
        }
        self.answers.push(match (id, command.is_err()) {
            (None, false) => ExpectedAnswer::Refusal,
            (id, is_error) => ExpectedAnswer::Reply { id, is_error },
        });
    }

    fn may_end(&mut self) {
        self.may_end_after.get_or_insert(self.answers.len());
    }
}

/// Compares the answers of the server with the expected ones.
#[derive(Debug)]
pub(crate) struct AnswerChecker<'a> {
    replies: OrderedAnswers<'a>,
    /// Expected pongs, if their order does not depend on the replies. `None`: they are among the replies.
    pongs: Option<OrderedAnswers<'a>>,
}

impl<'a> AnswerChecker<'a> {
    /// Creates a checker. If the engine is late, replies wait for it but pongs do not, so each kind has its
    /// own order.
    pub(crate) fn to(due: &'a [ExpectedAnswer], is_late: bool) -> Self {
        if !is_late {
            return Self { replies: OrderedAnswers::to(due.iter().collect()), pongs: None };
        }
        let (pongs, replies) = due.iter().partition(|answer| matches!(answer, ExpectedAnswer::Pong(_)));
        Self { replies: OrderedAnswers::to(replies), pongs: Some(OrderedAnswers::to(pongs)) }
    }

    pub(crate) fn record_pong(&mut self, payload: &[u8]) {
        let pongs = self.pongs.as_mut().unwrap_or(&mut self.replies);
        pongs.record(&payload, |answer| matches!(answer, ExpectedAnswer::Pong(due) if due == payload));
    }

    pub(crate) fn record_reply(&mut self, reply: &Reply<'_>) {
        let is_refused = matches!(reply.outcome, ReplyOutcome::Error(_));
        self.replies.record(reply, |answer| match answer {
            ExpectedAnswer::Pong(_) => false,
            ExpectedAnswer::Refusal => reply.id.is_none() && is_refused,
            ExpectedAnswer::Reply { id, is_error } => reply.id == *id && (is_refused || !is_error),
        });
    }

    /// Asserts that all answers have arrived.
    pub(crate) fn check_all(&self) {
        self.replies.check_first(usize::MAX);
        if let Some(pongs) = &self.pongs {
            pongs.check_first(usize::MAX);
        }
    }

    /// Asserts that the first `first` answers have arrived. Does nothing if the engine is late, because none
    /// need have arrived.
    pub(crate) fn check_first(&self, first: usize) {
        if self.pongs.is_none() {
            self.replies.check_first(first);
        }
    }
}

/// Answers that must arrive in order. A reply without an id may answer any of several commands, so several
/// positions can be possible.
#[derive(Debug)]
struct OrderedAnswers<'a> {
    due: Vec<&'a ExpectedAnswer>,
    /// Possible numbers of answers received, in ascending order.
    received_counts: Vec<usize>,
}

impl<'a> OrderedAnswers<'a> {
    fn to(due: Vec<&'a ExpectedAnswer>) -> Self {
        Self { due, received_counts: vec![0] }
    }

    /// Records an answer, which must be the next one.
    fn record(&mut self, what: &dyn std::fmt::Debug, is_it: impl Fn(&ExpectedAnswer) -> bool) {
        let mut behind = Vec::new();
        for start in &self.received_counts {
            for (index, answer) in self.due.iter().enumerate().skip(*start) {
                if is_it(answer) {
                    behind.push(index + 1);
                }
                if **answer != ExpectedAnswer::Refusal {
                    break;
                }
            }
        }
        let due = || self.received_counts.iter().map(|start| self.due.get(*start)).collect::<Vec<_>>();
        assert!(!behind.is_empty(), "{what:?} instead of one of {:?}", due());
        behind.sort_unstable();
        behind.dedup();
        self.received_counts = behind;
    }

    fn check_first(&self, first: usize) {
        let farthest = self.received_counts.last().copied().unwrap_or_default();
        let missing = self.due.get(farthest..first.min(self.due.len())).unwrap_or_default();
        assert!(missing.iter().all(|answer| **answer == ExpectedAnswer::Refusal), "unanswered: {missing:?}");
    }
}

/// Returns the end that a Close frame causes. Its payload must be empty, or a code and a reason (RFC 6455,
/// section 5.5.1).
fn close(payload: &[u8]) -> ExpectedEnd {
    match payload {
        [_] => ExpectedEnd::Refused(&[BadFrame]),
        [_, _, reason @ ..] if std::str::from_utf8(reason).is_err() => {
            ExpectedEnd::Refused(&[InvalidPayload, BadFrame])
        }
        _ => ExpectedEnd::ByClient,
    }
}
