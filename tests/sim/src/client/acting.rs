//! What clients do by themselves.

use encke_core::dialect::{Beginning, Since};
use rand::RngExt;

use super::frames::{self, CLOSE, PING, TEXT};
use super::{Carrier, Following, Question};
use crate::fault::Fault;
use crate::scenario::nanos;
use crate::schedule::{Action, ClientNumber};
use crate::truth::{channel_name, text_of};
use crate::world::World;

const MOST_SNAPSHOTS: usize = 4;

/// Clients say nothing more while so much waits to be sent.
pub(super) const MOST_OUTGOING: usize = 8192;

impl World {
    /// A client does something, if its plans are still these.
    pub(crate) fn act(&mut self, number: ClientNumber, plan: u32) {
        let client = &self.clients[number as usize];
        if client.plan != plan || client.gone {
            return;
        }
        match &client.link {
            None => self.connect(number),
            Some(link) if !link.greeted && link.carrier != Carrier::BayeuxSocket => {}
            Some(link) => match link.carrier {
                Carrier::WebSocket => self.act_on_websocket(number),
                Carrier::Events => self.act_on_event_stream(number),
                Carrier::Poll => self.act_beside_poll(number),
                Carrier::Connect => self.act_beside_connect(number),
                Carrier::BayeuxSocket => self.act_on_bayeux_socket(number),
            },
        }
        self.plan_act(number);
    }

