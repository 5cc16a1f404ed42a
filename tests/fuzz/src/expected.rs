//! What a server must do with the frames of a client, read the slow way.

use encke_core::close::CloseCode::{self, BadFrame, InvalidPayload, TooBig, UnsupportedData};
use encke_core::dialect::json::{Reply, ReplyOutcome, parse_command};
use encke_core::dialect::{Command, CommandRequest};

use crate::rfc6455::{BINARY, CLOSE, CONTINUATION, Frame, Header, PING, PONG, TEXT, frames};

/// The longest message and the longest frame, in bytes, as configured.
pub(crate) const MAX_MESSAGE: usize = 1024;

/// An answer that is due, in the order of what it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// With this payload.
    Pong(Vec<u8>),
    /// To the command with this id, or to one without.
    Reply { id: Option<u64>, is_error: bool },
    /// To a command without an id: only if it was refused.
    Refusal,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It goes on.
    Open,
    /// Frames break RFC 6455, or what the server takes of it: with one of these codes.
    Refused(&'static [CloseCode]),
    /// By a Close frame of the client.
    ByClient,
    /// By the command `close`.
    ByCommand,
}

/// What must come of a stream.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) answers: Vec<Answer>,
    pub(crate) end: End,
    /// The number of answers after which the session may end for the dialect's reasons: acknowledgements of what was never sent.
    pub(crate) may_end_after: Option<usize>,
    /// A message that has begun.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    is_text: bool,
    bytes: Vec<u8>,
}

impl Expected {
    pub(crate) fn of(stream: &[u8]) -> Self {
        let mut expected = Self { answers: Vec::new(), end: End::Open, may_end_after: None, open: None };
        let (frames, rest) = frames(stream);
        for frame in frames {
            expected.frame(frame);
            if expected.end != End::Open {
                return expected;
            }
        }
        if Header::read(rest).is_some_and(|header| header.payload > MAX_MESSAGE as u64) {
            // Nobody waits for the rest of it. It may be wrong in other ways as well.
            expected.end = End::Refused(&[TooBig, BadFrame]);
        }
        expected
    }

    fn frame(&mut self, Frame { header, payload }: Frame) {
        let is_control = header.opcode >= CLOSE;
        let is_sound = header.is_plain
            && header.mask.is_some()
            && matches!(header.opcode, CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG)
            && !(is_control && (!header.is_final || payload.len() > 125));
        let is_short = payload.len() <= MAX_MESSAGE;
        if !is_sound || !is_short {
            self.end = End::Refused(match (is_sound, is_short) {
                (true, _) => &[TooBig],
                (false, true) => &[BadFrame],
                (false, false) => &[BadFrame, TooBig],
            });
            return;
        }
        match header.opcode {
            CONTINUATION if self.open.is_some() => self.part(header.is_final, &payload),
            TEXT | BINARY if self.open.is_none() => {
                self.open = Some(Open { is_text: header.opcode == TEXT, bytes: Vec::new() });
                self.part(header.is_final, &payload);
            }
            PING => self.answers.push(Answer::Pong(payload)),
            PONG if payload.len() == 8 => self.may_end(),
            PONG => {}
            CLOSE => self.end = close(&payload),
            // A part of nothing, or a message within another.
            _ => self.end = End::Refused(&[BadFrame]),
        }
    }

    fn part(&mut self, is_last: bool, payload: &[u8]) {
        let open = self.open.as_mut().expect("a message is open");
        open.bytes.extend(payload);
        // A character may go on in the next frame, but what cannot become one is refused at once.
        let is_good = match std::str::from_utf8(&open.bytes) {
            Err(error) if open.is_text => !is_last && error.error_len().is_none(),
            _ => true,
        };
        let is_short = open.bytes.len() <= MAX_MESSAGE;
        if !is_short || !is_good {
            self.end = End::Refused(match (is_short, is_good) {
                (false, true) => &[TooBig],
                (true, _) => &[InvalidPayload],
                (false, false) => &[TooBig, InvalidPayload],
            });
        } else if is_last && !open.is_text {
            self.end = End::Refused(&[UnsupportedData]);
        } else if is_last {
            let open = self.open.take().expect("a message is open");
            self.command(std::str::from_utf8(&open.bytes).expect("it was checked"));
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
            Ok(Command::Close) => self.end = End::ByCommand,
            _ => {}
        }
        self.answers.push(match (id, command.is_err()) {
            (None, false) => Answer::Refusal,
            (id, is_error) => Answer::Reply { id, is_error },
        });
    }

