//! Processing and checking of everything that clients receive.

use encke_core::dialect::json::{ChannelMessage, Hello, Reply, ReplyOutcome, ServerMessage};
use encke_core::dialect::{StartPosition, Success};
use encke_server::testing::simulation::SimulatedServer;
use serde_json::Value;

use super::event_id::{check_positions, position_in};
use super::frames::{CLOSE, PONG, TEXT};
use super::link::{PendingCommand, SentCommand};
use super::received::ReceivedItem;
use super::session_model::{ReceivedMessage, Subscribed};
use super::{Carrier, SessionModel};
use crate::fault::Fault;
use crate::namespaces::rules_of;
use crate::notices::Notice;
use crate::outcome::Verdict;
use crate::scenario::nanos;
use crate::schedule::{Action, ClientNumber, ConnectionNumber};
use crate::truth::{Truth, log_of, name_of, number_in};
use crate::world::Simulation;

/// Returns the offset of the oldest message in a log, if the log still has this epoch.
pub(super) fn first_in_log(server: &SimulatedServer, log: usize, epoch: &str) -> Option<u64> {
    server.channel(name_of(log)).filter(|view| view.epoch == epoch).map(|view| view.first)
}

impl Simulation {
    /// Reads as many bytes as the client wants, and processes them.
    pub(crate) fn read(&mut self, number: ConnectionNumber) {
        let Some(connection) = self.connection(number) else { return };
        let (client, wire) = (connection.client, connection.wire.clone());
        let Some(link) = self.clients[client].link.as_mut().filter(|link| link.connection == number) else {
            return self.read_abandoned(number);
        };
        if link.paused_until > self.now {
            let at = link.paused_until;
            return self.read_later(number, at);
        }
        let read_chunks = link.read_chunks;
        let at_most = read_chunks.map_or(usize::MAX, |(bytes, _)| bytes);
        wire.lock().client_reads(at_most, &mut link.incoming);
        match link.carrier {
            _ if link.incoming.is_empty() => {}
            Carrier::Connect => self.process_connect_answer(client, number),
            Carrier::Poll => self.process_poll_answer(client, number),
            Carrier::WebSocket | Carrier::Events | Carrier::BayeuxSocket => {
                self.process_items(client, number)
            }
        }
        let has_unread = !wire.lock().to_client.arrived.is_empty();
        if self.clients[client].is_linked_by(number) && wire.lock().is_read_out() {
            self.leave_link(client);
        } else if let Some((_, wait)) = read_chunks.filter(|_| has_unread) {
            self.read_later(number, self.now + wait);
        }
        self.consider(number);
    }

    fn read_later(&mut self, number: ConnectionNumber, at: u64) {
        let Some(connection) = self.connection_mut(number) else { return };
        if !std::mem::replace(&mut connection.read_planned, true) {
            self.schedule.plan(at, Action::Read(number));
        }
    }

    /// Reads from an abandoned connection: discards the bytes, and closes the socket at the end of the
    /// stream.
    fn read_abandoned(&mut self, number: ConnectionNumber) {
        if let Some(connection) = self.connection(number).filter(|connection| !connection.ignores_input) {
            let mut wire = connection.wire.lock();
            wire.to_client.arrived.clear();
            if wire.is_read_out() {
                wire.client_closes();
            }
        }
        self.consider(number);
    }

    fn process_items(&mut self, client: ClientNumber, connection: ConnectionNumber) {
        while self.violation.is_none() {
            let link = self.clients[client].link.as_mut();
            let Some(link) = link.filter(|link| link.connection == connection) else { return };
            let is_bayeux = link.carrier == Carrier::BayeuxSocket;
            match link.next_item() {
                Ok(None) => return,
                // An event without data may have an id.
                Ok(Some(ReceivedItem::Nothing)) => self.clients[client].note_event_id(),
                Ok(Some(ReceivedItem::Text(text))) if is_bayeux => {
                    self.receive_bayeux_text(client, connection, &text);
                }
                Ok(Some(ReceivedItem::Text(text))) => {
                    self.receive_text(client, &text);
                    self.clients[client].note_event_id();
                }
                Ok(Some(ReceivedItem::Ping(seq))) => self.receive_ping(client, seq, false),
                Ok(Some(ReceivedItem::Close(code))) => self.receive_close(client, code),
                Err(error) => self.violate("wire", format!("client {client} reads {error}")),
            }
        }
    }

