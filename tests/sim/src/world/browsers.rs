//! How many requests of one browser's pages are held: no more than the server allows, and no fewer.

use encke_server::simulation::HeldConnect;

use super::World;
use crate::client::BayeuxReply;
use crate::schedule::ConnectionNumber;

/// A `/meta/connect` that has its session, and the browser of which it is.
pub(crate) type HeldOf = (ConnectionNumber, Option<u128>, HeldConnect);

/// What a client is told to wait, in milliseconds, while others of its browser have their requests held.
const PAUSE: u64 = 2000;

/// A request that counts for its browser until it has its answer, or is lost.
#[derive(Debug)]
pub(super) struct BrowserPoll {
    browser: u128,
    connection: ConnectionNumber,
    session: String,
}

impl World {
    /// A request has its session.
    pub(super) fn count_for_browser(
        &mut self,
        number: ConnectionNumber,
        browser: Option<u128>,
        held: &HeldConnect,
    ) {
        let most = self.scenario.config.bayeux.polls_per_browser;
        let Some(browser) = browser.filter(|_| most < usize::MAX) else { return };
        self.forget_answered();
        let of_browser = || self.browser_polls.iter().filter(|it| it.browser == browser);
        let is_full = of_browser().count() >= most && of_browser().all(|it| it.session != held.session);
        if held.has_place && is_full || !held.has_place && !held.is_due {
            let what = format!("{held:?} of browser {browser}, beside {:?}", self.browser_polls);
            return self.violate("browsers", what);
        }
        if held.has_place {
            let session = held.session.clone();
            self.browser_polls.push(BrowserPoll { browser, connection: number, session });
        } else if let Some(connection) = self.connection_mut(number) {
            connection.browser_was_full = is_full;
        }
    }

    /// Those count no more whose answer has begun, or whose task has ended.
    fn forget_answered(&mut self) {
        let polls = std::mem::take(&mut self.browser_polls);
        let is_held = |poll: &BrowserPoll| {
            let connection = self.connection(poll.connection);
            self.served_polls.contains(&poll.connection)
                && connection.is_some_and(|connection| connection.wire.lock().written_at.is_none())
        };
        self.browser_polls = polls.into_iter().filter(is_held).collect();
    }

    /// Its client has the answer to a request, which it wanted at once or not.
    pub(crate) fn check_browser(&mut self, number: ConnectionNumber, reply: &BayeuxReply, is_due: bool) {
        let was_full = self.connection(number).is_some_and(|connection| connection.browser_was_full);
        let is_right = match reply.is_one_of_many() {
            true => was_full && !is_due && reply.interval() == Some(PAUSE),
            // Something else may have come between.
            false => !was_full || is_due || reply.interval().is_some() || !reply.successful(),
        };
        if !is_right {
            self.violate("browsers", format!("the connect {number}, full: {was_full}, is told {reply}"));
        }
    }
}
