//! The server's greeting, and the ticket with which a client resumes its session.

use std::time::Duration;

use encke_core::dialect::json::Hello;

use crate::event::ClientEvent;
use crate::json::seq_of;

/// Parameters that the server announced at the beginning; zero for values that it did not announce.
#[derive(Debug, Default)]
pub struct Greeting {
    pub ticket: Ticket,
    pub recovered: bool,
    /// Whether the server asks for [`Ticket::positions`].
    pub asks_for_positions: bool,
    /// How long a client may be silent before it is pinged.
    pub ping_interval: Duration,
    pub pong_timeout: Duration,
    /// How long a poll is held while there is nothing to deliver.
    pub poll_hold: Duration,
}

/// Resume token, and position of the last message received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    pub token: Box<str>,
    pub seq: u64,
    /// Id of the last event, for servers that assign event ids.
    pub last_id: Option<Box<str>>,
    /// First frame of a resumed WebSocket in the `json` dialect, which contains the positions in all channels.
    pub positions: Option<Box<str>>,
}

impl Greeting {
    pub(crate) fn resumed(ticket: Ticket) -> Self {
        Self { ticket, recovered: true, ..Self::default() }
    }
}

impl From<Hello<'_>> for Greeting {
    fn from(hello: Hello<'_>) -> Self {
        Self {
            ticket: Ticket { token: hello.resume.into(), seq: hello.seq, last_id: None, positions: None },
            recovered: hello.recovered,
            asks_for_positions: hello.positions,
            ping_interval: Duration::from_millis(hello.ping_interval_ms),
            pong_timeout: Duration::from_millis(hello.pong_timeout_ms),
            // The hello does not announce how long polls are held.
            poll_hold: Duration::ZERO,
        }
    }
}

impl Ticket {
    /// Records the position of a received message.
    pub fn note(&mut self, event: ClientEvent<'_>) {
        match event {
            ClientEvent::Text(text) => self.seq = seq_of(text).unwrap_or(self.seq),
            ClientEvent::Id(id) => self.last_id = (!id.is_empty()).then(|| id.into()),
            ClientEvent::Ping(_) | ClientEvent::Pong(_) | ClientEvent::EmptyPoll(_) => {}
        }
    }

    /// Returns the query parameters that resume a session of the `json` dialect.
    pub(crate) fn query(&self) -> String {
        let announced = if self.positions.is_some() { "&positions=1" } else { "" };
        format!("resume={}&seq={}{announced}", self.token, self.seq)
    }
}
