//! A subscriber, over all its connections.

use std::time::Duration;

use super::ledger::Ledger;
use super::numbering::Numbering;
use crate::client::Ticket;

#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) ticket: Ticket,
    /// Whether the subscriber should receive every message.
    pub(super) counts: bool,
    pub(super) numbering: Numbering,
    pub(super) ledger: Ledger,
    pub(super) unacked: u32,
    /// How long to wait before reconnecting, as last advised by the server.
    pub(crate) retry: Option<Duration>,
}

impl Subscriber {
    pub(crate) fn new(ticket: Ticket, counts: bool) -> Self {
        let numbering = Numbering::after(ticket.seq);
        Self { ticket, counts, numbering, ledger: Ledger::default(), unacked: 0, retry: None }
    }

    /// Continues in a new session.
    pub(crate) fn begin_session(&mut self, ticket: Ticket) {
        self.numbering = Numbering::after(ticket.seq);
        self.ticket = ticket;
    }
}
