//! What clients read, what they hold it against, and how they answer.

use encke_core::dialect::json::{Done, Hello, Outcome, Reply, ServerMessage};
use rand::RngExt;

use super::frames::{self, CLOSE, PING, PONG, TEXT};
use super::page::Subscribed;
use super::{Carrier, Page, Question, event_stream};
use crate::fault::Fault;
use crate::scenario::nanos;
use crate::schedule::{Action, ClientNumber, ConnectionNumber};
use crate::truth::{channel_name, channel_of, number_in};
use crate::world::World;

/// One thing that a client has read.
enum Heard {
    Text(String),
    Ping(u64),
    Close(u16),
    Nothing,
}

impl World {
    /// A client reads what its kernel has, as far as it wants to.
    pub(crate) fn read(&mut self, number: ConnectionNumber) {
        let Some(connection) = self.connection(number) else { return };
        let (client_number, wire) = (connection.client, connection.wire.clone());
        let client = &mut self.clients[client_number as usize];
        let Some(link) = client.link.as_mut().filter(|link| link.connection == number) else {
            return self.read_for_nobody(number);
        };
        if link.paused_until > self.now {
            let at = link.paused_until;
            return self.read_later(number, at);
        }
        let at_most = link.sips.map_or(usize::MAX, |(bytes, _)| bytes);
        let sips = link.sips;
        {
            let mut wire = wire.lock();
            wire.client_reads(at_most, &mut link.incoming);
        }
        if link.carrier == Carrier::Connect {
            self.understand_connect(client_number, number);
        } else if link.is_poll() {
            self.understand_answer(client_number, number);
        } else {
            self.understand(client_number, number);
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
        } else if let Some((_, wait)) = sips.filter(|_| has_unread) {
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

    /// The client has left this connection: what comes is thrown away, and the end is answered.
    fn read_for_nobody(&mut self, number: ConnectionNumber) {
        let Some(connection) = self.connection(number) else { return };
        if !connection.is_deaf {
            let mut wire = connection.wire.lock();
            wire.client_reads(usize::MAX, &mut Vec::new());
            if wire.is_read_out() {
                wire.client_closes();
            }
        }
        self.consider(number);
    }

    fn understand(&mut self, client: ClientNumber, connection: ConnectionNumber) {
        loop {
            let Some(link) = self.clients[client as usize].link.as_mut() else { return };
            if link.connection != connection {
                return;
            }
            match next_heard(link) {
                Ok(None) => return,
                Ok(Some(Heard::Nothing)) => {}
                Ok(Some(Heard::Text(text))) if link.carrier == Carrier::BayeuxSocket => {
                    self.hear_text_of_bayeux(client, connection, &text);
                }
                Ok(Some(Heard::Text(text))) => {
                    self.hear_text(client, &text);
                    self.clients[client as usize].note_event_id();
                }
                Ok(Some(Heard::Ping(seq))) => self.hear_ping(client, seq, false),
                Ok(Some(Heard::Close(code))) => self.hear_close(client, code),
                Err(error) => return self.violate("wire", format!("client {client} reads {error}")),
            }
            if self.violation.is_some() {
                return;
            }
        }
    }

    pub(super) fn hear_text(&mut self, client: ClientNumber, text: &str) {
        let message: ServerMessage<'_> = match serde_json::from_str(text) {
            Ok(message) => message,
            Err(error) => return self.violate("wire", format!("client {client} reads {text}: {error}")),
        };
        self.trace.say(self.now, format_args!("client {client} reads {}", shortened(text)));
        match message {
            ServerMessage::Hello(hello) => self.hear_hello(client, &hello),
            ServerMessage::Reply(reply) => self.hear_reply(client, reply),
            ServerMessage::Ping(ping) => self.hear_ping(client, ping.seq, true),
            ServerMessage::Message(message) => {
                let by = message.pattern.as_ref().map_or(&message.channel, |pattern| &pattern.name);
                let (Some(_), Some(log)) = (channel_of(&message.channel), channel_of(by)) else {
                    return self.violate("wire", format!("a message of {} by {by}", message.channel));
                };
                let offset = message.pattern.as_ref().map_or(message.offset, |pattern| pattern.offset);
                let number = message.data.and_then(|data| number_in(data.get())).unwrap_or(u64::MAX);
                self.deliveries += 1;
                self.hear_numbered(client, message.seq, true, |page, truth, _| {
                    page.message(message.seq, log, offset, number, truth)
                });
            }
            ServerMessage::Gap(gap) => {
                let Some(channel) = channel_of(&gap.channel) else {
                    return self.violate("wire", format!("a gap of {}", gap.channel));
                };
                self.hear_numbered(client, gap.seq, false, |page, truth, server| {
                    let view = server.channel(&channel_name(channel));
                    let first = view.filter(|view| view.epoch == gap.epoch).map(|view| view.first);
                    page.gap(&gap, channel, first, truth)
                });
            }
            // Whatever it was told before it leaves, it leaves.
            ServerMessage::Goaway(_) => self.leave_event_stream(client),
            ServerMessage::Subscribed(begun) => {
                self.violate("wire", format!("nobody has asked for {}", begun.channel));
            }
            ServerMessage::Unsubscribed(gone) => {
                if let (Some(channel), Some(page)) =
                    (channel_of(&gone.channel), &mut self.clients[client as usize].page)
                {
                    *page.following(channel) = super::Following::No;
                }
            }
        }
    }

    fn hear_numbered(
        &mut self,
        client: ClientNumber,
        seq: u64,
        is_message: bool,
        take: impl FnOnce(
            &mut Page,
            &crate::truth::Truth,
            &encke_server::simulation::Server,
        ) -> Result<(), String>,
    ) {
        let it = &mut self.clients[client as usize];
        let (Some(link), Some(page)) = (&mut it.link, &mut it.page) else {
            return self.violate("wire", format!("client {client} reads seq {seq} before its hello"));
        };
        // A poll without a seq brings again what the client may not have.
        let is_wrong = match link.read {
            Some(read) => seq <= read || is_message && seq != read + 1 && !page.gaps_allowed,
            None => is_message && seq > page.highest + 1 && !page.gaps_allowed,
        };
        // Where the ring has forgotten what the client was to get, gaps stand for it, but none for what it does not follow any more.
        if is_wrong {
            let read = link.read;
            return self.violate("seqs", format!("client {client} reads seq {seq} after {read:?}"));
        }
        link.read = Some(seq);
        if let Err(what) = take(page, &self.truth, &self.server) {
            self.violate("exactly once or a gap", format!("client {client}, seq {seq}: {what}"));
        }
    }

    fn hear_hello(&mut self, client: ClientNumber, hello: &Hello<'_>) {
        let it = &mut self.clients[client as usize];
        let Some(link) = &mut it.link else { return };
        if std::mem::replace(&mut link.greeted, true) {
            return self.violate("wire", format!("client {client} reads a second hello"));
        }
        link.read = Some(hello.seq);
        let number = link.connection;
        let (asked, carrier) = (link.asked.take(), link.carrier);
        // The channel of a stream, where it begins by the id of its hello, and where its client was.
        let polled = link.channel.filter(|_| carrier == Carrier::Poll);
        let stream = link.channel.zip(link.event_id.as_ref()).map(|(channel, id)| {
            let position = id.split_once(';').map_or("", |(_, position)| position);
            (channel, position.to_owned(), link.offered.take().unwrap_or_default())
        });
        match (hello.recovered, asked) {
            (true, Some(asked)) => {
                let had = it.page.as_mut().map_or(0, |page| {
                    page.must_tell_seq = false;
                    page.highest
                });
                // It may skip what the ring has forgotten of channels that the client no longer follows.
                // So it may where another life of a log in Redis goes on: what it lacks then is told as a gap there.
                let may_skip = self.scenario.redis;
                let goes_on = asked.seq.map_or(hello.seq <= had || may_skip, |seq| seq <= hello.seq);
                if hello.session != asked.session || !goes_on || asked.is_future {
                    self.violate("resume", format!("client {client} asked {asked:?}, and got {hello:?}"));
                }
            }
            (true, None) => self.violate("resume", format!("client {client} asked for nothing: {hello:?}")),
            (false, asked) => {
                it.forget_session();
                let mut page = Page::new(hello);
                page.gaps_allowed = carrier == Carrier::Events;
                if let Some(channel) = polled {
                    page.begun_here(channel);
                }
                if let Some((channel, position, offered)) = stream {
                    let view = self.server.channel(&channel_name(channel));
                    page.begun_at(channel, &position, view.as_ref().map(|view| (&*view.epoch, view.last)));
                    // It may not have got the channel, for a limit.
                    if !offered.is_empty() && !position.is_empty() && offered != position {
                        let what = format!("client {client} was at {offered}, and is told {position}");
                        return self.violate("wire", what);
                    }
                }
                it.page = Some(page);
                if let Some(asked) = asked {
                    self.check_session_may_be_lost(&asked.session, asked.is_future);
                }
            }
        }
        let session = hello.session.clone().into_owned();
        if let Some(connection) = self.connection_mut(number) {
            connection.session = Some(session);
        }
    }

    fn hear_reply(&mut self, client: ClientNumber, reply: Reply<'_>) {
        let it = &mut self.clients[client as usize];
        let Some(link) = &mut it.link else { return };
        let Some(id) = reply.id else { return };
        let Some((expected, question)) = link.questions.pop_front() else {
            return self.violate("replies", format!("client {client}: a reply {id} to nothing"));
        };
        if expected != id {
            return self.violate("replies", format!("client {client}: a reply {id} where {expected} is due"));
        }
        self.answer_question(client, None, question, reply.outcome);
    }

    /// What comes of a command, sent over the connection or, for `session`, beside it.
    pub(super) fn answer_question(
        &mut self,
        client: ClientNumber,
        session: Option<&str>,
        question: Question,
        outcome: Outcome<'_>,
    ) {
        let it = &mut self.clients[client as usize];
        let Some(page) = &mut it.page else { return };
        if session.is_some_and(|session| page.session != session) {
            return;
        }
        let is_beside = session.is_some();
        match (question, outcome) {
            (
                Question::Subscribe { channel, begin },
                Outcome::Ok(Done::Subscribed { epoch, offset, recovered, .. }),
            ) => {
                let view = self.server.channel(&channel_name(channel)).filter(|view| view.epoch == epoch);
                let first = view.map(|view| view.first);
                let answer = Subscribed { epoch: &epoch, offset, begin: &begin, recovered, first, is_beside };
                let wrong = page.subscribed(channel, &answer, &self.truth);
                it.snapshots.clear();
                it.past[usize::from(channel)] = None;
                if let Err(what) = wrong {
                    self.violate("exactly once or a gap", format!("client {client}: {what}"));
                }
            }
            (Question::Subscribe { channel, .. }, Outcome::Error(_)) => {
                *page.following(channel) = super::Following::No;
            }
            _ => {}
        }
    }

    fn hear_ping(&mut self, client: ClientNumber, seq: u64, is_message: bool) {
        let pong_timeout = nanos(self.scenario.config.session.pong_timeout);
        let is_late_allowed = self.faults_now().allows(Fault::LatePong);
        let it = &mut self.clients[client as usize];
        let Some(link) = &mut it.link else { return };
        let connection = link.connection;
        if link.is_mute {
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

    /// The pong that was late.
    pub(crate) fn answer(&mut self, number: ConnectionNumber, seq: u64) {
        let Some(client) = self.connection(number).map(|connection| connection.client) else { return };
        let link = self.clients[client as usize].link.as_mut();
        let Some(link) = link.filter(|link| link.connection == number) else { return };
        frames::write(PONG, &seq.to_be_bytes(), &mut link.outgoing);
        self.flush(number);
    }

    fn hear_close(&mut self, client: ClientNumber, code: u16) {
        let it = &mut self.clients[client as usize];
        let Some(link) = &mut it.link else { return };
        let connection = link.connection;
        self.trace.say(self.now, format_args!("client {client} is closed with {code}"));
        frames::write(CLOSE, &code.to_be_bytes(), &mut link.outgoing);
        if matches!(code, 1000 | 1002.. 4000 | 4101..) {
            it.forget_session();
        }
        self.flush(connection);
        self.lose_link(client);
        self.plan_to_connect(client);
    }

    /// After a goaway an event stream ends; a WebSocket is closed.
    fn leave_event_stream(&mut self, client: ClientNumber) {
        let link = self.clients[client as usize].link.as_ref();
        if link.is_some_and(|link| !link.is_websocket()) {
            self.lose_link(client);
            self.plan_to_connect(client);
        }
    }
}

/// The next whole thing in what a link has read.
fn next_heard(link: &mut super::Link) -> Result<Option<Heard>, String> {
    let (heard, taken) = if link.is_websocket() {
        let Some((frame, taken)) = frames::read(&link.incoming)? else { return Ok(None) };
        let heard = match frame.opcode {
            TEXT => {
                Heard::Text(String::from_utf8(frame.payload.to_vec()).map_err(|error| error.to_string())?)
            }
            PING => Heard::Ping(u64::from_be_bytes(
                frame.payload.try_into().map_err(|_| format!("a ping of {:?}", frame.payload))?,
            )),
            CLOSE => match frame.payload {
                [high, low, ..] => Heard::Close(u16::from_be_bytes([*high, *low])),
                _ => Heard::Close(1005),
            },
            PONG => Heard::Nothing,
            opcode => return Err(format!("a frame of opcode {opcode}")),
        };
        (heard, taken)
    } else if !link.head_read {
        let Some(taken) = event_stream::read_head(&link.incoming)? else { return Ok(None) };
        link.head_read = true;
        (Heard::Nothing, taken)
    } else {
        let Some((event, taken)) = event_stream::read_event(&link.incoming)? else { return Ok(None) };
        link.event_id = event.id.filter(|id| *id != "end").map(ToOwned::to_owned);
        (event.data.map_or(Heard::Nothing, |data| Heard::Text(data.to_owned())), taken)
    };
    link.incoming.drain(..taken);
    Ok(Some(heard))
}

fn shortened(text: &str) -> &str {
    text.get(..100).unwrap_or(text)
}
