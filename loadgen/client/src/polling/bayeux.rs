//! Bayeux 1.0, the protocol of CometD and Faye, over long-polling or WebSocket.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::bayeux_response::{BayeuxResponse, MetaReply, parse_response};
use super::dialect::{Dialect, Inbox, OK};
use crate::event::QueuedEvent;
use crate::target::UrlScheme;
use crate::transport::websocket::ConnectionEnd;
use crate::transport::{Endpoint, Request};
use crate::{ClientFailure, Greeting, Ticket};

/// Error number in a reply to a client that the server does not know, or no longer knows.
const UNKNOWN_CLIENT: u16 = 402;
/// Acknowledgement that CometD clients send until they have received a batch.
const INITIAL_ACK: &str = "-1";

#[derive(Debug)]
pub(crate) struct BayeuxDialect {
    endpoint: Arc<Endpoint>,
    connection_type: &'static str,
    /// Client id, as JSON. `None` before the handshake.
    client_id: Option<Box<str>>,
    /// Number of the last batch received, as the server sent it. `None` without the acknowledgement
    /// extension.
    ack: Option<Box<str>>,
    /// Session to resume, with a connect that is answered immediately. `None` once it has been resumed, or the
    /// server does not know it.
    resume: Option<Ticket>,
    /// Delay between connects, as advised by the server.
    interval_ms: u64,
    /// Whether the first connect has been sent. The client asks for an immediate answer to that connect,
    /// because only such an answer contains all advice.
    has_connected: bool,
    /// Whether the server is expected to hold the last connect.
    is_held: bool,
}

impl BayeuxDialect {
    pub(crate) fn new(endpoint: &Arc<Endpoint>, resume: Option<&Ticket>, acknowledges: bool) -> Self {
        let last_id = resume.and_then(|ticket| ticket.last_id.clone());
        Self {
            endpoint: Arc::clone(endpoint),
            connection_type: match endpoint.url.scheme() {
                UrlScheme::Http => "long-polling",
                UrlScheme::Ws => "websocket",
            },
            client_id: resume.map(|ticket| quoted(&ticket.token)),
            ack: acknowledges.then(|| last_id.unwrap_or_else(|| INITIAL_ACK.into())),
            resume: resume.cloned(),
            interval_ms: 0,
            has_connected: false,
            is_held: false,
        }
    }

    fn request(&self, body: String) -> Request {
        Request { method: "POST", path: self.endpoint.url.path_with(""), body }
    }

