//! Processing of the frames that a Bayeux client receives on a WebSocket.

use encke_core::Timestamp;
use rand::RngExt;

use super::answer::{BayeuxAnswer, BayeuxReply};
use crate::scenario::nanos;
use crate::schedule::{ClientNumber, ConnectionNumber};
use crate::world::Simulation;

impl Simulation {
    /// Processes a received array of messages and replies.
    pub(in crate::client) fn receive_bayeux_text(
        &mut self,
        number: ClientNumber,
        connection: ConnectionNumber,
        text: &str,
    ) {
        let (events, replies) = match BayeuxAnswer::read_text(text) {
            Ok(heard) => heard,
            Err(error) => return self.violate("wire", format!("client {number} reads {error}")),
        };
        self.trace.log(self.now, format_args!("client {number} reads {events:?}, {replies:?}"));
        let Some(bayeux) = &mut self.clients[number as usize].bayeux else { return };
        if let Some(handshake) = &bayeux.handshake {
            let (id, acknowledges) = (handshake.id, handshake.acknowledges);
            // All other messages belong to the abandoned session.
            if let Some(reply) = replies.iter().find(|reply| reply.is_to("/meta/handshake", id)) {
                bayeux.handshake = None;
                self.receive_handshake(number, acknowledges, reply);
                self.mark_greeted(number);
            }
            return;
        }
        if bayeux.model.is_none() {
            // The client has already abandoned its session.
            return;
        }
        let connect = bayeux.connect.as_ref().map(|connect| connect.id);
        let answers = |reply: &BayeuxReply| connect.is_some_and(|id| reply.is_to("/meta/connect", id));
        let mut events = Some(events);
        let has_answer = replies.iter().any(answers);
        if let Some(events) = events.take_if(|events| !has_answer && !events.is_empty()) {
            self.receive_lone_messages(number, &events);
        }
        for reply in replies {
            let client = &self.clients[number as usize];
            if self.violation.is_some() || !client.is_linked_by(connection) || client.session().is_none() {
                return;
            }
            if answers(&reply) {
                let events = events.take().unwrap_or_default();
                self.receive_connect_answer(
                    number,
                    connection,
                    BayeuxAnswer { events, before: Vec::new(), reply },
                );
            } else {
                self.receive_expected_reply(number, &reply);
            }
        }
    }

    /// Records that the server has confirmed the client's session on the current connection.
    fn mark_greeted(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number as usize];
        let Some(session) = client.session().map(ToOwned::to_owned) else { return };
        let Some(link) = &mut client.link else { return };
        link.greeted = true;
        let connection = link.connection;
        if let Some(connection) = self.connection_mut(connection) {
            connection.session = Some(session);
        }
    }

    /// Processes messages received outside an answer, which only clients without acknowledgements may
    /// receive.
    fn receive_lone_messages(&mut self, number: ClientNumber, events: &[(String, u64)]) {
        self.mark_greeted(number);
        self.deliveries += events.len() as u64;
        let truth = &self.truth;
        let Some(bayeux) = &mut self.clients[number as usize].bayeux else { return };
        let Some(model) = &mut bayeux.model else { return };
        if model.acknowledges {
            let what =
                format!("client {number} uses acknowledgements, but reads {events:?} outside an answer");
            return self.violate("seqs", what);
        }
        let each = |(channel, number): &(String, u64)| model.message(channel, *number, truth, true);
        if let Err(what) = events.iter().try_for_each(each) {
            self.violate("exactly once or a gap", format!("client {number}: {what}"));
        }
    }

    /// Processes the answer to a connect.
    fn receive_connect_answer(
        &mut self,
        number: ClientNumber,
        connection: ConnectionNumber,
        heard: BayeuxAnswer,
    ) {
        let Some(bayeux) = &mut self.clients[number as usize].bayeux else { return };
        let Some(connect) = bayeux.connect.take() else { return };
        let pause = if heard.reply.successful() {
            self.mark_greeted(number);
            self.receive_successful_answer(number, connection, &heard, &connect)
        } else {
            self.receive_failed_answer(number, &heard.reply, &connect)
        };
        if self.violation.is_some() {
            return;
        }
        let is_busy = self.is_busy();
        let longest_rest = 2 * nanos(self.scenario.config.session.ping_interval);
        let client = &mut self.clients[number as usize];
        let Some(bayeux) = &mut client.bayeux else { return };
        let has_session = bayeux.model.is_some();
        // Some clients send no connect for a while, but answer pings.
        let rests = is_busy && has_session && client.rng.random_bool(0.1);
        let rest = if rests { client.rng.random_range(0..longest_rest) } else { 0 };
        bayeux.connects_at = self.now + pause.max(rest);
        match client.rng.random_range(0..20) {
            // Open another session on the same socket, if the server leaves it open.
            0..10 if !has_session && is_busy => self.handshake_on_socket(number),
            _ if !has_session => {
                self.lose_link(number);
                self.plan_to_connect(number);
            }
            // Continue on another connection, of either transport.
            0 if is_busy => {
                self.lose_link(number);
                self.plan_to_act(number, pause);
            }
            _ => self.plan_to_act(number, pause),
        }
    }

    fn receive_expected_reply(&mut self, number: ClientNumber, reply: &BayeuxReply) {
        let Some(bayeux) = &mut self.clients[number as usize].bayeux else { return };
        // Search for the reply: in one array, the reply to a message that waits for the engine comes after
        // the others.
        let at = bayeux.expected.iter().position(|it| reply.is_to(&it.channel, it.id));
        match at.and_then(|at| bayeux.expected.remove(at)) {
            Some(expected) => {
                if let Some(mut command) = expected.command {
                    command.answered(&self.server);
                    self.receive_bayeux_reply(number, &expected.session, command, reply);
                }
            }
            None if bayeux.is_confused => {}
            None => {
                let what = format!("client {number} expects {:?}, but reads {reply}", bayeux.expected);
                self.violate("replies", what);
            }
        }
    }

    /// Checks that an empty answer did not come before the end of the hold time.
    pub(super) fn check_connect_was_held(&mut self, number: ClientNumber, since: Timestamp) {
        let (now, hold) = (self.server.now(), self.scenario.config.session.poll_hold);
        if now < since + hold {
            let what =
                format!("client {number} reads at {now:?} an empty answer to its connect sent at {since:?}");
            self.violate("early expiry", what);
        }
    }
}
