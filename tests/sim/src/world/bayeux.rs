//! What must hold where clients speak Bayeux.

use encke_core::session::Deadline;
use encke_server::simulation::SessionView;

use super::World;
use super::polls::Polled;
use crate::client::{Bayeux, Client};
use crate::schedule::ConnectionNumber;
use crate::truth::channel_of;

/// See [`World::what_socket_misses`].
pub(super) enum SocketState {
    /// It is to have what there is.
    Gets,
    /// It gets nothing before it asks.
    Waits,
    InVain(String),
}

impl World {
    /// Requests that have got their sessions. What has become of sessions meanwhile was told already.
    pub(super) fn hear_of_held(&mut self) {
        let held = std::mem::take(&mut *self.held.lock());
        for (number, browser, held) in held {
            self.count_for_browser(number, browser, &held);
            let session = held.session;
            self.trace.say(self.now, format_args!("the connect {number} of {session} is there"));
            if session.parse().is_ok_and(|id| self.lifecycles.has_ended(id)) {
                self.violate("resume", format!("connect {number} has got {session}, which has ended"));
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
                self.violate("resume", format!("connect {number} has got {session}, which is another"));
            }
        }
    }

    /// A handshake has opened a session, and is over.
    pub(crate) fn handshake_answered(&mut self, session: &str) {
        let now = self.server.now();
        match session.parse() {
            Ok(session) => {
                let over = Polled { connection: ConnectionNumber::MAX, since: now, over_at: Some(now) };
                self.polled.insert(session, over);
            }
            Err(_) => self.violate("wire", format!("a session {session}")),
        }
    }

    /// What becomes of a client on a WebSocket at a quiet moment.
    pub(super) fn what_socket_misses(&self, client: &Client, session: &SessionView) -> SocketState {
        let Some(bayeux) = &client.bayeux else { return SocketState::Waits };
        if !bayeux.is_asking() {
            return SocketState::Waits;
        }
        let is_held = session.deadlines.iter().any(|(deadline, _)| *deadline == Deadline::PollHold);
        if !is_held {
            return SocketState::InVain(format!("a connect has no answer: {session:?}"));
        }
        if bayeux.acknowledges() && session.is_stopped {
            return SocketState::InVain(format!("a connect is held that could bring more: {session:?}"));
        }
        SocketState::Gets
    }

    /// What a client has not got, though its request is held.
    pub(super) fn what_bayeux_misses(&self, bayeux: &Bayeux, session: &SessionView) -> Option<String> {
        let page = bayeux.page.as_ref()?;
        for (name, cursor) in &session.subscriptions {
            let channel = self.server.channel(name)?;
            if channel.last != *cursor {
                return Some(format!("{name} is at {}, the session at {cursor}", channel.last));
            }
            if let Some(what) = page.is_missing(channel_of(name)?, &channel.epoch, *cursor, &self.truth) {
                return Some(format!("{what}: {channel:?}, the session at {cursor}"));
            }
        }
        None
    }
}
