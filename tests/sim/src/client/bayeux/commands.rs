//! Commands other than `/meta/connect`: handshakes, and messages sent while a poll is held or between polls.

use encke_server::testing::simulation::{HttpResponse, SimulatedServer};
use rand::RngExt;
use serde_json::json;

use super::answer::{BayeuxAnswer, BayeuxReply};
use super::{BayeuxSessionModel, BayeuxSubscription, PendingHandshake};
use crate::client::Carrier;
use crate::fault::Fault;
use crate::scenario::{MILLI, SECOND};
use crate::schedule::ClientNumber;
use crate::truth::{channel_name, text_of};
use crate::world::Simulation;

/// A command, with the data needed to check its reply.
#[derive(Debug)]
pub(crate) enum BayeuxCommand {
    Handshake {
        id: u64,
        acknowledges: bool,
    },
    /// Subscribes to `logs`. `at` holds the epoch and last offset of each when the server answered.
    Subscribe {
        id: u64,
        logs: Vec<u8>,
        at: Vec<(String, u64)>,
    },
    Unsubscribe {
        id: u64,
        log: u8,
    },
    /// Sends a message that does not change subscriptions. `then` is the id of a second message in the same
    /// request.
    Other {
        id: u64,
        channel: String,
        then: Option<u64>,
    },
    Nonsense,
}

impl BayeuxCommand {
    /// Returns the id and channel of the message, and the id of the message that follows it in the same
    /// request.
    pub(super) fn message(&self) -> Option<(u64, &str, Option<u64>)> {
        Some(match self {
            Self::Handshake { id, .. } => (*id, "/meta/handshake", None),
            Self::Subscribe { id, .. } => (*id, "/meta/subscribe", None),
            Self::Unsubscribe { id, .. } => (*id, "/meta/unsubscribe", None),
            Self::Other { id, channel, then } => (*id, &**channel, *then),
            Self::Nonsense => return None,
        })
    }

    /// Records the state of the logs once the server has executed the command.
    pub(crate) fn answered(&mut self, server: &SimulatedServer) {
        if let Self::Subscribe { logs, at, .. } = self {
            *at = logs.iter().map(|log| state(server, *log)).collect();
        }
    }
}

/// Returns the epoch and last offset of a log.
fn state(server: &SimulatedServer, log: u8) -> (String, u64) {
    server.channel(&channel_name(log)).map(|view| (view.epoch, view.last)).unwrap_or_default()
}

/// Returns the id of the session that a handshake opened, parsed from the response.
pub(crate) fn session_of_handshake(answer: &HttpResponse) -> Option<String> {
    let body = std::str::from_utf8(&answer.body).ok()?;
    let token = BayeuxAnswer::read(body).ok()?.reply.client_id()?.to_owned();
    Some(token.split('.').next().unwrap_or_default().to_owned())
}

impl Simulation {
    /// Performs a random action while a `/meta/connect` is held.
    pub(in crate::client) fn act_beside_connect(&mut self, number: ClientNumber) {
        match self.clients[number as usize].rng.random_range(0..40) {
            0..2 => self.save_bayeux_snapshot(number),
            2..4 => self.pause_reading(number),
            4..7 if self.faults_now().allows(Fault::BadInput) => self.send_invalid_request(number),
            7..14 => self.inject_connection_fault(number),
            _ => self.send_random_command(number),
        }
    }

    pub(super) fn send_random_command(&mut self, number: ClientNumber) {
        match self.clients[number as usize].rng.random_range(0..40) {
            0..18 => self.toggle_subscription_by_bayeux(number),
            18..38 => self.publish_by_bayeux(number),
            38 => {
                let message = json!({ "channel": "/service/none", "data": 1 });
                self.send_message_without_effect(number, message, "/service/none");
            }
            _ if self.faults_now().allows(Fault::Leave) => {
                let message = json!({ "channel": "/meta/disconnect" });
                self.send_message_without_effect(number, message, "/meta/disconnect");
            }
            _ => {}
        }
    }

    pub(super) fn request_handshake(&mut self, number: ClientNumber) {
        if let Some((PendingHandshake { id, acknowledges }, body)) = self.next_handshake(number) {
            self.send_by_request(number, body, BayeuxCommand::Handshake { id, acknowledges }, 0);
        }
    }

