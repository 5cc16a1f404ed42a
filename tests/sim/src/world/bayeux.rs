//! Invariants of Bayeux clients.

use encke_core::session::Deadline;
use encke_server::testing::simulation::SessionView;

use super::Simulation;
use super::polls::LastPoll;
use crate::client::{Bayeux, SimClient};
use crate::schedule::ConnectionNumber;
use crate::truth::channel_of;

/// Result of [`Simulation::describe_missed_on_socket`].
pub(super) enum SocketState {
    /// The client must have received everything.
    UpToDate,
    /// The client receives nothing before it sends a connect.
    Idle,
    Wrong(String),
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
            self.poll_begins(session.clone(), number);
            let Some(connection) = self.connection_mut(number) else { continue };
            connection.session = Some(session.clone());
            let client = connection.client;
            let client = &mut self.clients[client as usize];
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
        match session.parse() {
            Ok(session) => {
                let over = LastPoll { connection: ConnectionNumber::MAX, since: now, over_at: Some(now) };
                self.polled.insert(session, over);
            }
            Err(_) => self.violate("wire", format!("invalid session id {session}")),
        }
    }

    /// Checks a client on a WebSocket. Called when no action is possible at this instant.
    pub(super) fn describe_missed_on_socket(&self, client: &SimClient, session: &SessionView) -> SocketState {
        let Some(bayeux) = &client.bayeux else { return SocketState::Idle };
        if !bayeux.has_pending_connect() {
            return SocketState::Idle;
        }
        let is_held = session.deadlines.iter().any(|(deadline, _)| *deadline == Deadline::PollHold);
        if !is_held {
            return SocketState::Wrong(format!("a connect is not answered: {session:?}"));
        }
        if bayeux.acknowledges() && session.is_stopped {
            return SocketState::Wrong(format!(
                "a connect is held although it could be answered: {session:?}"
            ));
        }
        SocketState::UpToDate
    }

    /// Describes the messages that a client has not received although its request is held.
    pub(super) fn describe_missed_by_bayeux(&self, bayeux: &Bayeux, session: &SessionView) -> Option<String> {
        let model = bayeux.model.as_ref()?;
        for (name, cursor) in &session.subscriptions {
            let channel = self.server.channel(name)?;
            if channel.last != *cursor {
                return Some(format!("{name} is at {}, the session at {cursor}", channel.last));
            }
            if let Some(what) = model.is_missing(channel_of(name)?, &channel.epoch, *cursor, &self.truth) {
                return Some(format!("{what}: {channel:?}, the session at {cursor}"));
            }
        }
        None
    }
}