    fn may_end(&mut self) {
        self.may_end_after.get_or_insert(self.answers.len());
    }
}

/// How far the answers that are due have come.
#[derive(Debug)]
pub(crate) struct Answers<'a> {
    replies: InOrder<'a>,
    /// Where these come in an order of their own. Otherwise they are among the replies.
    pongs: Option<InOrder<'a>>,
}

impl<'a> Answers<'a> {
    /// Replies wait for an engine that `is_late`, and pongs do not: then each kind comes in an order of its own.
    pub(crate) fn to(due: &'a [Answer], is_late: bool) -> Self {
        if !is_late {
            return Self { replies: InOrder::to(due.iter().collect()), pongs: None };
        }
        let (pongs, replies) = due.iter().partition(|answer| matches!(answer, Answer::Pong(_)));
        Self { replies: InOrder::to(replies), pongs: Some(InOrder::to(pongs)) }
    }

    pub(crate) fn ponged(&mut self, payload: &[u8]) {
        let pongs = self.pongs.as_mut().unwrap_or(&mut self.replies);
        pongs.came(&payload, |answer| matches!(answer, Answer::Pong(due) if due == payload));
    }

    pub(crate) fn replied(&mut self, reply: &Reply<'_>) {
        let is_refused = matches!(reply.outcome, ReplyOutcome::Error(_));
        self.replies.came(reply, |answer| match answer {
            Answer::Pong(_) => false,
            Answer::Refusal => reply.id.is_none() && is_refused,
            Answer::Reply { id, is_error } => reply.id == *id && (is_refused || !is_error),
        });
    }

    /// All have come.
    pub(crate) fn check_all(&self) {
        self.replies.check_first(usize::MAX);
        if let Some(pongs) = &self.pongs {
            pongs.check_first(usize::MAX);
        }
    }

    /// So many have come. Of a late engine, none need have.
    pub(crate) fn check_first(&self, first: usize) {
        if self.pongs.is_none() {
            self.replies.check_first(first);
        }
    }
}

/// Answers of which each comes after those before it. A reply without an id may answer one of several commands: so there are several
/// places where that can be.
#[derive(Debug)]
struct InOrder<'a> {
    due: Vec<&'a Answer>,
    /// How many are behind, in ascending order.
    behind: Vec<usize>,
}

impl<'a> InOrder<'a> {
    fn to(due: Vec<&'a Answer>) -> Self {
        Self { due, behind: vec![0] }
    }

    /// Something has come that must be the next answer.
    fn came(&mut self, what: &dyn std::fmt::Debug, is_it: impl Fn(&Answer) -> bool) {
        let mut behind = Vec::new();
        for start in &self.behind {
            for (index, answer) in self.due.iter().enumerate().skip(*start) {
                if is_it(answer) {
                    behind.push(index + 1);
                }
                if **answer != Answer::Refusal {
                    break;
                }
            }
        }
        let due = || self.behind.iter().map(|start| self.due.get(*start)).collect::<Vec<_>>();
        assert!(!behind.is_empty(), "{what:?} where one of these is due: {:?}", due());
        behind.sort_unstable();
        behind.dedup();
        self.behind = behind;
    }

    fn check_first(&self, first: usize) {
        let farthest = self.behind.last().copied().unwrap_or_default();
        let missing = self.due.get(farthest..first.min(self.due.len())).unwrap_or_default();
        assert!(missing.iter().all(|answer| **answer == Answer::Refusal), "unanswered: {missing:?}");
    }
}

/// Section 5.5.1: nothing, or a code and a reason.
fn close(payload: &[u8]) -> End {
    match payload {
        [_] => End::Refused(&[BadFrame]),
        [_, _, reason @ ..] if std::str::from_utf8(reason).is_err() => {
            End::Refused(&[InvalidPayload, BadFrame])
        }
        _ => End::ByClient,
    }
}
