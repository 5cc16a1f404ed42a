//! Processing and checking of everything that clients receive.

use encke_core::dialect::Success;
use encke_core::dialect::json::{Hello, Reply, ReplyOutcome, ServerMessage};
use rand::RngExt;

use super::frames::{self, CLOSE, PING, PONG, TEXT};
use super::session_model::Subscribed;
use super::{Carrier, PendingCommand, SessionModel, event_stream};
use crate::fault::Fault;
use crate::scenario::nanos;
use crate::schedule::{Action, ClientNumber, ConnectionNumber};
use crate::truth::{channel_name, channel_of, number_in};
use crate::world::Simulation;

/// An item parsed from a client's input.
enum ReceivedItem {
    Text(String),
    Ping(u64),
    Close(u16),
    Nothing,
}

impl Simulation {
    /// Reads as many bytes as the client wants, and processes them.
    pub(crate) fn read(&mut self, number: ConnectionNumber) {
        let Some(connection) = self.connection(number) else { return };
        let (client_number, wire) = (connection.client, connection.wire.clone());
        let client = &mut self.clients[client_number as usize];
        let Some(link) = client.link.as_mut().filter(|link| link.connection == number) else {
            return self.read_abandoned(number);
        };
        if link.paused_until > self.now {
            let at = link.paused_until;
            return self.read_later(number, at);
        }
        let at_most = link.read_chunks.map_or(usize::MAX, |(bytes, _)| bytes);
        let read_chunks = link.read_chunks;
        {
            let mut wire = wire.lock();
            wire.client_reads(at_most, &mut link.incoming);
        }
        if link.carrier == Carrier::Connect {
            self.process_connect_answer(client_number, number);
        } else if link.is_poll() {
            self.process_poll_answer(client_number, number);
        } else {
            self.process_items(client_number, number);
        }
        let Some(connection) = self.connection(number) else { return };
        let (is_read_out, has_unread) = {
            let wire = connection.wire.lock();
            (wire.is_read_out(), wire.has_unread())
        };
        let is_linked = self.clients[client_number as usize].link.as_ref().map(|link| link.connection);
        if is_linked == Some(number) && is_read_out {
            self.lose_link(client_number);
            self.plan_to_connect(client_number);
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
        let Some(connection) = self.connection(number) else { return };
        if !connection.ignores_input {
            let mut wire = connection.wire.lock();
            wire.client_reads(usize::MAX, &mut Vec::new());
            if wire.is_read_out() {
                wire.client_closes();
            }
        }
        self.consider(number);
    }

    fn process_items(&mut self, client: ClientNumber, connection: ConnectionNumber) {
        loop {
            let Some(link) = self.clients[client as usize].link.as_mut() else { return };
            if link.connection != connection {
                return;
            }
            match next_item(link) {
                Ok(None) => return,
                Ok(Some(ReceivedItem::Nothing)) => {}
                Ok(Some(ReceivedItem::Text(text))) if link.carrier == Carrier::BayeuxSocket => {
                    self.receive_bayeux_text(client, connection, &text);
                }
                Ok(Some(ReceivedItem::Text(text))) => {
                    self.receive_text(client, &text);
                    self.clients[client as usize].note_event_id();
                }
                Ok(Some(ReceivedItem::Ping(seq))) => self.receive_ping(client, seq, false),
                Ok(Some(ReceivedItem::Close(code))) => self.receive_close(client, code),
                Err(error) => return self.violate("wire", format!("client {client} reads {error}")),
            }
            if self.violation.is_some() {
                return;
            }
        }
    }

    pub(super) fn receive_text(&mut self, client: ClientNumber, text: &str) {
        let message: ServerMessage<'_> = match serde_json::from_str(text) {
            Ok(message) => message,
            Err(error) => return self.violate("wire", format!("client {client} reads {text}: {error}")),
        };
        self.trace.log(self.now, format_args!("client {client} reads {}", shortened(text)));
        match message {
            ServerMessage::Hello(hello) => self.receive_hello(client, &hello),
            ServerMessage::Reply(reply) => self.receive_reply(client, reply),
            ServerMessage::Ping(ping) => self.receive_ping(client, ping.seq, true),
            ServerMessage::Message(message) => {
                let by = message.pattern.as_ref().map_or(&message.channel, |pattern| &pattern.name);
                let (Some(_), Some(log)) = (channel_of(&message.channel), channel_of(by)) else {
                    return self.violate("wire", format!("a message of {} by {by}", message.channel));
                };
                let offset = message.pattern.as_ref().map_or(message.offset, |pattern| pattern.offset);
                let number = message.data.and_then(|data| number_in(data.get())).unwrap_or(u64::MAX);
                self.deliveries += 1;
                self.receive_numbered(client, message.seq, true, |model, truth, _| {
                    model.message(message.seq, log, offset, number, truth)
                });
            }
            ServerMessage::Gap(gap) => {
                let Some(channel) = channel_of(&gap.channel) else {
                    return self.violate("wire", format!("a gap of {}", gap.channel));
                };
                self.receive_numbered(client, gap.seq, false, |model, truth, server| {
                    let view = server.channel(&channel_name(channel));
                    let first = view.filter(|view| view.epoch == gap.epoch).map(|view| view.first);
                    model.gap(&gap, channel, first, truth)
                });
            }
            // After a goaway, the client leaves regardless of what it has received.
            ServerMessage::Goaway(_) => self.leave_event_stream(client),
            ServerMessage::Subscribed(begun) => {
                self.violate("wire", format!("subscribed to {} without a request", begun.channel));
            }
            ServerMessage::Unsubscribed(gone) => {
                if let (Some(channel), Some(model)) =
                    (channel_of(&gone.channel), &mut self.clients[client as usize].model)
                {
                    *model.subscription(channel) = super::ChannelSubscription::Inactive;
                }
            }
        }
    }

