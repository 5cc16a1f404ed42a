//! A session over long-polling: on one connection a poll that is held, and a second connection, if it is needed, for what the client
//! says meanwhile.

mod bayeux;
mod bayeux_answer;
mod bayeux_socket;
mod json;
mod reading;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep, timeout};

pub(super) use self::bayeux::{BayeuxPolls, open as open_bayeux};
pub(super) use self::bayeux_socket::{BayeuxSocket, open as open_bayeux_socket};
pub(super) use self::json::{JsonPolls, open as open_json};
use super::Event;
use crate::transport::websocket::End;
use crate::transport::{Answer, Line};

/// How long a server may take to answer a goodbye.
const GOODBYE: Duration = Duration::from_secs(5);

/// What requests and answers of a protocol say.
pub(super) trait Dialect {
    /// How many commands one request may have.
    const MAX_COMMANDS: usize;

    /// The request that is to be held.
    fn poll(&mut self) -> Vec<u8>;
    /// The request with these commands, one at least.
    fn commands(&mut self, commands: &[String]) -> Vec<u8>;
    fn subscribe(&self, channel: &str) -> String;
    /// `data` is JSON.
    fn publish(&self, id: u64, channel: &str, data: &str) -> String;
    /// What ends the session.
    fn goodbye(&self) -> String;
    /// The answer to a poll that was sent so long ago.
    fn answered(&mut self, answer: Answer<'_>, after: Duration, said: &mut Said) -> Result<(), End>;
    /// The answer to commands.
    fn replied(&mut self, answer: Answer<'_>, said: &mut Said) -> Result<(), End>;
    /// How long to wait before the next poll.
    fn pause(&self) -> Duration;
}

/// What the server has said, and nobody has heard yet.
pub(super) type Said = VecDeque<Saying>;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Saying {
    Text(Box<str>),
    /// What to come back with.
    Id(Box<str>),
    /// Nothing, so long after it was asked.
    Nothing(Duration),
}

impl Saying {
    fn tell<T>(&self, on_event: &mut impl FnMut(Event<'_>) -> ControlFlow<T>) -> ControlFlow<T> {
        match self {
            Self::Text(text) => on_event(Event::Text(text)),
            Self::Id(id) => on_event(Event::Id(id)),
            Self::Nothing(after) => on_event(Event::Held(*after)),
        }
    }
}

/// Hands over what was said, until it breaks.
fn tell_all<T>(said: &mut Said, on_event: &mut impl FnMut(Event<'_>) -> ControlFlow<T>) -> ControlFlow<T> {
    while let Some(saying) = said.pop_front() {
        saying.tell(on_event)?;
    }
    ControlFlow::Continue(())
}

#[derive(Debug)]
pub(super) struct LongPoll<D> {
    dialect: D,
    polls: Line,
    /// What was asked on that connection.
    asked: Option<Asked>,
    beside: Option<Box<Beside>>,
    /// Commands, at most [`Dialect::MAX_COMMANDS`].
    unsent: Vec<String>,
    said: Said,
    /// Until the next poll.
    rest: Option<Pin<Box<Sleep>>>,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    /// And when.
    Poll(Instant),
    Commands,
}

/// The connection for commands while a poll is held.
#[derive(Debug)]
struct Beside {
    line: Line,
    is_asked: bool,
}

impl<D: Dialect> LongPoll<D> {
    fn new(polls: Line, dialect: D) -> Self {
        Self {
            dialect,
            polls,
            asked: None,
            beside: None,
            unsent: Vec::new(),
            said: Said::new(),
            rest: None,
            end: None,
        }
    }

    /// The first poll was sent at this instant, unless the connection has ended before its answer.
    fn has_polled(mut self, at: Instant) -> Self {
        self.asked = self.polls.is_open().then_some(Asked::Poll(at));
        self
    }

    /// The server has said this already.
    fn having_heard(self, said: Said) -> Self {
        Self { said, ..self }
    }

    pub(super) fn dialect(&self) -> &D {
        &self.dialect
    }

    /// Polls for as long as it is called. Hands everything that the server says to `on_event`, until it breaks or the session ends.
    pub(super) fn poll_each<T>(
        &mut self,
        context: &mut Context<'_>,
        on_event: &mut impl FnMut(Event<'_>) -> ControlFlow<T>,
    ) -> Poll<Result<T, End>> {
        loop {
            if let ControlFlow::Break(value) = tell_all(&mut self.said, on_event) {
                return Poll::Ready(Ok(value));
            }
            // A client that waits keeps nothing.
            self.said = Said::new();
            if let Some(end) = self.end {
                return Poll::Ready(Err(end));
            }
            if !self.go_on(context) {
                return Poll::Pending;
            }
        }
    }

    /// Returns when the command is on its way, or soon will be: with others, when those before it have been answered.
    pub(super) async fn send(&mut self, command: &str) {
        self.unsent.push(command.to_owned());
        poll_fn(|context| {
            while self.end.is_none() && self.go_on(context) {}
            let has_room = self.unsent.len() < D::MAX_COMMANDS || self.end.is_some();
            if has_room { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Ends the session, and waits until the server knows.
    pub(super) async fn close(mut self) {
        let goodbye = self.dialect.goodbye();
        self.send(&goodbye).await;
        let answered = poll_fn(|context| {
            while self.end.is_none() && self.go_on(context) {}
            let is_answered = self.unsent.is_empty()
                && self.beside.as_ref().is_none_or(|beside| !beside.is_asked)
                && !matches!(self.asked, Some(Asked::Commands));
            if is_answered || self.end.is_some() { Poll::Ready(()) } else { Poll::Pending }
        });
        // A server that does not answer may keep the session.
        let _ = timeout(GOODBYE, answered).await;
    }

    /// Ends its connections with resets.
    pub(super) fn reset_on_drop(&self) {
        self.polls.reset_on_drop();
        if let Some(beside) = &self.beside {
            beside.line.reset_on_drop();
        }
    }

    /// Whether anything has happened, of which there may be more. An end is kept.
    fn go_on(&mut self, context: &mut Context<'_>) -> bool {
        let on_polls = match self.asked {
            None => self.ask(context),
            Some(asked) => self.listen(context, asked),
        };
        let moved = on_polls.and_then(|moved| Ok(moved | self.go_on_beside(context)?));
        moved.unwrap_or_else(|end| {
            self.end = Some(end);
            true
        })
    }

    fn ask(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let has_commands = !self.unsent.is_empty();
        if !has_commands && self.is_resting(context) {
            return Ok(false);
        }
        // Before it leaves: so no server can seem to hold it for less time than it did.
        let now = Instant::now();
        let Self { polls, dialect, unsent, .. } = self;
        let sent = polls.poll_send(context, || {
            if has_commands { dialect.commands(&mem::take(unsent)) } else { dialect.poll() }
        });
        if sent?.is_pending() {
            return Ok(false);
        }
        self.asked = Some(if has_commands { Asked::Commands } else { Asked::Poll(now) });
        Ok(true)
    }

    fn is_resting(&mut self, context: &mut Context<'_>) -> bool {
        let is_resting = self.rest.as_mut().is_some_and(|rest| rest.as_mut().poll(context).is_pending());
        if !is_resting {
            self.rest = None;
        }
        is_resting
    }

    fn listen(&mut self, context: &mut Context<'_>, asked: Asked) -> Result<bool, End> {
        let Self { polls, dialect, said, .. } = self;
        let polled = polls.poll_answer(context, |answer| match asked {
            Asked::Poll(at) => dialect.answered(answer, at.elapsed(), said),
            Asked::Commands => dialect.replied(answer, said),
        });
        let Poll::Ready(heard) = polled? else { return Ok(false) };
        self.asked = None;
        heard?;
        let pause = self.dialect.pause();
        if matches!(asked, Asked::Poll(_)) && !pause.is_zero() {
            self.rest = Some(Box::pin(sleep(pause)));
        }
        Ok(true)
    }

    fn go_on_beside(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let Self { polls, dialect, said, unsent, beside, asked, .. } = self;
        let is_needed = !unsent.is_empty() && matches!(asked, Some(Asked::Poll(_)));
        if is_needed && beside.is_none() {
            *beside = polls.beside().map(|line| Box::new(Beside { line, is_asked: false }));
        }
        let Some(Beside { line, is_asked }) = beside.as_deref_mut() else { return Ok(false) };
        if *is_asked {
            let polled = line.poll_answer(context, |answer| dialect.replied(answer, said));
            let Poll::Ready(heard) = polled? else { return Ok(false) };
            *is_asked = false;
            return heard.map(|()| true);
        }
        if is_needed {
            let sent = line.poll_send(context, || dialect.commands(&mem::take(unsent)));
            *is_asked = sent?.is_ready();
            return Ok(*is_asked);
        }
        // Servers do not keep connections on which nothing is asked for long.
        let is_over = line.poll_end(context).is_ready();
        if is_over {
            *beside = None;
        }
        Ok(is_over)
    }
}
