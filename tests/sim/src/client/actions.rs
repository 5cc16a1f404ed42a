//! Random actions of clients: commands, acknowledgements, invalid input and connection faults.

use encke_core::dialect::{Since, StartPosition};
use rand::RngExt;

use super::frames::{self, CLOSE, PING, TEXT};
use super::{Carrier, ChannelSubscription, PendingCommand};
use crate::fault::Fault;
use crate::scenario::nanos;
use crate::schedule::{Action, ClientNumber};
use crate::truth::{channel_name, text_of};
use crate::world::Simulation;

const MAX_SNAPSHOTS: usize = 4;

/// Number of unsent bytes above which a client sends no more commands.
pub(super) const MAX_OUTGOING: usize = 8192;

impl Simulation {
    /// Makes a client act, unless `plan` has been superseded by a later plan.
    pub(crate) fn act(&mut self, number: ClientNumber, plan: u32) {
        let client = &self.clients[number as usize];
        if client.plan != plan || client.has_left {
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
            // The loss of the link has already planned a connection attempt.
            return;
        }
        let wait = client.rng.random_range(0..self.scenario.pause);
        client.plan += 1;
        let plan = client.plan;
        self.schedule.plan(self.now + wait, Action::Act(number, plan));
    }

    fn act_on_event_stream(&mut self, number: ClientNumber) {
        match self.clients[number as usize].rng.random_range(0..10) {
            0..3 => self.save_snapshot(number),
            3 => self.post_random_command(number),
            4 => self.pause_reading(number),
            _ => self.inject_connection_fault(number),
        }
    }

    fn act_beside_poll(&mut self, number: ClientNumber) {
        match self.clients[number as usize].rng.random_range(0..40) {
            27 => {
                // Send the start of a request that is never completed.
                self.send_bytes(number, b"GET /poll");
            }
            28 => self.save_snapshot(number),
            29..31 => self.pause_reading(number),
            31..33 => self.post_invalid_request_if_allowed(number),
            33.. => self.inject_connection_fault(number),
            _ => self.post_random_command(number),
        }
    }

    /// Sends a random command in a separate request.
    pub(super) fn post_random_command(&mut self, number: ClientNumber) {
        match self.clients[number as usize].rng.random_range(0..40) {
            0..15 => self.toggle_subscription(number),
            15..28 => self.publish_by_client(number),
            28..36 => self.acknowledge(number),
            36..39 => self.command(number, "\"presence\":{\"channel\":\"/even/0\"}", PendingCommand::Other),
            _ => self.end_session(number),
        }
    }

