//! Commands other than `/meta/connect`: handshakes, and messages sent while a poll is held or between polls.

use encke_server::testing::simulation::{HttpResponse, SimulatedServer};
use rand::RngExt;
use serde_json::{Value, json};

use super::answer::{self, BayeuxReply, SERVICE};
use super::{BayeuxSessionModel, BayeuxSubscription};
use crate::client::Carrier;
use crate::client::posts::PostedCommands;
use crate::scenario::{MILLI, SECOND};
use crate::schedule::ClientNumber;
use crate::truth::name_of;
use crate::world::Simulation;

/// A reply that the client expects, with the command to which it is the reply.
#[derive(Debug)]
pub(crate) struct ExpectedReply {
    pub(super) session: String,
    pub(super) id: u64,
    pub(super) channel: String,
    pub(crate) command: BayeuxCommand,
}

/// A command, with the data needed to check its reply.
#[derive(Debug)]
pub(crate) enum BayeuxCommand {
    Handshake {
        acknowledges: bool,
    },
    /// Subscribes to `logs`. `at` holds the epoch and last offset of each when the server answered.
    Subscribe {
        logs: Vec<usize>,
        at: Vec<(String, u64)>,
    },
    Unsubscribe(usize),
    /// Publishes the message with this number.
    Publish(u64),
    /// A message that does not change subscriptions.
    Other,
}

impl BayeuxCommand {
    /// Records the state of the logs once the server has executed the command.
    pub(crate) fn answered(&mut self, server: &SimulatedServer) {
        if let Self::Subscribe { logs, at } = self {
            *at = logs.iter().map(|log| state(server, *log)).collect();
        }
    }
}

impl ExpectedReply {
    pub(super) fn is_answered_by(&self, reply: &BayeuxReply) -> bool {
        reply.is_to(&self.channel, self.id)
    }
}

fn state(server: &SimulatedServer, log: usize) -> (String, u64) {
    server.channel(name_of(log)).map(|view| (view.epoch, view.last)).unwrap_or_default()
}

/// Returns the id of the session that a handshake opened, parsed from the response.
pub(crate) fn session_of_handshake(answer: &HttpResponse) -> Option<String> {
    let (_, replies) = answer::read(std::str::from_utf8(&answer.body).ok()?).ok()?;
    Some(replies.last()?.client_id()?.split('.').next()?.to_owned())
}

impl Simulation {
    pub(super) fn next_handshake(&mut self) -> (ExpectedReply, String) {
        let (id, acknowledges) = (self.next_command(), self.rng.random_bool(0.6));
        let body = json!([{
            "channel": "/meta/handshake",
            "id": id.to_string(),
            "version": "1.0",
            "supportedConnectionTypes": ["long-polling", "websocket"],
            "ext": { "ack": acknowledges },
        }]);
        let (channel, command) = ("/meta/handshake".to_owned(), BayeuxCommand::Handshake { acknowledges });
        (ExpectedReply { session: String::new(), id, channel, command }, body.to_string())
    }

