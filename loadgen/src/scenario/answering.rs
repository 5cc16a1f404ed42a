//! What most connections do most of the time: answer pings, until the server ends them unasked.

use crate::client::{Connection, Event};
use crate::record::{CloseCodes, Counter};

#[derive(Debug, Default)]
pub(super) struct Answering {
    pub(super) pings: Counter,
    pub(super) unexpected_closes: Counter,
    pub(super) close_codes: CloseCodes,
}

impl Answering {
    /// Returns when the server has ended the connection.
    pub(super) async fn answer(&self, mut connection: Connection, mut on_text: impl FnMut(&str)) {
        loop {
            match connection.next().await {
                Event::Ping => self.pings.increment(),
                Event::Text(text) => on_text(&text),
                Event::Closed(code) => return self.record_close(code),
            }
        }
    }

    pub(super) fn record_close(&self, code: u16) {
        self.unexpected_closes.increment();
        self.close_codes.record(code);
    }
}
