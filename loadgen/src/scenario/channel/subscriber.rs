//! One subscriber, over all its connections.

use super::ledger::Ledger;
use crate::client::Ticket;

#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) ticket: Ticket,
    /// Whether it should have every message.
    pub(super) counts: bool,
    pub(super) ledger: Ledger,
    pub(super) unacked: u32,
}

impl Subscriber {
    pub(crate) fn new(ticket: Ticket, counts: bool) -> Self {
        Self { ticket, counts, ledger: Ledger::default(), unacked: 0 }
    }
}
