//! Checks of accepted `/meta/connect` requests, and of their number per browser: as many are held as the
//! server allows, and no more.

use encke_server::testing::simulation::AcceptedConnect;

use super::Simulation;
use super::polls::LastPoll;
use crate::client::BayeuxReply;
use crate::schedule::ConnectionNumber;

/// An accepted `/meta/connect`, and its browser.
pub(crate) type HeldConnect = (ConnectionNumber, Option<u128>, AcceptedConnect);

/// Pause that the server advises while other pages of the same browser hold requests, in milliseconds.
const PAUSE: u64 = 2000;

/// A request that counts toward the limit of its browser until it is answered or lost.
#[derive(Debug)]
pub(super) struct BrowserPoll {
    browser: u128,
    connection: ConnectionNumber,
    session: String,
}

impl Simulation {
    /// Processes accepted connects. Earlier events of their sessions must have been processed.
    pub(super) fn process_held_connects(&mut self) {
        let held = std::mem::take(&mut *self.held.lock());
        for (number, browser, held) in held {
            self.count_browser_poll(number, browser, &held);
            let session = held.session;
            self.trace.log(self.now, format_args!("connect {number} of {session} is accepted"));
            if session.parse().is_ok_and(|id| self.lifecycles.has_ended(id)) {
                self.violate("resume", format!("connect {number} got {session}, which has ended"));
            }
            self.poll_begins(&session, number);
            let Some(client) = self.connection(number).map(|connection| connection.client) else { continue };
            let client = &mut self.clients[client];
            let is_its = client.session() == Some(&*session);
            let Some(link) = client.link.as_mut().filter(|link| link.connection == number) else { continue };
            link.greeted = true;
            if !is_its {
                self.violate("resume", format!("connect {number} got {session}, which is another session"));
            }
        }
    }

    /// Records that a handshake has opened a session and was answered.
    pub(crate) fn handshake_answered(&mut self, session: &str) {
        let now = self.server.now();
        let over = LastPoll { connection: ConnectionNumber::MAX, since: now, over_at: Some(now) };
        match session.parse() {
            Ok(session) => drop(self.polled.insert(session, over)),
            Err(_) => self.violate("wire", format!("invalid session id {session}")),
        }
    }

    /// Counts an accepted request toward the limit of its browser, and checks the server's decision.
    fn count_browser_poll(
        &mut self,
        number: ConnectionNumber,
        browser: Option<u128>,
        held: &AcceptedConnect,
    ) {
        let max = self.scenario.config.bayeux.polls_per_browser;
        let Some(browser) = browser.filter(|_| max < usize::MAX) else { return };
        self.forget_answered();
        let of_browser = || self.browser_polls.iter().filter(|it| it.browser == browser);
        let is_full = of_browser().count() >= max && of_browser().all(|it| it.session != held.session);
        if held.counts_for_browser && is_full || !held.counts_for_browser && !held.is_due {
            let what = format!("{held:?} of browser {browser}, together with {:?}", self.browser_polls);
            return self.violate("browsers", what);
        }
        if held.counts_for_browser {
            let session = held.session.clone();
            self.browser_polls.push(BrowserPoll { browser, connection: number, session });
        } else if let Some(connection) = self.connection_mut(number) {
            connection.browser_was_full = is_full;
        }
    }

    /// Removes requests whose answer has started or whose task has ended.
    fn forget_answered(&mut self) {
        let mut polls = std::mem::take(&mut self.browser_polls);
        polls.retain(|poll| {
            let connection = self.connection(poll.connection);
            self.served_polls.contains(&poll.connection)
                && connection.is_some_and(|connection| connection.wire.lock().written_at.is_none())
        });
        self.browser_polls = polls;
    }

    /// Checks the advice in the answer to a request. `is_due` is set if the client asked for an immediate
    /// answer.
    pub(crate) fn check_browser(&mut self, number: ConnectionNumber, reply: &BayeuxReply, is_due: bool) {
        let was_full = self.connection(number).is_some_and(|connection| connection.browser_was_full);
        let is_right = match reply.advises_multiple_clients() {
            true => was_full && !is_due && reply.interval() == Some(PAUSE),
            // Even if the limit was reached, another event may have caused the answer.
            false => !was_full || is_due || reply.interval().is_some() || !reply.successful(),
        };
        if !is_right {
            self.violate("browsers", format!("connect {number}, limit reached: {was_full}, got {reply}"));
        }
    }
}
