//! Checks that clients receive everything that they can receive.

use encke_core::session::Deadline;
use encke_server::testing::simulation::SessionView;

use super::Simulation;
use crate::client::{Carrier, ChannelSubscription, SimClient};
use crate::outcome::Violation;
use crate::schedule::Direction;
use crate::truth::log_of;

impl Simulation {
    /// Describes the data that a client has not received although nothing prevents it.
    pub(super) fn describe_missed(&self, client: &SimClient, sessions: &[SessionView]) -> Option<String> {
        let (link, id) = (client.link.as_ref()?, client.session()?);
        let connection = self.connection(link.connection)?;
        let is_bayeux_socket = link.carrier == Carrier::BayeuxSocket;
        let mut wire = connection.wire.lock();
        let is_moving = !link.outgoing.is_empty()
            || !wire.to_client.sent.is_empty()
            || !wire.to_client.arrived.is_empty()
            // A `/meta/connect` may be in transit.
            || is_bayeux_socket && wire.can_move(Direction::ToServer);
        if !link.is_attentive(self.now) || is_moving || wire.has_vanished() || wire.is_over_for_server() {
            return None;
        }
        if !wire.to_server.arrived.is_empty() {
            return Some("the server has not read its input".into());
        }
        drop(wire);
        let at = sessions.binary_search_by(|session| (*session.id).cmp(id));
        let session = at.map(|at| &sessions[at]).ok().or_else(|| sessions.iter().find(|it| it.id == id))?;
        if !session.is_attached || connection.task.is_none() {
            return None;
        }
        let is_armed =
            |deadlines: &[Deadline]| session.deadlines.iter().any(|(it, _)| deadlines.contains(it));
        if !link.is_poll() && !is_armed(&[Deadline::Ping, Deadline::Pong]) {
            return Some(format!("no heartbeat is armed: {session:?}"));
        }
        let acknowledges = client.bayeux.as_ref().is_some_and(|bayeux| bayeux.acknowledges());
        if is_bayeux_socket && !client.bayeux.as_ref()?.has_pending_connect() {
            // The client receives nothing before it sends a connect.
            return None;
        }
        if (link.is_poll() || is_bayeux_socket) && !is_armed(&[Deadline::PollHold]) {
            return Some(format!("a request is not answered, but held without a deadline: {session:?}"));
        }
        if session.is_stopped && (link.is_poll() || is_bayeux_socket && acknowledges) {
            return Some(format!("a request is held although it could be answered: {session:?}"));
        }
        if session.is_stopped {
            return None;
        }
        if session.has_more {
            return Some(format!("there is more to send: {session:?}"));
        }
        // On a WebSocket without acknowledgements, the next answer reports the losses.
        if is_bayeux_socket && !acknowledges {
            return None;
        }
        self.describe_missing_messages(client, session)
    }

    /// Describes the messages that a client has not received although its session has sent everything.
    fn describe_missing_messages(&self, client: &SimClient, session: &SessionView) -> Option<String> {
        session.subscriptions.iter().find_map(|(name, cursor)| {
            let (channel, log) = (self.server.channel(name)?, log_of(name)?);
            if channel.last != *cursor {
                return Some(format!("{name} is at {}, the session at {cursor}", channel.last));
            }
            let what = match &client.bayeux {
                Some(bayeux) => bayeux.model.as_ref()?.missing(log, &channel.epoch, *cursor, &self.truth),
                None => client.model.as_ref()?.missing(log, &channel.epoch, *cursor, &self.truth),
            };
            what.map(|what| format!("{what}: {channel:?}, the session at {cursor}"))
        })
    }

    /// Checks that connected clients have received everything, and that the server has noticed the others as
    /// disconnected.
    pub(super) fn check_settled(&mut self) {
        self.check_logs_match_redis();
        let (sessions, queued) = (self.server.sessions(), self.server.totals().queued_notices);
        if queued > 0 {
            return self.violate("progress", format!("{queued} joins and leaves are not published"));
        }
        for session in &sessions {
            let is_of = |client: &SimClient| {
                (client.link.is_some() || client.polls) && client.session() == Some(&*session.id)
            };
            let has_client = self.clients.iter().any(is_of);
            if !session.is_attached && !session.is_between_polls || !has_client {
                let what = format!("{session:?} has no client, but was not suspended");
                return self.violate("progress", what);
            }
        }
        for number in 0..self.clients.len() {
            if let Some(Violation { invariant, what }) =
                self.describe_unsettled(&self.clients[number], &sessions)
            {
                return self.violate(invariant, format!("client {number}: {what}"));
            }
        }
    }

    fn describe_unsettled(&self, client: &SimClient, sessions: &[SessionView]) -> Option<Violation> {
        let progress = |what: String| Some(Violation { invariant: "progress", what });
        let (link, id) = (client.link.as_ref()?, client.session()?);
        let connection = self.connection(link.connection)?;
        // Skip a client whose request is in transit: its session may have ended in the meantime.
        if connection.request.is_some() {
            return None;
        }
        let wire = connection.wire.lock();
        // Skip a connection that has ended for the server: if a kernel gives up a connection, the other end
        // does not notice.
        if wire.is_over_for_server() {
            return None;
        }
        let Some(session) = sessions.iter().find(|it| it.id == id) else {
            // Skip a client that has not read all bytes from the server: they may report the end of the session.
            if !wire.to_client.sent.is_empty() || !wire.to_client.arrived.is_empty() {
                return None;
            }
            return progress("it is connected, but its session does not exist".to_owned());
        };
        drop(wire);
        // Between polls, or while a poll is in transit, nothing can be compared.
        let is_held = session.deadlines.iter().any(|(deadline, _)| *deadline == Deadline::PollHold);
        if (link.is_poll() || link.carrier == Carrier::BayeuxSocket) && !is_held {
            return None;
        }
        if !link.is_attentive(self.now) || session.is_stopped || session.has_more {
            return progress(format!("it makes no progress: {link:?}, {session:?}"));
        }
        let channels = client.model.iter().flat_map(|model| &model.channels);
        let subscribed = channels.filter(|it| matches!(it, ChannelSubscription::Active(_))).count();
        if subscribed > session.subscriptions.len() {
            let what = format!("it has {subscribed} subscriptions: {session:?}");
            return Some(Violation { invariant: "exactly once or a gap", what });
        }
        // Without a pending connect, a Bayeux client on a WebSocket must have everything as well.
        let of_bayeux = client.bayeux.as_ref().and_then(|_| self.describe_missing_messages(client, session));
        of_bayeux.or_else(|| self.describe_missed(client, sessions)).and_then(progress)
    }
}
