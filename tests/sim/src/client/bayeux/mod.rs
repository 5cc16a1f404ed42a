//! Clients that speak Bayeux over long-polling, with acknowledgements or without.

mod asking;
mod connecting;
mod heard;
mod page;

pub(crate) use asking::{Asks, handshaken};
pub(crate) use heard::Reply;
pub(crate) use page::{Following, Page};

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
    /// Numbers its messages.
    ids: u64,
}

/// A `/meta/connect` that has no answer yet.
#[derive(Debug)]
struct Connect {
    wire: Shared,
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
        if let (Some(connect), Some(page)) = (self.connect.take(), &mut self.page) {
            page.lose(connect.wire);
        }
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
    }
}
