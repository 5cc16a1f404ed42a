//! Requests without a `/meta/connect`: handshakes, and all that may be sent beside a poll and between two.

use encke_server::simulation::{Answer, Server};
use rand::RngExt;
use serde_json::json;

use super::heard::{Heard, Reply};
use super::{Following, Opening, Page};
use crate::client::Carrier;
use crate::fault::Fault;
use crate::scenario::{MILLI, SECOND};
use crate::schedule::ClientNumber;
use crate::truth::{channel_name, text_of};
use crate::world::World;

/// What a request asks for.
#[derive(Debug)]
pub(crate) enum Asks {
    Handshake {
        id: u64,
        acknowledges: bool,
    },
    /// The logs, and for each its epoch and last message when the server answered.
    Subscribe {
        id: u64,
        logs: Vec<u8>,
        at: Vec<(String, u64)>,
    },
    Unsubscribe {
        id: u64,
        log: u8,
    },
    /// The channel of a message that changes nothing of what the client follows.
    Other {
        id: u64,
        channel: String,
        then: Option<u64>,
    },
    Nonsense,
}

impl Asks {
    /// The id and the channel of what it asks, and the id of the message behind it.
    pub(super) fn message(&self) -> Option<(u64, &str, Option<u64>)> {
        Some(match self {
            Self::Handshake { id, .. } => (*id, "/meta/handshake", None),
            Self::Subscribe { id, .. } => (*id, "/meta/subscribe", None),
            Self::Unsubscribe { id, .. } => (*id, "/meta/unsubscribe", None),
            Self::Other { id, channel, then } => (*id, &**channel, *then),
            Self::Nonsense => return None,
        })
    }

    /// The server has carried it out.
    pub(crate) fn answered(&mut self, server: &Server) {
        if let Self::Subscribe { logs, at, .. } = self {
            *at = logs.iter().map(|log| state(server, *log)).collect();
        }
    }
}

/// The epoch and the last message of a log.
fn state(server: &Server, log: u8) -> (String, u64) {
    server.channel(&channel_name(log)).map(|view| (view.epoch, view.last)).unwrap_or_default()
}

/// The session that an answer to a handshake brings.
pub(crate) fn handshaken(answer: &Answer) -> Option<String> {
    let body = std::str::from_utf8(&answer.body).ok()?;
    let token = Heard::read(body).ok()?.reply.client_id()?.to_owned();
    Some(token.split('.').next().unwrap_or_default().to_owned())
}

impl World {
    /// It does something beside a poll that is held.
    pub(in crate::client) fn act_beside_connect(&mut self, number: ClientNumber) {
        match self.clients[number as usize].rng.random_range(0..40) {
            0..2 => self.remember_page_of_bayeux(number),
            2..4 => self.pause_reading(number),
            4..7 if self.faults_now().allows(Fault::BadInput) => self.ask_nonsense(number),
            7..14 => self.trouble(number),
            _ => self.ask_something(number),
        }
    }

    /// A request of its own.
    pub(super) fn ask_something(&mut self, number: ClientNumber) {
        match self.clients[number as usize].rng.random_range(0..40) {
            0..18 => self.ask_to_follow_or_not(number),
            18..38 => self.ask_to_publish(number),
            38 => {
                let message = json!({ "channel": "/service/none", "data": 1 });
                self.ask_with_id(number, message, "/service/none");
            }
            _ if self.faults_now().allows(Fault::Leave) => {
                let message = json!({ "channel": "/meta/disconnect" });
                self.ask_with_id(number, message, "/meta/disconnect");
            }
            _ => {}
        }
    }

    pub(super) fn ask_for_handshake(&mut self, number: ClientNumber) {
        if let Some((Opening { id, acknowledges }, body)) = self.next_handshake(number) {
            self.ask_by_request(number, body, Asks::Handshake { id, acknowledges }, 0);
        }
    }

    pub(super) fn next_handshake(&mut self, number: ClientNumber) -> Option<(Opening, String)> {
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
        Some((Opening { id, acknowledges }, body.to_string()))
    }

    /// On its WebSocket, or in a request of its own: then nothing else is under way.
    fn ask(&mut self, number: ClientNumber, body: String, asks: Asks, published_to: u8) {
        let client = &mut self.clients[number as usize];
        let Some(bayeux) = &client.bayeux else { return };
        let has_socket = client.link.as_ref().is_some_and(|link| link.carrier == Carrier::BayeuxSocket);
        if has_socket && (!bayeux.expected.is_empty() || client.rng.random_bool(0.8)) {
            self.ask_on_socket(number, body, asks, published_to);
        } else {
            self.ask_by_request(number, body, asks, published_to);
        }
    }