    pub(crate) fn toggle_bayeux_subscription(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number];
        let Some(bayeux) = client.bayeux.as_mut().filter(|_| client.posting.is_none()) else { return };
        let Some(model) = &mut bayeux.model else { return };
        let (first, second) = (self.scenario.any_log(&mut self.rng), self.scenario.any_log(&mut self.rng));
        bayeux.snapshots.clear();
        let is_inactive = |log: usize| matches!(model.logs[log], BayeuxSubscription::Inactive);
        match model.logs[first] {
            BayeuxSubscription::Inactive => {
                let mut logs = vec![first];
                if second != first && is_inactive(second) && self.rng.random_bool(0.3) {
                    logs.push(second);
                }
                for log in &logs {
                    let (epoch, last) = state(&self.server, *log);
                    model.requested(*log, epoch, last);
                }
                let names: Vec<_> = logs.iter().map(|log| name_of(*log)).collect();
                let message = json!({ "channel": "/meta/subscribe", "subscription": names });
                self.send_message(number, message, BayeuxCommand::Subscribe { logs, at: Vec::new() }, 0);
            }
            BayeuxSubscription::Requested(..) => {}
            _ if self.rng.random_bool(0.7) => {}
            _ => {
                if !matches!(model.logs[first], BayeuxSubscription::Uncertain) {
                    model.logs[first] = BayeuxSubscription::Unknown;
                }
                let message = json!({ "channel": "/meta/unsubscribe", "subscription": name_of(first) });
                self.send_message(number, message, BayeuxCommand::Unsubscribe(first), 0);
            }
        }
    }

    /// Sends a message, alone or in an array with a second message to an unknown channel. Uses the WebSocket
    /// or, if no reply is expected on it, sometimes a separate request.
    pub(crate) fn send_message(
        &mut self,
        number: ClientNumber,
        message: Value,
        command: BayeuxCommand,
        published_to: u8,
    ) {
        let mut messages = vec![(message, command)];
        if self.rng.random_bool(0.3) {
            messages.push((json!({ "channel": "/meta/none" }), BayeuxCommand::Other));
        }
        let ids: Vec<u64> = messages.iter().map(|_| self.next_command()).collect();
        let client = &mut self.clients[number];
        let Some(bayeux) = client.bayeux.as_mut().filter(|_| client.posting.is_none()) else { return };
        let Some(model) = &bayeux.model else { return };
        let (mut body, mut expected) = (Vec::new(), Vec::new());
        for ((mut message, command), id) in messages.into_iter().zip(ids) {
            message["id"] = json!(id.to_string());
            message["clientId"] = json!(model.token);
            let channel = message["channel"].as_str().unwrap_or_default().to_owned();
            expected.push(ExpectedReply { session: model.session.clone(), id, channel, command });
            body.push(message);
        }
        let body = if let [message] = &*body { message.to_string() } else { json!(body).to_string() };
        let has_socket = client.link.as_ref().is_some_and(|link| link.carrier == Carrier::BayeuxSocket);
        if has_socket && (!bayeux.expected.is_empty() || self.rng.random_bool(0.8)) {
            bayeux.expected.extend(expected);
            self.send_text(number, &body, published_to);
        } else {
            self.post(number, body, PostedCommands::Bayeux(expected), published_to);
        }
    }

    /// Processes the response to a request that contains no `/meta/connect`.
    pub(crate) fn receive_bayeux_answer(
        &mut self,
        number: ClientNumber,
        expected: Vec<ExpectedReply>,
        body: &str,
    ) {
        let replies = match answer::read(body) {
            Ok((messages, replies)) if messages.is_empty() && replies.len() == expected.len() => replies,
            _ => {
                return self
                    .violate("replies", format!("client {number} sent {expected:?}, but reads {body}"));
            }
        };
        for (expected, reply) in expected.into_iter().zip(replies) {
            if !expected.is_answered_by(&reply) {
                return self
                    .violate("replies", format!("client {number} sent {expected:?}, but reads {body}"));
            }
            self.receive_bayeux_reply(number, expected, &reply);
        }
    }

    pub(super) fn receive_bayeux_reply(
        &mut self,
        number: ClientNumber,
        expected: ExpectedReply,
        reply: &BayeuxReply,
    ) {
        let ExpectedReply { session, channel, command, .. } = expected;
        let client = &self.clients[number];
        match command {
            // The client has opened a WebSocket in the meantime.
            BayeuxCommand::Handshake { .. } if client.link.is_some() => return,
            BayeuxCommand::Handshake { acknowledges } => {
                return self.receive_handshake(number, acknowledges, reply);
            }
            BayeuxCommand::Publish(number) => self.publish_answered(number, reply.successful()),
            _ => {}
        }
        if reply.code() == Some("402") {
            self.check_session_may_be_lost(&session, false);
        }
        let (has_calls, is_shutting_down) = (self.scenario.hooks.call, self.is_shutting_down());
        let Some(bayeux) = &mut self.clients[number].bayeux else { return };
        let Some(model) = bayeux.model.as_mut().filter(|model| model.session == session) else { return };
        match command {
            BayeuxCommand::Subscribe { logs, at } => {
                for (log, (epoch, last)) in logs.into_iter().zip(at) {
                    if reply.successful() {
                        model.logs[log].subscribed(epoch, last);
                    } else if is_shutting_down {
                        // A session that has moved keeps what an incomplete subscribe has begun.
                        model.logs[log] = BayeuxSubscription::Unknown;
                    } else {
                        model.logs[log] = BayeuxSubscription::Inactive;
                    }
                }
            }
            BayeuxCommand::Unsubscribe(log) if reply.successful() => model.logs[log].unsubscribed(),
            BayeuxCommand::Other if channel == "/meta/disconnect" && reply.successful() => {
                bayeux.forget_session();
                self.leave_link(number);
            }
            BayeuxCommand::Other if channel == SERVICE && reply.successful() && !has_calls => {
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
        let Some(bayeux) = &mut self.clients[number].bayeux else { return };
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
