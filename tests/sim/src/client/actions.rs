//! Random actions of clients: commands, acknowledgements, invalid input and connection faults.

use encke_core::dialect::{Since, StartPosition};
use rand::RngExt;
use serde_json::{Value, json};

use super::bayeux::{BayeuxCommand, SERVICE, SERVICE_DATA};
use super::frames::{BINARY, CLOSE, PING, TEXT};
use super::link::{PendingCommand, SentCommand};
use super::posts::PostedCommands;
use super::{Carrier, ChannelSubscription, MAX_SNAPSHOTS, SessionModel, SimClient};
use crate::backend::alias_of;
use crate::fault::Fault;
use crate::namespaces::rules_of;
use crate::scenario::nanos;
use crate::schedule::ClientNumber;
use crate::truth::name_of;
use crate::world::Simulation;

/// Number of unsent bytes above which a client sends no more commands.
const MAX_OUTGOING: usize = 8192;

impl SimClient {
    fn save_snapshot(&mut self) {
        if let Some(bayeux) = &mut self.bayeux {
            return bayeux.save_snapshot();
        }
        let is_certain = |model: &&SessionModel| {
            !model.channels.iter().any(|it| matches!(it, ChannelSubscription::Requested))
        };
        if let Some(model) = self.model.as_ref().filter(is_certain)
            && self.snapshots.len() < MAX_SNAPSHOTS
        {
            self.snapshots.push(model.clone());
        }
    }
}

impl Simulation {
    /// Makes a client act, unless `plan` has been superseded by a later plan.
    pub(crate) fn act(&mut self, number: ClientNumber, plan: u32) {
        let client = &self.clients[number];
        if client.plan != plan {
            return;
        }
        if !self.is_busy() {
            return self.continue_calmly(number);
        }
        match &client.link {
            None => self.connect(number),
            Some(link) if link.outgoing.len() > MAX_OUTGOING => {}
            Some(link) if link.carrier == Carrier::BayeuxSocket => self.act_on_bayeux_socket(number),
            Some(link) if link.greeted => self.act_on_link(number),
            Some(link) if link.carrier == Carrier::Connect => {}
            Some(_) => {
                if self.injects(Fault::LateRequest, 0.3) {
                    self.connect(number);
                }
            }
        }
        // The loss of a link has already planned a connection attempt.
        if self.clients[number].link.is_some() {
            let wait = self.rng.random_range(0..self.scenario.pause);
            self.plan_to_act(number, wait);
        }
    }

    pub(super) fn act_on_link(&mut self, number: ClientNumber) {
        let Some(carrier) = self.clients[number].link.as_ref().map(|link| link.carrier) else { return };
        let choices = if carrier == Carrier::Events { 24..40 } else { 0..40 };
        match (self.rng.random_range(choices), carrier) {
            (0..27, _) => self.send_random_command(number),
            (27, Carrier::WebSocket | Carrier::BayeuxSocket) => {
                self.send_frame(number, PING, b"anyone there?")
            }
            // Send the start of a request that is never completed.
            (27, Carrier::Poll) => self.send_bytes(number, b"GET /poll"),
            (27..29, _) => self.clients[number].save_snapshot(),
            (29..31, _) => self.pause_reading(number),
            (31..33, _) => self.send_invalid_input(number),
            _ => self.inject_connection_fault(number),
        }
    }

    pub(super) fn send_random_command(&mut self, number: ClientNumber) {
        let is_bayeux = self.clients[number].bayeux.is_some();
        match self.rng.random_range(0..40) {
            0..15 if is_bayeux => self.toggle_bayeux_subscription(number),
            0..15 => self.toggle_subscription(number),
            15..28 => self.publish_by_client(number),
            28..36 if is_bayeux => self.publish_by_client(number),
            28..36 => self.acknowledge(number),
            36..39 if is_bayeux => {
                let message = json!({ "channel": SERVICE, "data": SERVICE_DATA });
                self.send_message(number, message, BayeuxCommand::Other, 0);
            }
            36..38 => {
                let presence = json!({ "presence": { "channel": "/even/0" } });
                self.command(number, presence, SentCommand::Other, 0);
            }
            38 => self.call(number),
            _ if self.faults_now().allows(Fault::Leave) => self.close_session(number),
            _ => {}
        }
    }

    pub(crate) fn close_session(&mut self, number: ClientNumber) {
        if self.clients[number].bayeux.is_some() {
            let message = json!({ "channel": "/meta/disconnect" });
            return self.send_message(number, message, BayeuxCommand::Other, 0);
        }
        self.command(number, json!({ "close": {} }), SentCommand::Other, 0);
    }

    /// Calls a method of the backend.
    fn call(&mut self, number: ClientNumber) {
        let data = self.next_command();
        let call = json!({ "call": { "method": "echo", "data": data } });
        self.command(number, call, SentCommand::Call(data), 0);
    }

    fn toggle_subscription(&mut self, number: ClientNumber) {
        let log = self.scenario.any_log(&mut self.rng);
        self.toggle_subscription_to(number, log, 0.3);
    }

