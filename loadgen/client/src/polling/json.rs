//! Encke's `json` dialect over long-polling: `GET` polls, `POST` sends commands. Responses are arrays of the
//! objects that a WebSocket would receive.

use std::sync::Arc;
use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::json::{Goaway, ServerMessage};

use super::dialect::{Dialect, Inbox, OK, objects};
use crate::event::QueuedEvent;
use crate::json::seq_of;
use crate::transport::websocket::ConnectionEnd;
use crate::transport::{Endpoint, Request};
use crate::{ClientFailure, Greeting, Ticket};

const SUPERSEDED: u16 = 409;
/// Status of the response when the session no longer exists.
const GONE: u16 = 410;
/// How long the server asks clients to wait before polling again after 409.
const SUPERSEDED_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct JsonDialect {
    endpoint: Arc<Endpoint>,
    ticket: Ticket,
    phase: Phase,
    /// Whether the session has been resumed and no poll has been superseded since. One 409 is tolerated,
    /// because the server may read an older poll, sent before the disconnect, after a newer one.
    is_resumed: bool,
    /// Whether the last poll was superseded by another one. If so, the next poll is delayed.
    is_superseded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Sends an acknowledgement, whose response shows immediately whether the session exists, whereas a poll
    /// would be held.
    Resuming,
    /// Requests the hello.
    Opening,
    Open,
}

impl JsonDialect {
    pub(crate) fn new(endpoint: &Arc<Endpoint>, resume: Option<&Ticket>) -> Self {
        let ticket = Ticket { last_id: None, ..resume.cloned().unwrap_or_default() };
        let phase = if resume.is_some() { Phase::Resuming } else { Phase::Opening };
        let is_resumed = resume.is_some();
        Self { endpoint: Arc::clone(endpoint), ticket, phase, is_resumed, is_superseded: false }
    }

    fn get(path: String) -> Request {
        Request { method: "GET", path, body: String::new() }
    }

    fn post(&self, body: String) -> Request {
        let path = self.endpoint.url.path_without("channels", &format!("resume={}", self.ticket.token));
        Request { method: "POST", path, body }
    }

    /// Queues the objects of a response, and sets `seq` to the last seq among them. A goaway ends the session,
    /// and so does the hello of another session.
    fn take_objects(&mut self, objects: Vec<&str>, inbox: &mut Inbox) -> Result<(), ConnectionEnd> {
        for text in objects {
            if let Some(seq) = seq_of(text) {
                self.ticket.seq = seq;
            } else {
                match serde_json::from_str(text) {
                    Ok(ServerMessage::Goaway(goaway)) => return Err(end_of(&goaway)),
                    Ok(ServerMessage::Hello(hello)) if self.phase == Phase::Opening => {
                        let greeting = Greeting::from(hello);
                        self.ticket = greeting.ticket.clone();
                        // Long-polling has no pings.
                        let (ping_interval, pong_timeout) = (Duration::ZERO, Duration::ZERO);
                        inbox.opened = Some(Ok(Greeting { ping_interval, pong_timeout, ..greeting }));
                        continue;
                    }
                    Ok(ServerMessage::Hello(_)) => return Err(ConnectionEnd::Status(GONE)),
                    Ok(_) | Err(_) => {}
                }
            }
            inbox.events.push(QueuedEvent::Text(text.to_owned()));
        }
        Ok(())
    }
}

fn end_of(goaway: &Goaway<'_>) -> ConnectionEnd {
    let code = CloseCode::ALL.into_iter().find(|code| code.reason() == goaway.reason);
    ConnectionEnd::Closed(code.map(CloseCode::code))
}