    fn plan_act(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number as usize];
        if client.link.is_none() {
            // It has planned to connect.
            return;
        }
        let wait = client.rng.random_range(0..self.scenario.pause);
        client.plan += 1;
        let plan = client.plan;
        self.schedule.plan(self.now + wait, Action::Act(number, plan));
    }

    fn act_on_event_stream(&mut self, number: ClientNumber) {
        match self.clients[number as usize].rng.random_range(0..10) {
            0..3 => self.remember_page(number),
            3 => self.post_something(number),
            4 => self.pause_reading(number),
            _ => self.trouble(number),
        }
    }

    fn act_beside_poll(&mut self, number: ClientNumber) {
        match self.clients[number as usize].rng.random_range(0..40) {
            27 => {
                // Of a request that is not to follow.
                self.send_bytes(number, b"GET /poll");
            }
            28 => self.remember_page(number),
            29..31 => self.pause_reading(number),
            31..33 => self.post_nonsense_if_allowed(number),
            33.. => self.trouble(number),
            _ => self.post_something(number),
        }
    }

    /// Commands in a request of their own.
    pub(super) fn post_something(&mut self, number: ClientNumber) {
        match self.clients[number as usize].rng.random_range(0..40) {
            0..15 => self.subscribe_or_not(number),
            15..28 => self.publish_by_client(number),
            28..36 => self.acknowledge(number),
            36..39 => self.command(number, "\"presence\":{\"channel\":\"/even/0\"}", Question::Other),
            _ => self.end_session(number),
        }
    }

    fn act_on_websocket(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number as usize];
        if client.link.as_ref().is_some_and(|link| link.outgoing.len() > MOST_OUTGOING) {
            return;
        }
        match client.rng.random_range(0..40) {
            0..10 => self.subscribe_or_not(number),
            10..20 => self.publish_by_client(number),
            20..27 => self.acknowledge(number),
            27 => self.command(number, "\"presence\":{\"channel\":\"/even/0\"}", Question::Other),
            28 => self.remember_page(number),
            29..31 => self.pause_reading(number),
            31 => self.send_frame(number, PING, b"anyone there?"),
            32 => self.misbehave(number),
            33 => self.end_session(number),
            _ => self.trouble(number),
        }
    }

    fn subscribe_or_not(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number as usize];
        // The order of requests that overtake each other is not known.
        if client.posting.is_some() {
            return;
        }
        let channel = self.scenario.any_log(&mut client.rng);
        let is_beside = !client.link.as_ref().is_some_and(super::Link::is_websocket);
        let Some(page) = &mut client.page else { return };
        let is_first = !page.has_followed(channel);
        // Beside a poll, what comes of an earlier subscription cannot be told from what comes of this one.
        let past = client.past[usize::from(channel)].clone().filter(|_| !is_beside || is_first);
        let begin = match past {
            // The answer does not say whether the server has heard that it did not want the channel any more.
            _ if is_first && client.rng.random_bool(0.3) => Beginning::Newest(client.rng.random_range(0..12)),
            Some((epoch, offset)) => Beginning::After(Since { epoch: epoch.into(), offset }),
            None => Beginning::Now,
        };
        let name = channel_name(channel);
        let following = page.following(channel);
        match following {
            Following::Asked => {}
            Following::Yes(_) | Following::FromHere(_) if client.rng.random_bool(0.7) => {}
            Following::Yes(_) | Following::Unknown | Following::FromHere(_) => {
                *following = Following::No;
                client.snapshots.clear();
                self.command(number, &format!("\"unsubscribe\":{{\"channel\":\"{name}\"}}"), Question::Other);
            }
            Following::No => {
                page.ask_for(channel);
                client.snapshots.clear();
                let from = match &begin {
                    Beginning::Now => String::new(),
                    Beginning::After(Since { epoch, offset }) => {
                        format!(",\"since\":{{\"epoch\":\"{epoch}\",\"offset\":{offset}}}")
                    }
                    Beginning::Newest(count) => format!(",\"last\":{count}"),
                };
                let question = Question::Subscribe { channel, begin };
                self.command(number, &format!("\"subscribe\":{{\"channel\":\"{name}\"{from}}}"), question);
            }
        }
    }

    fn publish_by_client(&mut self, number: ClientNumber) {
        let channel = self.clients[number as usize].rng.random_range(0..self.scenario.channels);
        let longest = self.scenario.longest_message;
        let length = self.clients[number as usize].rng.random_range(0..longest);
        let data = text_of(self.next_message(), length);
        let name = channel_name(channel);
        let command = format!("\"publish\":{{\"channel\":\"{name}\",\"data\":{data}}}");
        if !self.speaks_over_link(number) {
            return self.post(
                number,
                &format!("\"publish\":{{\"channel\":\"{name}\",\"data\":{data}}}"),
                Question::Other,
                1 << channel,
            );
        }
        if let Some(connection) = self.clients[number as usize].link.as_ref().map(|link| link.connection)
            && let Some(connection) = self.connection_mut(connection)
        {
            connection.published_to |= 1 << channel;
        }
        self.command(number, &command, Question::Other);
    }

    /// It has everything up to here, or says so of less.
    fn acknowledge(&mut self, number: ClientNumber) {
        if !self.speaks_over_link(number) {
            return self.acknowledge_beside(number);
        }
        let client = &mut self.clients[number as usize];
        let Some(page) = &client.page else { return };
        let Some(link) = &mut client.link else { return };
        let read = link.read.unwrap_or_default();
        let seq = if client.rng.random_bool(0.8) { read } else { client.rng.random_range(0..=read) };
        // What it has lost by going back, it may not say that it has.
        if seq <= page.highest {
            frames::write(TEXT, format!("{{\"ack\":{{\"seq\":{seq}}}}}").as_bytes(), &mut link.outgoing);
            let connection = link.connection;
            self.flush(connection);
        }
    }

    fn acknowledge_beside(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number as usize];
        let Some(page) = client.page.as_ref().filter(|page| !page.must_tell_seq) else { return };
        let seq = page.highest - client.rng.random_range(0..=page.highest.min(2));
        self.post(number, &format!("\"ack\":{{\"seq\":{seq}}}"), Question::Other, 0);
    }

    /// Whether commands go over its connection, and not beside it.
    fn speaks_over_link(&self, number: ClientNumber) -> bool {
        self.clients[number as usize].link.as_ref().is_some_and(super::Link::is_websocket)
    }

    fn command(&mut self, number: ClientNumber, command: &str, question: Question) {
        if !self.speaks_over_link(number) {
            return self.post(number, command, question, 0);
        }
        let client = &mut self.clients[number as usize];
        let Some(link) = &mut client.link else { return };
        let id = link.next_id;
        link.next_id += 1;
        link.questions.push_back((id, question));
        frames::write(TEXT, format!("{{\"id\":{id},{command}}}").as_bytes(), &mut link.outgoing);
        let connection = link.connection;
        self.trace.say(self.now, format_args!("client {number}: {}", command.get(..90).unwrap_or(command)));
        self.flush(connection);
    }

    pub(super) fn send_frame(&mut self, number: ClientNumber, opcode: u8, payload: &[u8]) {
        let Some(link) = &mut self.clients[number as usize].link else { return };
        frames::write(opcode, payload, &mut link.outgoing);
        let connection = link.connection;
        self.flush(connection);
    }

    fn send_bytes(&mut self, number: ClientNumber, bytes: &[u8]) {
        let Some(link) = &mut self.clients[number as usize].link else { return };
        link.outgoing.extend(bytes);
        let connection = link.connection;
        self.flush(connection);
    }

    fn post_nonsense_if_allowed(&mut self, number: ClientNumber) {
        if self.faults_now().allows(Fault::BadInput) {
            self.fault_counts.count(Fault::BadInput);
            self.post_nonsense(number);
        }
    }

    fn remember_page(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number as usize];
        let is_certain = |page: &super::Page| !page.channels.iter().any(|it| matches!(it, Following::Asked));
        if let Some(page) = client.page.as_ref().filter(|page| is_certain(page))
            && client.snapshots.len() < MOST_SNAPSHOTS
        {
            client.snapshots.push(page.clone());
        }
    }

    pub(super) fn pause_reading(&mut self, number: ClientNumber) {
        if !self.faults_now().allows(Fault::SlowReader) {
            return;
        }
        let longest = nanos(self.scenario.config.write_timeout) * 3 / 2;
        let now = self.now;
        let client = &mut self.clients[number as usize];
        if let Some(link) = &mut client.link {
            link.paused_until = now + client.rng.random_range(0..longest);
            self.fault_counts.count(Fault::SlowReader);
        }
    }

    fn misbehave(&mut self, number: ClientNumber) {
        if !self.faults_now().allows(Fault::BadInput) {
            return;
        }
        self.fault_counts.count(Fault::BadInput);
        let client = &mut self.clients[number as usize];
        let Some(link) = &mut client.link else { return };
        match client.rng.random_range(0..6) {
            0 => frames::write(TEXT, b"{\"ack\":{\"seq\":1000000}}", &mut link.outgoing),
            1 => frames::write(TEXT, b"this is not JSON", &mut link.outgoing),
            2 => frames::write(0x2, b"binary", &mut link.outgoing),
            3 => frames::write(TEXT, &[0xFF, 0xFE], &mut link.outgoing),
            4 => link.outgoing.extend([0xF1, 0x00]),
            _ => {
                for _ in 0..70 {
                    frames::write(TEXT, b"{\"no_such_command\":{}}", &mut link.outgoing);
                }
            }
        }
        let connection = link.connection;
        self.flush(connection);
    }

    fn end_session(&mut self, number: ClientNumber) {
        if !self.faults_now().allows(Fault::Leave) {
            return;
        }
        self.close_session(number);
    }

    pub(crate) fn close_session(&mut self, number: ClientNumber) {
        self.command(number, "\"close\":{}", Question::Other);
    }

    /// Something happens to its connection.
    pub(super) fn trouble(&mut self, number: ClientNumber) {
        let faults = self.faults_now();
        let which = [Fault::Cut, Fault::HalfOpen, Fault::Leave, Fault::TakeOver];
        let client = &mut self.clients[number as usize];
        let fault = which[client.rng.random_range(0..which.len())];
        if !faults.allows(fault) {
            return;
        }
        let Some(connection) = client.link.as_ref().map(|link| link.connection) else { return };
        self.fault_counts.count(fault);
        self.trace.say(self.now, format_args!("client {number}: {fault:?} ({connection})"));
        match fault {
            Fault::Cut => self.cut(connection),
            Fault::HalfOpen => {
                self.connection(connection).expect("it is linked").wire.lock().vanish();
                self.clients[number as usize].unlink();
                self.plan_to_connect(number);
                self.consider(connection);
            }
            Fault::Leave => {
                let code = 1001_u16.to_be_bytes();
                if self.speaks_over_link(number) && self.clients[number as usize].rng.random_bool(0.5) {
                    self.send_frame(number, CLOSE, &code);
                }
                self.lose_link(number);
                self.plan_to_connect(number);
            }
            // It leaves the old connection to itself.
            _ => {
                let is_deaf = self.clients[number as usize].rng.random_bool(0.2);
                self.connection_mut(connection).expect("it is linked").is_deaf = is_deaf;
                self.connect(number);
            }
        }
    }
}