    /// Makes some clients unsubscribe as soon as they have subscribed, and most of these subscribe again, if
    /// the channel reports joins and leaves.
    pub(super) fn hesitate(&mut self, number: ClientNumber, log: usize) {
        let rules = rules_of(&self.scenario.config, log);
        if rules.join_leave && self.is_busy() && self.rng.random_bool(0.5) {
            self.toggle_subscription_to(number, log, 1.0);
            if self.rng.random_bool(0.6) {
                self.toggle_subscription_to(number, log, 0.0);
            }
        }
    }

    /// Subscribes to a log, or unsubscribes with the probability `unsubscribes`.
    fn toggle_subscription_to(&mut self, number: ClientNumber, log: usize, unsubscribes: f64) {
        let client = &mut self.clients[number];
        // Wait for the pending request: requests may overtake each other, so the order would be unknown.
        if client.posting.is_some() {
            return;
        }
        let is_beside = !client.speaks_over_link();
        let Some(model) = &mut client.model else { return };
        let is_first = !model.has_subscribed(log);
        match &model.channels[log] {
            ChannelSubscription::Requested => {}
            ChannelSubscription::Active(_) | ChannelSubscription::AtNextMessage(_)
                if !self.rng.random_bool(unsubscribes) => {}
            ChannelSubscription::Active(_)
            | ChannelSubscription::Unknown
            | ChannelSubscription::AtNextMessage(_) => {
                model.end(log);
                client.snapshots.clear();
                let command = json!({ "unsubscribe": { "channel": name_of(log) } });
                self.command(number, command, SentCommand::Other, 0);
            }
            ChannelSubscription::Inactive => {
                // Without a WebSocket, commands are separate requests: messages from an earlier subscription to
                // this channel could not be distinguished from messages of this one. Continue from a past
                // offset only in the first subscription.
                let past = client.past[log].clone().filter(|_| !is_beside || is_first);
                let begin = match past {
                    // Use `last` only in the first subscription: in a later one, the reply does not say whether
                    // the server had already processed the unsubscribe.
                    _ if is_first && self.rng.random_bool(0.3) => {
                        StartPosition::Newest(self.rng.random_range(0..12))
                    }
                    Some((epoch, offset)) => StartPosition::After(Since { epoch: epoch.into(), offset }),
                    None => StartPosition::Now,
                };
                model.requested(log);
                client.snapshots.clear();
                let uses_alias = self.scenario.hooks.subscribe && self.rng.random_bool(0.3);
                let name = if uses_alias { alias_of(log) } else { name_of(log).to_owned() };
                let mut options = json!({ "channel": name });
                match &begin {
                    StartPosition::Now | StartPosition::Unknown(_) => {}
                    StartPosition::After(Since { epoch, offset }) => {
                        options["since"] = json!({ "epoch": epoch, "offset": offset });
                    }
                    StartPosition::Newest(count) => options["last"] = json!(count),
                }
                let subscribe = SentCommand::Subscribe(log, begin);
                self.command(number, json!({ "subscribe": options }), subscribe, 0);
            }
        }
    }

    fn publish_by_client(&mut self, number: ClientNumber) {
        let channel = self.rng.random_range(0..self.scenario.channels);
        let data: Value = serde_json::from_str(&self.next_text()).expect("generated JSON");
        let message_number = data[0].as_u64().expect("the text contains the number");
        let uses_alias = self.scenario.hooks.publish && self.rng.random_bool(0.3);
        let name = if uses_alias { alias_of(channel) } else { name_of(channel).to_owned() };
        let message = json!({ "channel": name, "data": data });
        self.client_publishes(message_number, channel);
        if self.clients[number].bayeux.is_some() {
            self.send_message(number, message, BayeuxCommand::Publish(message_number), 1 << channel);
        } else {
            let publish = SentCommand::Publish(message_number);
            self.command(number, json!({ "publish": message }), publish, 1 << channel);
        }
    }

    /// Acknowledges the last seq received, or an earlier one.
    fn acknowledge(&mut self, number: ClientNumber) {
        let client = &self.clients[number];
        let Some(model) = &client.model else { return };
        let read = client.link.as_ref().and_then(|link| link.read).unwrap_or_default();
        let is_over_link = client.speaks_over_link();
        let is_latest = self.rng.random_bool(0.8);
        let seq = match is_over_link {
            true if is_latest => read,
            true => self.rng.random_range(0..=read),
            false => model.highest - self.rng.random_range(0..=model.highest.min(2)),
        };
        let command = json!({ "ack": { "seq": seq } });
        // A client that went back to an earlier state must not acknowledge messages received after that
        // state.
        if is_over_link && seq <= model.highest {
            self.send_text(number, &command.to_string(), 0);
        } else if !is_over_link && !model.must_tell_seq {
            self.command(number, command, SentCommand::Other, 0);
        }
    }