    fn act_on_websocket(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number as usize];
        if client.link.as_ref().is_some_and(|link| link.outgoing.len() > MAX_OUTGOING) {
            return;
        }
        match client.rng.random_range(0..40) {
            0..10 => self.toggle_subscription(number),
            10..20 => self.publish_by_client(number),
            20..27 => self.acknowledge(number),
            27 => self.command(number, "\"presence\":{\"channel\":\"/even/0\"}", PendingCommand::Other),
            28 => self.save_snapshot(number),
            29..31 => self.pause_reading(number),
            31 => self.send_frame(number, PING, b"anyone there?"),
            32 => self.send_invalid_input(number),
            33 => self.end_session(number),
            _ => self.inject_connection_fault(number),
        }
    }

    fn toggle_subscription(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number as usize];
        // Wait for the pending request: requests may overtake each other, so the order would be unknown.
        if client.posting.is_some() {
            return;
        }
        let channel = self.scenario.any_log(&mut client.rng);
        let is_beside = !client.link.as_ref().is_some_and(super::ClientLink::is_websocket);
        let Some(model) = &mut client.model else { return };
        let is_first = !model.has_subscribed(channel);
        // Without a WebSocket, commands are separate requests: messages from an earlier subscription to this
        // channel could not be distinguished from messages of this one. Continue from a past offset only in
        // the first subscription.
        let past = client.past[usize::from(channel)].clone().filter(|_| !is_beside || is_first);
        let begin = match past {
            // Use `last` only in the first subscription: in a later one, the reply does not say whether the
            // server had already processed the unsubscribe.
            _ if is_first && client.rng.random_bool(0.3) => {
                StartPosition::Newest(client.rng.random_range(0..12))
            }
            Some((epoch, offset)) => StartPosition::After(Since { epoch: epoch.into(), offset }),
            None => StartPosition::Now,
        };
        let name = channel_name(channel);
        let subscription = model.subscription(channel);
        match subscription {
            ChannelSubscription::Requested => {}
            ChannelSubscription::Active(_) | ChannelSubscription::AtNextMessage(_)
                if client.rng.random_bool(0.7) => {}
            ChannelSubscription::Active(_)
            | ChannelSubscription::Unknown
            | ChannelSubscription::AtNextMessage(_) => {
                *subscription = ChannelSubscription::Inactive;
                client.snapshots.clear();
                self.command(
                    number,
                    &format!("\"unsubscribe\":{{\"channel\":\"{name}\"}}"),
                    PendingCommand::Other,
                );
            }
            ChannelSubscription::Inactive => {
                model.requested(channel);
                client.snapshots.clear();
                let from = match &begin {
                    StartPosition::Now => String::new(),
                    StartPosition::After(Since { epoch, offset }) => {
                        format!(",\"since\":{{\"epoch\":\"{epoch}\",\"offset\":{offset}}}")
                    }
                    StartPosition::Newest(count) => format!(",\"last\":{count}"),
                };
                let pending = PendingCommand::Subscribe { channel, begin };
                self.command(number, &format!("\"subscribe\":{{\"channel\":\"{name}\"{from}}}"), pending);
            }
        }
    }

    fn publish_by_client(&mut self, number: ClientNumber) {
        let channel = self.clients[number as usize].rng.random_range(0..self.scenario.channels);
        let longest = self.scenario.max_message_bytes;
        let length = self.clients[number as usize].rng.random_range(0..longest);
        let data = text_of(self.next_message(), length);
        let name = channel_name(channel);
        let command = format!("\"publish\":{{\"channel\":\"{name}\",\"data\":{data}}}");
        if !self.speaks_over_link(number) {
            return self.post(
                number,
                &format!("\"publish\":{{\"channel\":\"{name}\",\"data\":{data}}}"),
                PendingCommand::Other,
                1 << channel,
            );
        }
        if let Some(connection) = self.clients[number as usize].link.as_ref().map(|link| link.connection)
            && let Some(connection) = self.connection_mut(connection)
        {
            connection.published_to |= 1 << channel;
        }
        self.command(number, &command, PendingCommand::Other);
    }

    /// Acknowledges the last seq received, or an earlier one.
    fn acknowledge(&mut self, number: ClientNumber) {
        if !self.speaks_over_link(number) {
            return self.acknowledge_beside(number);
        }
        let client = &mut self.clients[number as usize];
        let Some(model) = &client.model else { return };
        let Some(link) = &mut client.link else { return };
        let read = link.read.unwrap_or_default();
        let seq = if client.rng.random_bool(0.8) { read } else { client.rng.random_range(0..=read) };
        // A client that went back to an earlier state must not acknowledge messages received after that
        // state.
        if seq <= model.highest {
            frames::write(TEXT, format!("{{\"ack\":{{\"seq\":{seq}}}}}").as_bytes(), &mut link.outgoing);
            let connection = link.connection;
            self.flush(connection);
        }
    }

    fn acknowledge_beside(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number as usize];
        let Some(model) = client.model.as_ref().filter(|model| !model.must_tell_seq) else { return };
        let seq = model.highest - client.rng.random_range(0..=model.highest.min(2));
        self.post(number, &format!("\"ack\":{{\"seq\":{seq}}}"), PendingCommand::Other, 0);
    }

    /// Returns whether the client sends commands on its connection, rather than in separate requests.
    fn speaks_over_link(&self, number: ClientNumber) -> bool {
        self.clients[number as usize].link.as_ref().is_some_and(super::ClientLink::is_websocket)
    }

    fn command(&mut self, number: ClientNumber, command: &str, pending: PendingCommand) {
        if !self.speaks_over_link(number) {
            return self.post(number, command, pending, 0);
        }
        let client = &mut self.clients[number as usize];
        let Some(link) = &mut client.link else { return };
        let id = link.next_id;
        link.next_id += 1;
        link.pending_commands.push_back((id, pending));
        frames::write(TEXT, format!("{{\"id\":{id},{command}}}").as_bytes(), &mut link.outgoing);
        let connection = link.connection;
        self.trace.log(self.now, format_args!("client {number}: {}", command.get(..90).unwrap_or(command)));
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

    fn post_invalid_request_if_allowed(&mut self, number: ClientNumber) {
        if self.faults_now().allows(Fault::BadInput) {
            self.fault_counts.count(Fault::BadInput);
            self.post_invalid_request(number);
        }
    }

    fn save_snapshot(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number as usize];
        let is_certain = |model: &super::SessionModel| {
            !model.channels.iter().any(|it| matches!(it, ChannelSubscription::Requested))
        };
        if let Some(model) = client.model.as_ref().filter(|model| is_certain(model))
            && client.snapshots.len() < MAX_SNAPSHOTS
        {
            client.snapshots.push(model.clone());
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

    fn send_invalid_input(&mut self, number: ClientNumber) {
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
        self.command(number, "\"close\":{}", PendingCommand::Other);
    }

    /// Injects a random fault into the client's connection.
    pub(super) fn inject_connection_fault(&mut self, number: ClientNumber) {
        let faults = self.faults_now();
        let which = [Fault::Cut, Fault::HalfOpen, Fault::Leave, Fault::TakeOver];
        let client = &mut self.clients[number as usize];
        let fault = which[client.rng.random_range(0..which.len())];
        if !faults.allows(fault) {
            return;
        }
        let Some(connection) = client.link.as_ref().map(|link| link.connection) else { return };
        self.fault_counts.count(fault);
        self.trace.log(self.now, format_args!("client {number}: {fault:?} ({connection})"));
        match fault {
            Fault::Cut => self.cut(connection),
            Fault::HalfOpen => {
                self.connection(connection).expect("an open connection").wire.lock().vanish();
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
            // A take-over abandons the old connection.
            _ => {
                let ignores_input = self.clients[number as usize].rng.random_bool(0.2);
                self.connection_mut(connection).expect("an open connection").ignores_input = ignores_input;
                self.connect(number);
            }
        }
    }
}