    pub(super) fn next_handshake(&mut self, number: ClientNumber) -> Option<(PendingHandshake, String)> {
        let client = &mut self.clients[number as usize];
        let acknowledges = client.rng.random_bool(0.6);
        let id = client.bayeux.as_mut()?.next_id();
        let body = json!([{
            "channel": "/meta/handshake",
            "id": id.to_string(),
            "version": "1.0",
            "supportedConnectionTypes": ["long-polling", "websocket"],
            "ext": { "ack": acknowledges },
        }]);
        Some((PendingHandshake { id, acknowledges }, body.to_string()))
    }

    /// Sends a command on the WebSocket or, if no reply is expected on it, sometimes in a separate request.
    fn send_command(&mut self, number: ClientNumber, body: String, command: BayeuxCommand, published_to: u8) {
        let client = &mut self.clients[number as usize];
        let Some(bayeux) = &client.bayeux else { return };
        let has_socket = client.link.as_ref().is_some_and(|link| link.carrier == Carrier::BayeuxSocket);
        if has_socket && (!bayeux.expected.is_empty() || client.rng.random_bool(0.8)) {
            self.send_on_socket(number, body, command, published_to);
        } else {
            self.send_by_request(number, body, command, published_to);
        }
    }

    fn toggle_subscription_by_bayeux(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number as usize];
        if client.posting.is_some() {
            return;
        }
        let Some(bayeux) = &mut client.bayeux else { return };
        let id = bayeux.next_id();
        let Some(model) = &mut bayeux.model else { return };
        let first = self.scenario.any_log(&mut client.rng);
        bayeux.snapshots.clear();
        match model.subscription(first) {
            BayeuxSubscription::Inactive => {
                let second = self.scenario.any_log(&mut client.rng);
                let mut logs = vec![first];
                let is_free =
                    second != first && matches!(model.subscription(second), BayeuxSubscription::Inactive);
                if is_free && client.rng.random_bool(0.3) {
                    logs.push(second);
                }
                for log in &logs {
                    let (epoch, last) = state(&self.server, *log);
                    model.requested(*log, epoch, last);
                }
                let names: Vec<_> = logs.iter().map(|log| channel_name(*log)).collect();
                let body = message(model, id, "/meta/subscribe", "subscription", &json!(names));
                self.send_command(number, body, BayeuxCommand::Subscribe { id, logs, at: Vec::new() }, 0);
            }
            BayeuxSubscription::Requested(..) => {}
            _ if client.rng.random_bool(0.7) => {}
            subscription => {
                *subscription = BayeuxSubscription::Unknown;
                let name = json!(channel_name(first));
                let body = message(model, id, "/meta/unsubscribe", "subscription", &name);
                self.send_command(number, body, BayeuxCommand::Unsubscribe { id, log: first }, 0);
            }
        }
    }

    fn publish_by_bayeux(&mut self, number: ClientNumber) {
        let channel = self.clients[number as usize].rng.random_range(0..self.scenario.channels);
        let length = self.clients[number as usize].rng.random_range(0..self.scenario.max_message_bytes);
        let data = text_of(self.next_message(), length);
        let data: serde_json::Value = serde_json::from_str(&data).expect("generated JSON");
        let name = channel_name(channel);
        self.send_in_array(number, &json!({ "channel": name, "data": data }), &name, 1 << channel);
    }

    fn send_message_without_effect(
        &mut self,
        number: ClientNumber,
        message: serde_json::Value,
        channel: &str,
    ) {
        self.send_in_array(number, &message, channel, 0);
    }

    /// Sends a message, alone or in an array with a second message to an unknown channel.
    fn send_in_array(
        &mut self,
        number: ClientNumber,
        message: &serde_json::Value,
        channel: &str,
        published_to: u8,
    ) {
        let client = &mut self.clients[number as usize];
        if client.posting.is_some() {
            return;
        }
        let is_array = client.rng.random_bool(0.3);
        let Some(bayeux) = &mut client.bayeux else { return };
        let (id, then) = (bayeux.next_id(), is_array.then(|| bayeux.next_id()));
        let Some(model) = &bayeux.model else { return };
        let mut message = message.clone();
        message["id"] = json!(id.to_string());
        message["clientId"] = json!(model.token);
        let body = match then {
            None => message.to_string(),
            Some(then) => {
                json!([message, { "channel": "/meta/none", "id": then.to_string(), "clientId": model.token }])
                    .to_string()
            }
        };
        let command = BayeuxCommand::Other { id, channel: channel.to_owned(), then };
        self.send_command(number, body, command, published_to);
    }

    fn send_invalid_request(&mut self, number: ClientNumber) {
        self.fault_counts.count(Fault::BadInput);
        let many = format!("[{}{{}}]", "{},".repeat(64));
        let bodies = ["this is not JSON", "[]", "[7]", "{}", "{\"channel\":\"/a\",\"data\":1}", &many, ""];
        let client = &mut self.clients[number as usize];
        let body = bodies[client.rng.random_range(0..bodies.len())].to_owned();
        self.send_by_request(number, body, BayeuxCommand::Nonsense, 0);
    }

    /// Processes the response to a request that contains no `/meta/connect`.
    pub(in crate::client) fn receive_bayeux_answer(
        &mut self,
        number: ClientNumber,
        session: &str,
        command: BayeuxCommand,
        status: u16,
        body: &str,
    ) {
        if let BayeuxCommand::Nonsense = command {
            if !matches!(status, 200 | 400 | 413) {
                self.violate("replies", format!("client {number} is answered {status}: {body}"));
            }
            return;
        }
        let answer = match BayeuxAnswer::read(body) {
            Ok(answer) if status == 200 && answer.events.is_empty() => answer,
            answer => return self.violate("replies", format!("client {number}: {status}, {answer:?}")),
        };
        let (first, second) = match answer.before.first() {
            Some(first) => (first, Some(&answer.reply)),
            None => (&answer.reply, None),
        };
        let Some((id, channel, then)) = command.message() else { return };
        let is_complete = then.is_some() == second.is_some()
            && then.zip(second).is_none_or(|(id, reply)| reply.is_to("/meta/none", id));
        if !first.is_to(channel, id) || !is_complete || answer.before.len() > 1 {
            return self.violate("replies", format!("client {number} sent {command:?}, but reads {body}"));
        }
        self.receive_bayeux_reply(number, session, command, first);
    }

    pub(super) fn receive_bayeux_reply(
        &mut self,
        number: ClientNumber,
        session: &str,
        command: BayeuxCommand,
        reply: &BayeuxReply,
    ) {
        if let BayeuxCommand::Handshake { acknowledges, .. } = command {
            if self.clients[number as usize].link.is_some() {
                // The client has opened a WebSocket in the meantime.
                return;
            }
            return self.receive_handshake(number, acknowledges, reply);
        }
        if reply.code() == Some("402") {
            self.check_session_may_be_lost(session, false);
        }
        let Some(bayeux) = &mut self.clients[number as usize].bayeux else { return };
        let Some(model) = bayeux.model.as_mut().filter(|model| model.session == session) else { return };
        match command {
            BayeuxCommand::Subscribe { logs, at, .. } => {
                for (log, (epoch, last)) in logs.into_iter().zip(at) {
                    if reply.successful() {
                        model.subscribed(log, &epoch, last);
                    } else {
                        *model.subscription(log) = BayeuxSubscription::Inactive;
                    }
                }
            }
            BayeuxCommand::Unsubscribe { log, .. } if reply.successful() => model.unsubscribed(log),
            BayeuxCommand::Other { channel, .. } if channel == "/meta/disconnect" && reply.successful() => {
                bayeux.forget_session();
                self.lose_link(number);
                self.plan_to_connect(number);
            }
            BayeuxCommand::Other { channel, .. } if channel == "/service/none" && reply.successful() => {
                self.violate("replies", format!("client {number}: no handler accepts {channel}"));
            }
            _ => {}
        }
    }

    pub(super) fn receive_handshake(
        &mut self,
        number: ClientNumber,
        acknowledges: bool,
        reply: &BayeuxReply,
    ) {
        let Some(bayeux) = &mut self.clients[number as usize].bayeux else { return };
        match reply.client_id().filter(|_| reply.successful()) {
            Some(token) => {
                bayeux.snapshots.clear();
                bayeux.model = Some(BayeuxSessionModel::new(token, acknowledges));
                self.plan_to_act(number, MILLI);
            }
            // The server is overloaded or draining.
            None if reply.code() == Some("503") => self.plan_to_act(number, SECOND),
            None => self.violate("replies", format!("client {number} reads {reply}")),
        }
    }
}

/// Serializes a message of a session with one additional field.
fn message(
    model: &BayeuxSessionModel,
    id: u64,
    channel: &str,
    field: &str,
    value: &serde_json::Value,
) -> String {
    json!({ "channel": channel, "id": id.to_string(), "clientId": model.token, field: value }).to_string()
}