    fn receive_numbered(
        &mut self,
        client: ClientNumber,
        seq: u64,
        is_message: bool,
        take: impl FnOnce(
            &mut SessionModel,
            &crate::truth::Truth,
            &encke_server::testing::simulation::SimulatedServer,
        ) -> Result<(), String>,
    ) {
        let it = &mut self.clients[client as usize];
        let (Some(link), Some(model)) = (&mut it.link, &mut it.model) else {
            return self.violate("wire", format!("client {client} reads seq {seq} before its hello"));
        };
        // The answer to a poll without a seq may repeat messages, because the server does not know which ones
        // the client has received.
        let is_wrong = match link.read {
            Some(read) => seq <= read || is_message && seq != read + 1 && !model.gaps_allowed,
            None => is_message && seq > model.highest + 1 && !model.gaps_allowed,
        };
        // A gap may skip seqs: it stands for messages that have left the ring, but not for messages of
        // channels from which the client has unsubscribed.
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
        let it = &mut self.clients[client as usize];
        let Some(link) = &mut it.link else { return };
        if std::mem::replace(&mut link.greeted, true) {
            return self.violate("wire", format!("client {client} reads a second hello"));
        }
        link.read = Some(hello.seq);
        let number = link.connection;
        let (offer, carrier) = (link.offer.take(), link.carrier);
        // For an event stream, take its channel, its start according to the event id of the hello, and the
        // position that the client sent.
        let polled = link.channel.filter(|_| carrier == Carrier::Poll);
        let stream = link.channel.zip(link.event_id.as_ref()).map(|(channel, id)| {
            let position = id.split_once(';').map_or("", |(_, position)| position);
            (channel, position.to_owned(), link.offered.take().unwrap_or_default())
        });
        match (hello.recovered, offer) {
            (true, Some(offer)) => {
                let had = it.model.as_mut().map_or(0, |model| {
                    model.must_tell_seq = false;
                    model.highest
                });
                // The seq of the hello may skip messages of channels from which the client has unsubscribed,
                // if they have left the ring. With Redis, it may also skip messages when a new epoch
                // continues a former one; these are reported as a gap.
                let may_skip = self.scenario.redis;
                let may_continue = offer.seq.map_or(hello.seq <= had || may_skip, |seq| seq <= hello.seq);
                if hello.session != offer.session || !may_continue || offer.is_future {
                    self.violate("resume", format!("client {client} asked for {offer:?}, but got {hello:?}"));
                }
            }
            (true, None) => {
                self.violate("resume", format!("client {client} did not resume, but got {hello:?}"))
            }
            (false, offer) => {
                it.forget_session();
                let mut model = SessionModel::new(hello);
                model.gaps_allowed = carrier == Carrier::Events;
                if let Some(channel) = polled {
                    model.begin_at_unknown(channel);
                }
                if let Some((channel, position, offered)) = stream {
                    let view = self.server.channel(&channel_name(channel));
                    model.continue_at(
                        channel,
                        &position,
                        view.as_ref().map(|view| (&*view.epoch, view.last)),
                    );
                    // The position is empty if the channel was refused because of a limit.
                    if !offered.is_empty() && !position.is_empty() && offered != position {
                        let what = format!("client {client} was at {offered}, but got {position}");
                        return self.violate("wire", what);
                    }
                }
                it.model = Some(model);
                if let Some(offer) = offer {
                    self.check_session_may_be_lost(&offer.session, offer.is_future);
                }
            }
        }
        let session = hello.session.clone().into_owned();
        if let Some(connection) = self.connection_mut(number) {
            connection.session = Some(session);
        }
    }