    fn handshake(&self) -> String {
        let ext = if self.ack.is_some() { r#","ext":{"ack":true}"# } else { "" };
        let kind = self.connection_type;
        format!(
            r#"[{{"channel":"/meta/handshake","id":"h","version":"1.0","minimumVersion":"1.0","supportedConnectionTypes":["{kind}"]{ext}}}]"#
        )
    }

    fn connect(&mut self, client_id: &str) -> String {
        self.is_held = self.has_connected;
        self.has_connected = true;
        let advice = if self.is_held { "" } else { r#","advice":{"timeout":0}"# };
        let ext = self.ack.as_ref().map_or_else(String::new, |ack| format!(r#","ext":{{"ack":{ack}}}"#));
        let kind = self.connection_type;
        format!(
            r#"[{{"channel":"/meta/connect","id":"c","clientId":{client_id},"connectionType":"{kind}"{advice}{ext}}}]"#
        )
    }

    /// Returns the client id, as JSON. Only sessions that are open send commands.
    fn client_id(&self) -> &str {
        self.client_id.as_deref().unwrap_or("null")
    }

    fn on_handshake(&mut self, reply: MetaReply) -> Result<Greeting, ClientFailure> {
        if !reply.successful {
            return Err(ClientFailure::SessionRefused(reply.error));
        }
        if self.ack.is_some() && !reply.acknowledges() {
            let why = "the server does not support the acknowledgement extension";
            return Err(ClientFailure::SessionRefused(why.to_owned()));
        }
        let client_id = reply.client_id.ok_or(ClientFailure::NoHello)?;
        self.client_id = Some(quoted(&client_id));
        self.ack = self.ack.take().map(|_| INITIAL_ACK.into());
        self.interval_ms = reply.advice.interval.unwrap_or_default();
        self.has_connected = false;
        Ok(Greeting {
            ticket: Ticket { token: client_id.into(), ..Ticket::default() },
            poll_hold: Duration::from_millis(reply.advice.timeout.unwrap_or_default()),
            ..Greeting::default()
        })
    }

    /// Processes the reply to a connect. `is_empty`: no messages came with it.
    fn on_connect(
        &mut self,
        connect: &MetaReply,
        is_empty: bool,
        polled_for: Duration,
        inbox: &mut Inbox,
    ) -> Result<(), ConnectionEnd> {
        let resumed = self.resume.take();
        match connect.refusal() {
            Some(ConnectionEnd::Status(UNKNOWN_CLIENT)) if resumed.is_some() => {
                self.client_id = None;
                return Ok(());
            }
            Some(end) => return Err(end),
            None => {}
        }
        self.interval_ms = connect.advice.interval.unwrap_or(self.interval_ms);
        if let (Some(ack), Some(batch)) = (&mut self.ack, connect.batch()) {
            *ack = batch.into();
            inbox.events.push(QueuedEvent::Id(batch.to_owned()));
        }
        if is_empty && self.is_held && !connect.advice.multiple_clients {
            inbox.events.push(QueuedEvent::EmptyPoll(polled_for));
        }
        inbox.opened = resumed.map(|ticket| Ok(Greeting::resumed(ticket)));
        Ok(())
    }
}

fn quoted(text: &str) -> Box<str> {
    Value::from(text).to_string().into()
}

impl Dialect for BayeuxDialect {
    fn poll(&mut self) -> Request {
        let body = match self.client_id.clone() {
            Some(client_id) => self.connect(&client_id),
            None => self.handshake(),
        };
        self.request(body)
    }

    fn commands(&self, commands: &[String]) -> Request {
        self.request(format!("[{}]", commands.join(",")))
    }

    fn subscribe(&self, channel: &str) -> String {
        let (client_id, channel) = (self.client_id(), quoted(channel));
        format!(r#"{{"channel":"/meta/subscribe","id":"s","clientId":{client_id},"subscription":{channel}}}"#)
    }

    fn publish(&self, id: u64, channel: &str, data: &str) -> String {
        let (client_id, channel) = (self.client_id(), quoted(channel));
        format!(r#"{{"channel":{channel},"id":"{id}","clientId":{client_id},"data":{data}}}"#)
    }

    fn close_command(&self) -> String {
        format!(r#"{{"channel":"/meta/disconnect","id":"d","clientId":{}}}"#, self.client_id())
    }

    fn on_response(
        &mut self,
        status: u16,
        body: &[u8],
        polled_for: Option<Duration>,
        inbox: &mut Inbox,
    ) -> Result<bool, ConnectionEnd> {
        if status != OK {
            return Err(ConnectionEnd::Status(status));
        }
        let BayeuxResponse { texts, connect, handshake } = parse_response(body)?;
        let is_empty = texts.is_empty();
        texts.into_iter().for_each(|text| inbox.events.push(QueuedEvent::Text(text)));
        // Some servers deliver messages in the responses to commands.
        let Some(polled_for) = polled_for else { return Ok(false) };
        match (&self.client_id, connect, handshake) {
            (Some(_), Some(connect), _) => self.on_connect(&connect, is_empty, polled_for, inbox)?,
            (None, _, Some(handshake)) => inbox.opened = Some(self.on_handshake(handshake)),
            // Over WebSocket, the reply may follow in another frame.
            _ if self.endpoint.url.scheme() == UrlScheme::Ws => return Ok(false),
            (None, ..) => inbox.opened = Some(Err(ClientFailure::NoHello)),
            _ if self.resume.is_some() => inbox.opened = Some(Err(ClientFailure::NoHello)),
            _ => {}
        }
        Ok(true)
    }

    fn poll_delay(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }
}