    /// Sends a command on the WebSocket or, without one, in a separate request. `published_to` is the bit set
    /// of the channels to which the command publishes.
    fn command(&mut self, number: ClientNumber, mut command: Value, sent: SentCommand, published_to: u8) {
        let id = self.next_command();
        command["id"] = json!(id);
        let mut pending = vec![PendingCommand { id, command: sent }];
        let client = &mut self.clients[number];
        if let Some(link) = client.link.as_mut().filter(|link| link.is_websocket()) {
            link.pending_commands.extend(pending);
            return self.send_text(number, &command.to_string(), published_to);
        }
        let Some(model) = &client.model else { return };
        let target = format!("/poll?resume={}", model.resume);
        // Commands after a close are not answered.
        if command.get("close").is_none() && self.rng.random_bool(0.3) {
            let id = self.next_command();
            command = json!([command, { "id": id, "presence": { "channel": "/even/0" } }]);
            pending.push(PendingCommand { id, command: SentCommand::Other });
        }
        self.post(number, command.to_string(), PostedCommands::Json { target, pending }, published_to);
    }

    pub(super) fn send_text(&mut self, number: ClientNumber, text: &str, published_to: u8) {
        let connection = self.clients[number].link.as_ref().map(|link| link.connection);
        if let Some(connection) = connection.and_then(|connection| self.connection_mut(connection)) {
            connection.published_to |= published_to;
        }
        self.trace.log(self.now, format_args!("client {number} sends {}", text.get(..150).unwrap_or(text)));
        self.send_frame(number, TEXT, text.as_bytes());
    }

    fn pause_reading(&mut self, number: ClientNumber) {
        if self.injects(Fault::SlowReader, 1.0)
            && let Some(link) = &mut self.clients[number].link
        {
            let longest = nanos(self.scenario.config.write_timeout) * 3 / 2;
            link.paused_until = self.now + self.rng.random_range(0..longest);
        }
    }

    /// Sends invalid input. Its replies are not expected.
    fn send_invalid_input(&mut self, number: ClientNumber) {
        if !self.injects(Fault::BadInput, 1.0) {
            return;
        }
        let client = &mut self.clients[number];
        let (unknown, texts) = match &client.bayeux {
            Some(_) => ("{\"channel\":\"/meta/none\"}", ["{}", "[{},7,{\"channel\":\"/a\",\"data\":1}]"]),
            None => ("{\"no_such_command\":{}}", ["{\"ack\":{\"seq\":1000000}}", "[7]"]),
        };
        let texts = [texts[0], texts[1], "this is not JSON", "[]", ""];
        let text = texts[self.rng.random_range(0..texts.len())];
        let choice = self.rng.random_range(0..8);
        if !client.speaks_over_link() {
            let many = format!("[{unknown}{}]", format!(",{unknown}").repeat(64));
            let body = if choice == 0 { many } else { text.to_owned() };
            let commands = match &client.bayeux {
                Some(_) => PostedCommands::Bayeux(Vec::new()),
                None => {
                    let resume = client.model.as_ref().map_or("", |model| &*model.resume);
                    PostedCommands::Json { target: format!("/poll?resume={resume}"), pending: Vec::new() }
                }
            };
            return self.post(number, body, commands, 0);
        }
        let unknown = match &mut client.bayeux {
            Some(bayeux) => {
                bayeux.is_confused = true;
                format!("[{unknown}]")
            }
            None => unknown.to_owned(),
        };
        match choice {
            0 => self.send_frame(number, BINARY, b"[]"),
            1 => self.send_frame(number, TEXT, &[0xFF, 0xFE]),
            2 => self.send_bytes(number, &[0xF1, 0x00]),
            3 => (0..70).for_each(|_| self.send_frame(number, TEXT, unknown.as_bytes())),
            _ => self.send_frame(number, TEXT, text.as_bytes()),
        }
    }

    pub(super) fn inject_connection_fault(&mut self, number: ClientNumber) {
        let which = [Fault::Cut, Fault::HalfOpen, Fault::Leave, Fault::TakeOver];
        let fault = which[self.rng.random_range(0..which.len())];
        let Some(connection) = self.clients[number].link.as_ref().map(|link| link.connection) else { return };
        if !self.injects(fault, 1.0) {
            return;
        }
        self.trace.log(self.now, format_args!("client {number}: {fault:?} ({connection})"));
        match fault {
            Fault::Cut => self.cut(connection),
            Fault::HalfOpen => {
                self.wire(connection).lock().vanish();
                self.clients[number].unlink();
                self.plan_to_connect(number);
                self.consider(connection);
            }
            Fault::Leave => {
                if self.clients[number].speaks_over_link() && self.rng.random_bool(0.5) {
                    self.send_frame(number, CLOSE, &1001_u16.to_be_bytes());
                }
                self.leave_link(number);
            }
            // A take-over abandons the old connection.
            _ => {
                let ignores_input = self.rng.random_bool(0.2);
                self.connection_mut(connection).expect("an open connection").ignores_input = ignores_input;
                self.connect(number);
            }
        }
    }
}