    fn receive_reply(&mut self, client: ClientNumber, reply: Reply<'_>) {
        let it = &mut self.clients[client as usize];
        let Some(link) = &mut it.link else { return };
        let Some(id) = reply.id else { return };
        let Some((expected, pending)) = link.pending_commands.pop_front() else {
            return self.violate("replies", format!("client {client}: reply {id} without a command"));
        };
        if expected != id {
            return self.violate("replies", format!("client {client}: reply {id} instead of {expected}"));
        }
        self.receive_command_reply(client, None, pending, reply.outcome);
    }

    /// Processes the reply to a command. `session` is set if the command was sent in a separate request.
    pub(super) fn receive_command_reply(
        &mut self,
        client: ClientNumber,
        session: Option<&str>,
        pending: PendingCommand,
        outcome: ReplyOutcome<'_>,
    ) {
        let it = &mut self.clients[client as usize];
        let Some(model) = &mut it.model else { return };
        if session.is_some_and(|session| model.session != session) {
            return;
        }
        let is_beside = session.is_some();
        match (pending, outcome) {
            (PendingCommand::Subscribe { channel, begin }, ReplyOutcome::Ok(success)) => {
                let Success::Subscribed { epoch, offset, recovered, .. } = success.into_owned() else {
                    return;
                };
                let view = self.server.channel(&channel_name(channel)).filter(|view| view.epoch == epoch);
                let first = view.map(|view| view.first);
                let answer = Subscribed { epoch: &epoch, offset, begin: &begin, recovered, first, is_beside };
                let wrong = model.subscribed(channel, &answer, &self.truth);
                it.snapshots.clear();
                it.past[usize::from(channel)] = None;
                if let Err(what) = wrong {
                    self.violate("exactly once or a gap", format!("client {client}: {what}"));
                }
            }
            (PendingCommand::Subscribe { channel, .. }, ReplyOutcome::Error(_)) => {
                *model.subscription(channel) = super::ChannelSubscription::Inactive;
            }
            _ => {}
        }
    }