    fn ask_to_follow_or_not(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number as usize];
        if client.posting.is_some() {
            return;
        }
        let Some(bayeux) = &mut client.bayeux else { return };
        let id = bayeux.next_id();
        let Some(page) = &mut bayeux.page else { return };
        let first = self.scenario.any_log(&mut client.rng);
        bayeux.snapshots.clear();
        match page.following(first) {
            Following::No => {
                let second = self.scenario.any_log(&mut client.rng);
                let mut logs = vec![first];
                let is_free = second != first && matches!(page.following(second), Following::No);
                if is_free && client.rng.random_bool(0.3) {
                    logs.push(second);
                }
                for log in &logs {
                    let (epoch, last) = state(&self.server, *log);
                    page.ask_for(*log, epoch, last);
                }
                let names: Vec<_> = logs.iter().map(|log| channel_name(*log)).collect();
                let body = message(page, id, "/meta/subscribe", "subscription", &json!(names));
                self.ask(number, body, Asks::Subscribe { id, logs, at: Vec::new() }, 0);
            }
            Following::Asked(..) => {}
            _ if client.rng.random_bool(0.7) => {}
            following => {
                *following = Following::Unknown;
                let name = json!(channel_name(first));
                let body = message(page, id, "/meta/unsubscribe", "subscription", &name);
                self.ask(number, body, Asks::Unsubscribe { id, log: first }, 0);
            }
        }
    }

    fn ask_to_publish(&mut self, number: ClientNumber) {
        let channel = self.clients[number as usize].rng.random_range(0..self.scenario.channels);
        let length = self.clients[number as usize].rng.random_range(0..self.scenario.longest_message);
        let data = text_of(self.next_message(), length);
        let data: serde_json::Value = serde_json::from_str(&data).expect("our own text");
        let name = channel_name(channel);
        self.ask_in_array(number, &json!({ "channel": name, "data": data }), &name, 1 << channel);
    }

    fn ask_with_id(&mut self, number: ClientNumber, message: serde_json::Value, channel: &str) {
        self.ask_in_array(number, &message, channel, 0);
    }

    /// A message in a request, alone or before one that no server knows.
    fn ask_in_array(
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
        let Some(page) = &bayeux.page else { return };
        let mut message = message.clone();
        message["id"] = json!(id.to_string());
        message["clientId"] = json!(page.token);
        let body = match then {
            None => message.to_string(),
            Some(then) => {
                json!([message, { "channel": "/meta/none", "id": then.to_string(), "clientId": page.token }])
                    .to_string()
            }
        };
        let asks = Asks::Other { id, channel: channel.to_owned(), then };
        self.ask(number, body, asks, published_to);
    }

    fn ask_nonsense(&mut self, number: ClientNumber) {
        self.fault_counts.count(Fault::BadInput);
        let many = format!("[{}{{}}]", "{},".repeat(64));
        let bodies = ["this is not JSON", "[]", "[7]", "{}", "{\"channel\":\"/a\",\"data\":1}", &many, ""];
        let client = &mut self.clients[number as usize];
        let body = bodies[client.rng.random_range(0..bodies.len())].to_owned();
        self.ask_by_request(number, body, Asks::Nonsense, 0);
    }

    /// The client reads the answer to a request without a connect.
    pub(in crate::client) fn hear_replies_of_bayeux(
        &mut self,
        number: ClientNumber,
        session: &str,
        asks: Asks,
        status: u16,
        body: &str,
    ) {
        if let Asks::Nonsense = asks {
            if !matches!(status, 200 | 400 | 413) {
                self.violate("replies", format!("client {number} is answered {status}: {body}"));
            }
            return;
        }
        let heard = match Heard::read(body) {
            Ok(heard) if status == 200 && heard.events.is_empty() => heard,
            heard => return self.violate("replies", format!("client {number}: {status}, {heard:?}")),
        };
        let (first, second) = match heard.before.first() {
            Some(first) => (first, Some(&heard.reply)),
            None => (&heard.reply, None),
        };
        let Some((id, channel, then)) = asks.message() else { return };
        let is_whole = then.is_some() == second.is_some()
            && then.zip(second).is_none_or(|(id, reply)| reply.is_to("/meta/none", id));
        if !first.is_to(channel, id) || !is_whole || heard.before.len() > 1 {
            return self.violate("replies", format!("client {number} asked {asks:?}, and reads {body}"));
        }
        self.hear_reply_of_bayeux(number, session, asks, first);
    }

    pub(super) fn hear_reply_of_bayeux(
        &mut self,
        number: ClientNumber,
        session: &str,
        asks: Asks,
        reply: &Reply,
    ) {
        if let Asks::Handshake { acknowledges, .. } = asks {
            if self.clients[number as usize].link.is_some() {
                // It has opened a WebSocket meanwhile.
                return;
            }
            return self.hear_handshake(number, acknowledges, reply);
        }
        if reply.code() == Some("402") {
            self.check_session_may_be_lost(session, false);
        }
        let Some(bayeux) = &mut self.clients[number as usize].bayeux else { return };
        let Some(page) = bayeux.page.as_mut().filter(|page| page.session == session) else { return };
        match asks {
            Asks::Subscribe { logs, at, .. } => {
                for (log, (epoch, last)) in logs.into_iter().zip(at) {
                    if reply.successful() {
                        page.subscribed(log, &epoch, last);
                    } else {
                        *page.following(log) = Following::No;
                    }
                }
            }
            Asks::Unsubscribe { log, .. } if reply.successful() => page.unsubscribed(log),
            Asks::Other { channel, .. } if channel == "/meta/disconnect" && reply.successful() => {
                bayeux.forget_session();
                self.lose_link(number);
                self.plan_to_connect(number);
            }
            Asks::Other { channel, .. } if channel == "/service/none" && reply.successful() => {
                self.violate("replies", format!("client {number}: nothing takes {channel}"));
            }
            _ => {}
        }
    }

    pub(super) fn hear_handshake(&mut self, number: ClientNumber, acknowledges: bool, reply: &Reply) {
        let Some(bayeux) = &mut self.clients[number as usize].bayeux else { return };
        match reply.client_id().filter(|_| reply.successful()) {
            Some(token) => {
                bayeux.snapshots.clear();
                bayeux.page = Some(Page::new(token, acknowledges));
                self.plan_to_act(number, MILLI);
            }
            // Overloaded or draining.
            None if reply.code() == Some("503") => self.plan_to_act(number, SECOND),
            None => self.violate("replies", format!("client {number} reads {reply}")),
        }
    }
}

/// A message of a session, with one field more.
fn message(page: &Page, id: u64, channel: &str, field: &str, value: &serde_json::Value) -> String {
    json!({ "channel": channel, "id": id.to_string(), "clientId": page.token, field: value }).to_string()
}