impl Dialect for JsonDialect {
    fn poll(&mut self) -> Request {
        let query = self.ticket.query();
        match self.phase {
            Phase::Resuming => self.post(format!(r#"{{"ack":{{"seq":{}}}}}"#, self.ticket.seq)),
            Phase::Opening => {
                Self::get(self.endpoint.url.path_with(if self.is_resumed { &query } else { "" }))
            }
            Phase::Open => Self::get(self.endpoint.url.path_without("channels", &query)),
        }
    }

    fn commands(&self, commands: &[String]) -> Request {
        self.post(match commands {
            [one] => one.clone(),
            several => format!("[{}]", several.join(",")),
        })
    }

    fn close_command(&self) -> String {
        r#"{"close":{}}"#.to_owned()
    }

    fn on_response(
        &mut self,
        status: u16,
        body: &[u8],
        polled_for: Option<Duration>,
        inbox: &mut Inbox,
    ) -> Result<bool, ConnectionEnd> {
        if polled_for.is_some() {
            self.is_superseded =
                self.phase == Phase::Open && status == SUPERSEDED && std::mem::take(&mut self.is_resumed);
            if self.is_superseded {
                return Ok(true);
            }
        }
        if self.phase == Phase::Resuming && status == GONE {
            self.phase = Phase::Opening;
            return Ok(true);
        }
        if status != OK {
            return Err(ConnectionEnd::Status(status));
        }
        let objects = objects(body)?;
        if let Some(elapsed) = polled_for.filter(|_| objects.is_empty() && self.phase == Phase::Open) {
            inbox.events.push(QueuedEvent::EmptyPoll(elapsed));
        }
        self.take_objects(objects, inbox)?;
        match self.phase {
            Phase::Resuming => inbox.opened = Some(Ok(Greeting::resumed(self.ticket.clone()))),
            Phase::Opening => drop(inbox.opened.get_or_insert(Err(ClientFailure::NoHello))),
            Phase::Open => {}
        }
        self.phase = Phase::Open;
        Ok(true)
    }

    fn poll_delay(&self) -> Duration {
        if self.is_superseded { SUPERSEDED_DELAY } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TlsOptions;
    use crate::transport::websocket::ProtocolFault;

    /// Reads the response to a poll of a resumed session. Returns the result and the last seq.
    fn read(body: &str) -> (Result<bool, ConnectionEnd>, u64) {
        let endpoint = Endpoint::new("http://h".parse().expect("the URL is valid"), TlsOptions::default());
        let mut dialect = JsonDialect::new(&endpoint, Some(&Ticket { seq: 7, ..Ticket::default() }));
        let mut inbox = Inbox::default();
        let result = dialect.on_response(OK, body.as_bytes(), Some(Duration::ZERO), &mut inbox);
        (result, dialect.ticket.seq)
    }

    #[test]
    fn the_last_seq_counts_and_a_goaway_ends_the_session() {
        let message = r#"{"message":{"seq":8,"channel":"news","offset":1,"data":[1,"]"]}}"#;
        let gap = r#"{"gap":{"seq":9,"channel":"news","epoch":"e"}}"#;
        let reply = r#"{"reply":{"id":1,"ok":{}}}"#;
        assert_eq!(read(&format!("[{message},{gap},\n{reply}]")), (Ok(true), 9));
        assert_eq!(read("[]"), (Ok(true), 7));
        let goaway = |reason| format!(r#"[{message},{{"goaway":{{"reason":"{reason}","retry_ms":1}}}}]"#);
        assert_eq!(read(&goaway("idle")), (Err(ConnectionEnd::Closed(Some(4004))), 8));
        assert_eq!(read(&goaway("of_next_year")).0, Err(ConnectionEnd::Closed(None)));
        let other = r#"[{"hello":{"version":1,"session":"s","resume":"s.x","recovered":false,"seq":0,
            "ping_interval_ms":1,"pong_timeout_ms":1,"reconnect_window_ms":1}}]"#;
        assert_eq!(read(other).0, Err(ConnectionEnd::Status(410)), "a hello belongs to another session");
        assert_eq!(read("<html>").0, Err(ConnectionEnd::Fault(ProtocolFault::Answer)));
    }
}