    pub(super) fn receive_text(&mut self, client: ClientNumber, text: &str) {
        let message: ServerMessage<'_> = match serde_json::from_str(text) {
            Ok(message) => message,
            Err(error) => return self.violate("wire", format!("client {client} reads {text}: {error}")),
        };
        self.trace.log(self.now, format_args!("client {client} reads {}", text.get(..100).unwrap_or(text)));
        match message {
            ServerMessage::Hello(hello) => self.receive_hello(client, &hello),
            ServerMessage::Reply(reply) => self.receive_reply(client, reply, text),
            ServerMessage::Ping(ping) => self.receive_ping(client, ping.seq, true),
            ServerMessage::Message(message) => {
                let (by, offset, epoch) = match &message.pattern {
                    Some(pattern) => (&pattern.name, pattern.offset, None),
                    None => (&message.channel, message.offset, message.epoch.as_deref()),
                };
                let (Some(channel), Some(log)) = (log_of(&message.channel), log_of(by)) else {
                    return self.violate("wire", format!("a message of {} by {by}", message.channel));
                };
                if message.at_ms.is_some() != rules_of(&self.scenario.config, channel).at_ms {
                    let what = format!("client {client} reads a message of {channel} at {:?}", message.at_ms);
                    return self.violate("namespaces", what);
                }
                let Some(number) = self.number_of(channel, &message) else {
                    let what = format!("client {client} reads {text}, which was not published");
                    return self.violate("wire", what);
                };
                self.totals.deliveries += 1;
                let message = ReceivedMessage { seq: message.seq, log, offset, number, epoch };
                self.receive_numbered(client, message.seq, true, |model, truth, _| {
                    model.message(message, truth)
                });
            }
            ServerMessage::Gap(gap) => {
                let Some(log) = log_of(&gap.channel) else {
                    return self.violate("wire", format!("a gap of {}", gap.channel));
                };
                let ring = self.scenario.config.max_unacked as u64;
                let link = self.clients[client].link.as_ref();
                let is_stream = link.is_some_and(|link| link.carrier == Carrier::Events);
                self.receive_numbered(client, gap.seq, false, |model, truth, server| {
                    let may_have_wrapped =
                        (is_stream || model.allows_gaps()) && gap.seq > model.confirmed[0] + ring;
                    let first = first_in_log(server, log, &gap.epoch);
                    model.gap(&gap, (log, first), may_have_wrapped, truth)
                });
            }
            // After a goaway, the client leaves regardless of what it has received. A WebSocket is closed by
            // the server.
            ServerMessage::Goaway(goaway) => {
                if goaway.reason == "replaced" {
                    self.check_may_be_replaced(client);
                }
                if !self.clients[client].speaks_over_link() {
                    self.leave_link(client);
                }
            }
            ServerMessage::Subscribed(begun) => {
                self.violate("wire", format!("subscribed to {} without a request", begun.channel));
            }
            ServerMessage::Unsubscribed(gone) => {
                if let Some(log) = log_of(&gone.channel)
                    && let Some(model) = &mut self.clients[client].model
                {
                    model.end(log);
                }
            }
        }
    }

    /// Returns the number of a message of a channel.
    fn number_of(&self, channel: usize, message: &ChannelMessage<'_>) -> Option<u64> {
        let (session, has_left) = match message {
            ChannelMessage { data: Some(data), joined: None, left: None, .. } => {
                return number_in(data.get());
            }
            ChannelMessage { data: None, joined: Some(joined), left: None, .. } => (&joined.session, false),
            ChannelMessage { data: None, joined: None, left: Some(left), .. } => (&left.session, true),
            _ => return None,
        };
        let notice = Notice { channel, has_left, session: session.to_string(), at_ms: message.at_ms? };
        self.truth.notices.number_at(&notice, message.offset)
    }

    fn receive_numbered(
        &mut self,
        client: ClientNumber,
        seq: u64,
        is_message: bool,
        take: impl FnOnce(&mut SessionModel, &Truth, &SimulatedServer) -> Verdict,
    ) {
        let it = &mut self.clients[client];
        let (Some(link), Some(model)) = (&mut it.link, &mut it.model) else {
            return self.violate("wire", format!("client {client} reads seq {seq} before its hello"));
        };
        // A gap may skip seqs: it stands for messages that have left the ring, but not for messages of
        // channels from which the client has unsubscribed.
        let may_skip = !is_message || model.allows_gaps();
        // The answer to a poll without a seq may repeat messages, because the server does not know which ones
        // the client has received.
        let is_wrong = match link.read {
            Some(read) => seq <= read || seq != read + 1 && !may_skip,
            None => seq > model.highest + 1 && !may_skip,
        };
        if is_wrong {
            let read = link.read;
            return self.violate("seqs", format!("client {client} reads seq {seq} after {read:?}"));
        }
        link.read = Some(seq);
        if let Err(what) = take(model, &self.truth, &self.server) {
            self.violate("exactly once or a gap", format!("client {client}, seq {seq}: {what}"));
        }
    }

    fn receive_hello(&mut self, client: ClientNumber, hello: &Hello<'_>) {
        let it = &mut self.clients[client];
        let Some(link) = &mut it.link else { return };
        if std::mem::replace(&mut link.greeted, true) {
            return self.violate("wire", format!("client {client} reads a second hello"));
        }
        link.read = Some(hello.seq);
        let number = link.connection;
        match (hello.recovered, link.offer.take()) {
            (true, Some(offer)) => {
                let (had, has_unsubscribed) = it.model.as_mut().map_or((0, false), |model| {
                    model.must_tell_seq = false;
                    model.resumed_after = model.highest;
                    let [_, before] = model.confirmed;
                    model.confirmed = [before, offer.seq.map_or(before, |seq| seq.min(model.highest))];
                    (model.highest, model.has_unsubscribed)
                });
                // The seq of the hello may skip messages of channels from which the client has unsubscribed,
                // if they have left the ring. With Redis, it may also skip messages when a new epoch
                // continues a former one; these are reported as a gap.
                let may_skip = self.scenario.redis || has_unsubscribed;
                let may_continue = offer.seq.map_or(hello.seq <= had || may_skip, |seq| seq <= hello.seq);
                if hello.session != offer.session || !may_continue || offer.is_future {
                    self.violate("resume", format!("client {client} asked for {offer:?}, but got {hello:?}"));
                }
            }
            (true, None) => {
                self.violate("resume", format!("client {client} did not resume, but got {hello:?}"));
            }
            (false, offer) => {
                self.begin_session(client, hello);
                if let Some(offer) = offer {
                    self.check_session_may_be_lost(&offer.session, offer.is_future);
                }
            }
        }
        if let Some(connection) = self.connection_mut(number) {
            connection.session = Some(hello.session.to_string());
        }
    }

    /// Replaces the client's session with a new one.
    fn begin_session(&mut self, client: ClientNumber, hello: &Hello<'_>) {
        let redis = self.redis().cloned();
        let it = &mut self.clients[client];
        let followed = it.model.as_ref().map_or_else(Vec::new, SessionModel::received_logs);
        it.forget_session();
        let Some(link) = &mut it.link else { return };
        let mut model = SessionModel::new(hello);
        if let Some(log) = link.channel.filter(|_| link.carrier == Carrier::Poll) {
            model.begin_at_unknown(log);
        }
        // The event id of a stream's hello contains its start in each channel. A channel that was refused
        // because of a limit may have none.
        let (id, offered) = (link.event_id.as_deref().unwrap_or(""), link.offered.take());
        if let Some(offered) = offered
            && let Err(what) = check_positions(&offered, id, &followed)
        {
            return self.violate("exactly once or a gap", format!("client {client}: {what}"));
        }
        for &log in &link.logs {
            let start = position_in(id, log);
            let present = match &redis {
                None => self.server.channel(name_of(log)).map(|view| (view.epoch, view.last)),
                Some(redis) => redis.lock().state_of(name_of(log)),
            };
            let present = present.as_ref().map(|(epoch, last)| (&**epoch, *last));
            model.continue_at(log, start, present);
        }
        it.model = Some(model);
    }

    fn receive_reply(&mut self, client: ClientNumber, reply: Reply<'_>, text: &str) {
        let Some(link) = &mut self.clients[client].link else { return };
        let Some(id) = reply.id else { return };
        match link.pending_commands.pop_front() {
            Some(pending) if pending.id == id => {
                self.receive_command_reply(client, None, pending, reply.outcome, text);
            }
            other => self.violate("replies", format!("client {client}: reply {id} instead of {other:?}")),
        }
    }

    /// Processes the reply to a command, whose text is given. `session` is set if the command was sent in a
    /// separate request.
    pub(super) fn receive_command_reply(
        &mut self,
        client: ClientNumber,
        session: Option<&str>,
        pending: PendingCommand,
        outcome: ReplyOutcome<'_>,
        text: &str,
    ) {
        let is_ok = matches!(outcome, ReplyOutcome::Ok(_));
        let (log, begin) = match pending.command {
            SentCommand::Subscribe(log, begin) => (log, begin),
            SentCommand::Publish(number) => return self.publish_answered(number, is_ok),
            SentCommand::Call(number) if is_ok => return self.check_call(client, number, text),
            SentCommand::Call(_) | SentCommand::Other => return,
        };
        let it = &mut self.clients[client];
        let Some(model) = &mut it.model else { return };
        if session.is_some_and(|session| model.session != session) {
            return;
        }
        let ReplyOutcome::Ok(success) = outcome else {
            model.end(log);
            return;
        };
        let Success::Subscribed { channel, epoch, offset, recovered } = success.into_owned() else { return };
        if channel != name_of(log) {
            let what = format!("client {client} subscribed to {}, but got {channel}", name_of(log));
            return self.violate("replies", what);
        }
        let (first, is_beside) = (first_in_log(&self.server, log, &epoch), session.is_some());
        let is_in_redis = matches!(&begin, StartPosition::After(since) if self.is_in_redis(log, &since.epoch, since.offset));
        let answer =
            Subscribed { epoch: &epoch, offset, begin: &begin, recovered, first, is_in_redis, is_beside };
        let it = &mut self.clients[client];
        let Some(model) = &mut it.model else { return };
        it.snapshots.clear();
        it.past[log] = None;
        if let Err(what) = model.subscribed(log, &answer, &self.truth) {
            return self.violate("exactly once or a gap", format!("client {client}: {what}"));
        }
        self.hesitate(client, log);
    }

    /// Checks that a call has returned a number.
    fn check_call(&mut self, client: ClientNumber, number: u64, text: &str) {
        let reply: Value = serde_json::from_str(text).unwrap_or_default();
        if reply["reply"]["ok"]["data"] != number {
            self.violate("replies", format!("client {client}: the call with {number} returned {text}"));
        }
    }

    fn receive_ping(&mut self, client: ClientNumber, seq: u64, is_message: bool) {
        let Some(link) = self.clients[client].link.as_ref().filter(|link| !link.ignores_pings) else {
            return;
        };
        let (connection, may_be_late) = (link.connection, link.is_late && !is_message);
        if may_be_late && self.injects(Fault::LatePong, 0.3) {
            let longest = nanos(self.scenario.config.session.pong_timeout) * 3 / 2;
            self.plan_within(longest, Action::Answer(connection, seq));
        } else if is_message {
            self.send_frame(client, TEXT, format!("{{\"pong\":{{\"seq\":{seq}}}}}").as_bytes());
        } else {
            self.send_frame(client, PONG, &seq.to_be_bytes());
        }
    }

    pub(crate) fn answer(&mut self, number: ConnectionNumber, seq: u64) {
        let Some(client) = self.connection(number).map(|connection| connection.client) else { return };
        if self.clients[client].is_linked_by(number) {
            self.send_frame(client, PONG, &seq.to_be_bytes());
        }
    }

    /// Checks that the connection that arrived last is not replaced: its client would not reconnect.
    fn check_may_be_replaced(&mut self, client: ClientNumber) {
        let it = &self.clients[client];
        let newest = it.last_arrived.filter(|newest| it.bayeux.is_none() && it.is_linked_by(*newest));
        if let Some(connection) = newest {
            let what = format!("client {client}: connection {connection} arrived last, but was replaced");
            self.violate("polls", what);
        }
    }

    fn receive_close(&mut self, client: ClientNumber, code: u16) {
        self.trace.log(self.now, format_args!("client {client} is closed with {code}"));
        if code == 4100 {
            self.check_may_be_replaced(client);
        }
        let it = &mut self.clients[client];
        // A Bayeux session survives its WebSocket.
        if it.bayeux.is_none() && matches!(code, 1000 | 1002.. 4000 | 4101..) {
            it.forget_session();
        }
        self.send_frame(client, CLOSE, &code.to_be_bytes());
        self.leave_link(client);
    }
}
