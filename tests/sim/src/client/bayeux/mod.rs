//! Clients that speak Bayeux, over long-polling and WebSockets, with acknowledgements or without.

mod asking;
mod connecting;
mod heard;
mod page;
mod socket;
mod socket_reading;

use std::collections::VecDeque;

pub(crate) use asking::{Asks, handshaken};
pub(crate) use heard::Reply;
pub(crate) use page::{Following, Page};

use encke_core::Timestamp;
use rand::RngExt;
use rand::rngs::SmallRng;

use crate::wire::Shared;

/// What such a client has.
#[derive(Debug, Default)]
pub(crate) struct Bayeux {
    pub(crate) page: Option<Page>,
    /// What its browser calls itself, if it is a page of one.
    browser: Option<u128>,
    /// What it may go back to, if it acknowledges.
    snapshots: Vec<Page>,
    /// The connect that has no answer yet.
    connect: Option<Connect>,
    /// The replies that are to come on its WebSocket, beside that to the connect.
    expected: VecDeque<Expected>,
    /// The handshake on its WebSocket that has no reply yet.
    opening: Option<Opening>,
    /// The WebSocket that it has.
    socket: Option<Shared>,
    /// When it connects again on its WebSocket.
    connects_at: u64,
    /// It has said on its WebSocket what nobody should.
    is_confused: bool,
    /// Numbers its messages.
    ids: u64,
}

/// A `/meta/connect` that has no answer yet.
#[derive(Debug)]
struct Connect {
    /// That of its own request, unless it was sent on a WebSocket.
    wire: Option<Shared>,
    /// When it was sent, in the server's time.
    since: Timestamp,
    id: u64,
    /// The message that shares its request.
    beside: Option<u64>,
    /// What it acknowledges.
    ack: Option<u64>,
    /// It claims what was never sent.
    is_future: bool,
    /// It asks to be answered at once.
    is_due: bool,
}

/// A reply that is to come on a WebSocket.
#[derive(Debug)]
struct Expected {
    session: String,
    id: u64,
    channel: String,
    /// What it answers, if that matters.
    asks: Option<Asks>,
}

/// A handshake on a WebSocket.
#[derive(Debug)]
struct Opening {
    id: u64,
    acknowledges: bool,
}

impl Bayeux {
    /// Half of the clients are pages of two browsers.
    pub(crate) fn new(rng: &mut SmallRng) -> Self {
        let browser = rng.random_bool(0.5).then(|| rng.random_range(1..3));
        Self { browser, ..Self::default() }
    }

    fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// Its connection is lost. What has come is known.
    pub(crate) fn lose_answer(&mut self) {
        let wire = self.connect.take().and_then(|connect| connect.wire);
        if let (Some(wire), Some(page)) = (wire, &mut self.page) {
            page.lose(wire);
        }
    }

    /// Its WebSocket is lost, and what was under way.
    pub(crate) fn lose_socket(&mut self) {
        let (had_connect, socket) = (self.connect.take().is_some(), self.socket.take());
        if let Some(page) = &mut self.page {
            page.lose_socket(socket.filter(|_| had_connect));
        }
        (self.opening, self.is_confused) = (None, false);
        for expected in std::mem::take(&mut self.expected) {
            self.request_lost(&expected.session);
        }
    }

    /// It acknowledges what it gets.
    pub(crate) fn acknowledges(&self) -> bool {
        self.page.as_ref().is_some_and(|page| page.acknowledges)
    }

    /// Whether it waits for what is new.
    pub(crate) fn is_asking(&self) -> bool {
        self.connect.is_some()
    }

    /// What it has asked for may have been done or not.
    pub(crate) fn request_lost(&mut self, session: &str) {
        let Some(page) = self.page.as_mut().filter(|page| page.session == session) else { return };
        for following in &mut page.logs {
            if matches!(following, Following::Asked(..)) {
                *following = Following::Unknown;
            }
        }
    }

    fn forget_session(&mut self) {
        self.page = None;
        self.snapshots.clear();
        self.expected.clear();
    }
}
