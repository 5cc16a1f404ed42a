//! What a client of Bayeux reads on a WebSocket.

use encke_core::Timestamp;
use rand::RngExt;

use super::heard::{Heard, Reply};
use crate::scenario::nanos;
use crate::schedule::{ClientNumber, ConnectionNumber};
use crate::world::World;

impl World {
    /// An array has come.
    pub(in crate::client) fn hear_text_of_bayeux(
        &mut self,
        number: ClientNumber,
        connection: ConnectionNumber,
        text: &str,
    ) {
        let (events, replies) = match Heard::read_text(text) {
            Ok(heard) => heard,
            Err(error) => return self.violate("wire", format!("client {number} reads {error}")),
        };
        self.trace.say(self.now, format_args!("client {number} reads {events:?}, {replies:?}"));
        let Some(bayeux) = &mut self.clients[number as usize].bayeux else { return };
        if let Some(opening) = &bayeux.opening {
            let (id, acknowledges) = (opening.id, opening.acknowledges);
            // All else is of the session that it has given up.
            if let Some(reply) = replies.iter().find(|reply| reply.is_to("/meta/handshake", id)) {
                bayeux.opening = None;
                self.hear_handshake(number, acknowledges, reply);
                self.is_greeted(number);
            }
            return;
        }
        if bayeux.page.is_none() {
            // It has left its session already.
            return;
        }
        let connect = bayeux.connect.as_ref().map(|connect| connect.id);
        let answers = |reply: &Reply| connect.is_some_and(|id| reply.is_to("/meta/connect", id));
        let mut events = Some(events);
        let has_answer = replies.iter().any(answers);
        if let Some(events) = events.take_if(|events| !has_answer && !events.is_empty()) {
            self.hear_lone_messages(number, &events);
        }
        for reply in replies {
            let client = &self.clients[number as usize];
            if self.violation.is_some() || !client.is_linked_by(connection) || client.session().is_none() {
                return;
            }
            if answers(&reply) {
                let events = events.take().unwrap_or_default();
                self.hear_answer_on_socket(number, connection, Heard { events, before: Vec::new(), reply });
            } else {
                self.hear_expected(number, &reply);
            }
        }
    }

    /// It has its session on this connection.
    fn is_greeted(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number as usize];
        let Some(session) = client.session().map(ToOwned::to_owned) else { return };
        let Some(link) = &mut client.link else { return };
        link.greeted = true;
        let connection = link.connection;
        if let Some(connection) = self.connection_mut(connection) {
            connection.session = Some(session);
        }
    }

    /// Messages that answer nothing, for a client that does not acknowledge them.
    fn hear_lone_messages(&mut self, number: ClientNumber, events: &[(String, u64)]) {
        self.is_greeted(number);
        self.deliveries += events.len() as u64;
        let truth = &self.truth;
        let Some(bayeux) = &mut self.clients[number as usize].bayeux else { return };
        let Some(page) = &mut bayeux.page else { return };
        if page.acknowledges {
            let what = format!("client {number} acknowledges, and reads {events:?} without an answer");
            return self.violate("seqs", what);
        }
        let each = |(channel, number): &(String, u64)| page.message(channel, *number, truth, true);
        if let Err(what) = events.iter().try_for_each(each) {
            self.violate("exactly once or a gap", format!("client {number}: {what}"));
        }
    }

    /// What it has asked for by a `/meta/connect`.
    fn hear_answer_on_socket(&mut self, number: ClientNumber, connection: ConnectionNumber, heard: Heard) {
        let Some(bayeux) = &mut self.clients[number as usize].bayeux else { return };
        let Some(connect) = bayeux.connect.take() else { return };
        let pause = if heard.reply.successful() {
            self.is_greeted(number);
            self.hear_news(number, connection, &heard, &connect)
        } else {
            self.hear_refusal(number, &heard.reply, &connect)
        };
        if self.violation.is_some() {
            return;
        }
        let is_busy = self.is_busy();
        let longest_rest = 2 * nanos(self.scenario.config.session.ping_interval);
        let client = &mut self.clients[number as usize];
        let Some(bayeux) = &mut client.bayeux else { return };
        let has_session = bayeux.page.is_some();
        // Some ask for nothing for a while, and answer pings meanwhile.
        let rests = is_busy && has_session && client.rng.random_bool(0.1);
        let rest = if rests { client.rng.random_range(0..longest_rest) } else { 0 };
        bayeux.connects_at = self.now + pause.max(rest);
        match client.rng.random_range(0..20) {
            // Another session on the same socket, if the server leaves it open.
            0..10 if !has_session && is_busy => self.handshake_on_socket(number),
            _ if !has_session => {
                self.lose_link(number);
                self.plan_to_connect(number);
            }
            // It goes on by another connection, of this kind or another.
            0 if is_busy => {
                self.lose_link(number);
                self.plan_to_act(number, pause);
            }
            _ => self.plan_to_act(number, pause),
        }
    }

    fn hear_expected(&mut self, number: ClientNumber, reply: &Reply) {
        let Some(bayeux) = &mut self.clients[number as usize].bayeux else { return };
        // Of one array, a message that waits for an engine has its reply after those that do not.
        let at = bayeux.expected.iter().position(|it| reply.is_to(&it.channel, it.id));
        match at.and_then(|at| bayeux.expected.remove(at)) {
            Some(expected) => {
                if let Some(mut asks) = expected.asks {
                    asks.answered(&self.server);
                    self.hear_reply_of_bayeux(number, &expected.session, asks, reply);
                }
            }
            None if bayeux.is_confused => {}
            None => {
                let what = format!("client {number} expects {:?}, and reads {reply}", bayeux.expected);
                self.violate("replies", what);
            }
        }
    }

    /// An answer without anything in it, to a connect that was sent then.
    pub(super) fn check_connect_was_held(&mut self, number: ClientNumber, since: Timestamp) {
        let (now, hold) = (self.server.now(), self.scenario.config.session.poll_hold);
        if now < since + hold {
            let what =
                format!("client {number} reads at {now:?} an empty answer to its connect of {since:?}");
            self.violate("early expiry", what);
        }
    }
}