    fn receive_ping(&mut self, client: ClientNumber, seq: u64, is_message: bool) {
        let pong_timeout = nanos(self.scenario.config.session.pong_timeout);
        let is_late_allowed = self.faults_now().allows(Fault::LatePong);
        let it = &mut self.clients[client as usize];
        let Some(link) = &mut it.link else { return };
        let connection = link.connection;
        if link.ignores_pings {
            return;
        }
        if is_late_allowed && link.is_late && !is_message && it.rng.random_bool(0.3) {
            let wait = it.rng.random_range(0..pong_timeout * 3 / 2);
            self.fault_counts.count(Fault::LatePong);
            return self.schedule.plan(self.now + wait, Action::Answer(connection, seq));
        }
        if is_message {
            frames::write(TEXT, format!("{{\"pong\":{{\"seq\":{seq}}}}}").as_bytes(), &mut link.outgoing);
        } else {
            frames::write(PONG, &seq.to_be_bytes(), &mut link.outgoing);
        }
        self.flush(connection);
    }

    /// Sends a delayed pong.
    pub(crate) fn answer(&mut self, number: ConnectionNumber, seq: u64) {
        let Some(client) = self.connection(number).map(|connection| connection.client) else { return };
        let link = self.clients[client as usize].link.as_mut();
        let Some(link) = link.filter(|link| link.connection == number) else { return };
        frames::write(PONG, &seq.to_be_bytes(), &mut link.outgoing);
        self.flush(number);
    }

    fn receive_close(&mut self, client: ClientNumber, code: u16) {
        let it = &mut self.clients[client as usize];
        let Some(link) = &mut it.link else { return };
        let connection = link.connection;
        self.trace.log(self.now, format_args!("client {client} is closed with {code}"));
        frames::write(CLOSE, &code.to_be_bytes(), &mut link.outgoing);
        if matches!(code, 1000 | 1002.. 4000 | 4101..) {
            it.forget_session();
        }
        self.flush(connection);
        self.lose_link(client);
        self.plan_to_connect(client);
    }

    /// Closes an event stream after a goaway. A WebSocket is closed by the server.
    fn leave_event_stream(&mut self, client: ClientNumber) {
        let link = self.clients[client as usize].link.as_ref();
        if link.is_some_and(|link| !link.is_websocket()) {
            self.lose_link(client);
            self.plan_to_connect(client);
        }
    }
}

/// Parses the next complete item of the bytes received.
fn next_item(link: &mut super::ClientLink) -> Result<Option<ReceivedItem>, String> {
    let (heard, taken) = if link.is_websocket() {
        let Some((frame, taken)) = frames::read(&link.incoming)? else { return Ok(None) };
        let heard = match frame.opcode {
            TEXT => ReceivedItem::Text(
                String::from_utf8(frame.payload.to_vec()).map_err(|error| error.to_string())?,
            ),
            PING => ReceivedItem::Ping(u64::from_be_bytes(
                frame.payload.try_into().map_err(|_| format!("a ping with payload {:?}", frame.payload))?,
            )),
            CLOSE => match frame.payload {
                [high, low, ..] => ReceivedItem::Close(u16::from_be_bytes([*high, *low])),
                _ => ReceivedItem::Close(1005),
            },
            PONG => ReceivedItem::Nothing,
            opcode => return Err(format!("a frame with opcode {opcode}")),
        };
        (heard, taken)
    } else if !link.head_read {
        let Some(taken) = event_stream::read_head(&link.incoming)? else { return Ok(None) };
        link.head_read = true;
        (ReceivedItem::Nothing, taken)
    } else {
        let Some((event, taken)) = event_stream::read_event(&link.incoming)? else { return Ok(None) };
        link.event_id = event.id.filter(|id| *id != "end").map(ToOwned::to_owned);
        (event.data.map_or(ReceivedItem::Nothing, |data| ReceivedItem::Text(data.to_owned())), taken)
    };
    link.incoming.drain(..taken);
    Ok(Some(heard))
}

fn shortened(text: &str) -> &str {
    text.get(..100).unwrap_or(text)
}
