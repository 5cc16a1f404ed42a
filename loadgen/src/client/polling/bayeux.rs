//! Bayeux 1.0 over long-polling: the protocol of CometD and Faye.

use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpStream;

use super::bayeux_response::{BayeuxResponse, parse_response};
use super::{Dialect, LongPoll, ReceivedItem, ReceivedItems};
use crate::client::{ClientFailure, Greeting, Ticket};
use crate::target::ServerUrl;
use crate::transport::websocket::ConnectionEnd;
use crate::transport::{CompleteResponse, ConnectError, HttpClient};

const OK: u16 = 200;
/// Error number in a reply to a client that the server does not know, or no longer knows.
const UNKNOWN_CLIENT: u16 = 402;

/// State of a session, shared by its requests.
#[derive(Debug)]
pub(in crate::client) struct BayeuxPolls {
    url: Rc<ServerUrl>,
    connection_type: &'static str,
    /// Header lines for the token, if there is one.
    headers: Box<str>,
    /// Client id, as JSON.
    client_id: Box<str>,
    /// Number of the last batch received, as the server sent it. `None` without the acknowledgement
    /// extension.
    ack: Option<Box<str>>,
    /// Delay between connects, as advised by the server.
    interval: Duration,
    /// Whether the first connect has been sent. The client asks for an immediate answer to that connect,
    /// because only such an answer contains all advice.
    has_connected: bool,
    /// Whether the server is expected to hold the last connect.
    is_held: bool,
}

/// Opens a session, or resumes one with a connect that is answered immediately.
pub(in crate::client) async fn open(
    stream: TcpStream,
    url: &Rc<ServerUrl>,
    headers: String,
    resume: Option<&Ticket>,
    acknowledges: bool,
) -> Result<(LongPoll<BayeuxPolls>, Greeting), ClientFailure> {
    let mut client = HttpClient::new(stream);
    let mut polls = BayeuxPolls::new(url, "long-polling", headers, resume, acknowledges);
    if let Some(ticket) = resume {
        let connect = polls.connect();
        let response = exchange(&mut client, connect).await?;
        if let Some(received) = resume_with(&mut polls, response)? {
            let greeting = Greeting { ticket: ticket.clone(), recovered: true, ..Greeting::default() };
            return Ok((LongPoll::new(client, polls).with_received(received), greeting));
        }
    }
    let response = exchange(&mut client, polls.request(&handshake("long-polling", acknowledges))).await?;
    let greeting = greeting_of(&mut polls, response, acknowledges)?;
    Ok((LongPoll::new(client, polls), greeting))
}

/// Processes the reply to a handshake.
pub(super) fn greeting_of(
    polls: &mut BayeuxPolls,
    response: BayeuxResponse,
    acknowledges: bool,
) -> Result<Greeting, ClientFailure> {
    let reply = response.handshake.ok_or(ClientFailure::NoHello)?;
    if let Some(error) = reply.refusal {
        return Err(ClientFailure::SessionRefused(error));
    }
    if acknowledges && !reply.acknowledges {
        return Err(ClientFailure::SessionRefused(
            "the server does not support the acknowledgement extension".to_owned(),
        ));
    }
    let client_id = reply.client_id.ok_or(ClientFailure::NoHello)?;
    polls.client_id = Value::from(&*client_id).to_string().into();
    polls.ack = acknowledges.then(|| INITIAL_ACK.into());
    polls.interval = reply.advice.interval.unwrap_or_default();
    polls.has_connected = false;
    Ok(Greeting {
        ticket: Ticket { token: client_id.into(), ..Ticket::default() },
        poll_hold: reply.advice.timeout.unwrap_or_default(),
        reconnect_window: reply.advice.max_interval.unwrap_or_default(),
        ..Greeting::default()
    })
}

/// Processes the reply to the connect of a resuming client. Returns the messages that the session has for the
/// client, or `None` if the session no longer exists.
pub(super) fn resume_with(
    polls: &mut BayeuxPolls,
    response: BayeuxResponse,
) -> Result<Option<ReceivedItems>, ClientFailure> {
    let connect = response.connect.as_ref().ok_or(ClientFailure::NoHello)?;
    match connect.refusal() {
        Some(ConnectionEnd::Status(UNKNOWN_CLIENT)) => Ok(None),
        Some(end) => Err(ClientFailure::ClosedBeforeHello(end)),
        None => {
            let mut received = ReceivedItems::new();
            polls
                .process(response, Duration::ZERO, &mut received)
                .map_err(ClientFailure::ClosedBeforeHello)?;
            Ok(Some(received))
        }
    }
}

/// Acknowledgement that CometD clients send until they have received a batch.
const INITIAL_ACK: &str = "-1";

pub(super) fn handshake(connection_type: &str, acknowledges: bool) -> String {
    let ext = if acknowledges { r#","ext":{"ack":true}"# } else { "" };
    format!(
        r#"[{{"channel":"/meta/handshake","id":"h","version":"1.0","minimumVersion":"1.0","supportedConnectionTypes":["{connection_type}"]{ext}}}]"#
    )
}

/// Sends a request that is answered immediately.
async fn exchange(client: &mut HttpClient, request: Vec<u8>) -> Result<BayeuxResponse, ClientFailure> {
    let mut request = Some(request);
    let sent = poll_fn(|context| client.poll_send(context, || request.take().unwrap_or_default()));
    sent.await.map_err(ClientFailure::ClosedBeforeHello)?;
    let http_response = poll_fn(|context| {
        client.poll_response(context, |http_response| match http_response.status {
            OK => parse_response(http_response.body).map_err(ClientFailure::ClosedBeforeHello),
            status => Err(ConnectError::Refused(status).into()),
        })
    });
    http_response.await.map_err(ClientFailure::ClosedBeforeHello)?
}

impl BayeuxPolls {
    pub(super) fn new(
        url: &Rc<ServerUrl>,
        connection_type: &'static str,
        headers: String,
        resume: Option<&Ticket>,
        acknowledges: bool,
    ) -> Self {
        let known = resume.cloned().unwrap_or_default();
        Self {
            url: url.clone(),
            connection_type,
            headers: headers.into(),
            client_id: Value::from(&*known.token).to_string().into(),
            ack: acknowledges.then(|| known.last_id.unwrap_or_else(|| INITIAL_ACK.into())),
            interval: Duration::ZERO,
            has_connected: false,
            is_held: false,
        }
    }

    fn request(&self, body: &str) -> Vec<u8> {
        let (host, path, headers, length) =
            (self.url.authority(), self.url.path_with(""), &self.headers, body.len());
        format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        )
        .into_bytes()
    }

    fn connect(&mut self) -> Vec<u8> {
        let message = self.connect_message();
        self.request(&message)
    }

    pub(super) fn connect_message(&mut self) -> String {
        self.is_held = self.has_connected;
        self.has_connected = true;
        let advice = if self.is_held { "" } else { r#","advice":{"timeout":0}"# };
        let ext = self.ack.as_ref().map_or_else(String::new, |ack| format!(r#","ext":{{"ack":{ack}}}"#));
        let (client_id, kind) = (&self.client_id, self.connection_type);
        format!(
            r#"[{{"channel":"/meta/connect","id":"c","clientId":{client_id},"connectionType":"{kind}"{advice}{ext}}}]"#
        )
    }

    /// Processes a response: first its messages, then the state of the session.
    pub(super) fn process(
        &mut self,
        response: BayeuxResponse,
        elapsed: Duration,
        received: &mut ReceivedItems,
    ) -> Result<(), ConnectionEnd> {
        let BayeuxResponse { texts, connect, .. } = response;
        let is_empty = texts.is_empty();
        received.extend(texts.into_iter().map(ReceivedItem::Text));
        let Some(connect) = connect else { return Ok(()) };
        if let Some(end) = connect.refusal() {
            return Err(end);
        }
        if let Some(interval) = connect.advice.interval {
            self.interval = interval;
        }
        if self.ack.is_some()
            && let Some(ack) = connect.ack
        {
            self.ack = Some(ack.clone());
            received.push_back(ReceivedItem::Id(ack));
        }
        if is_empty && self.is_held && !connect.advice.multiple_clients {
            received.push_back(ReceivedItem::Empty(elapsed));
        }
        Ok(())
    }
}

impl Dialect for BayeuxPolls {
    const MAX_COMMANDS: usize = 64;

    fn poll(&mut self) -> Vec<u8> {
        self.connect()
    }

    fn commands(&mut self, commands: &[String]) -> Vec<u8> {
        self.request(&format!("[{}]", commands.join(",")))
    }

    fn subscribe(&self, channel: &str) -> String {
        let (client_id, channel) = (&self.client_id, Value::from(channel));
        format!(r#"{{"channel":"/meta/subscribe","id":"s","clientId":{client_id},"subscription":{channel}}}"#)
    }

    fn publish(&self, id: u64, channel: &str, data: &str) -> String {
        let (client_id, channel) = (&self.client_id, Value::from(channel));
        format!(r#"{{"channel":{channel},"id":"{id}","clientId":{client_id},"data":{data}}}"#)
    }

    fn close_command(&self) -> String {
        format!(r#"{{"channel":"/meta/disconnect","id":"d","clientId":{}}}"#, self.client_id)
    }

    fn on_poll_response(
        &mut self,
        http_response: CompleteResponse<'_>,
        elapsed: Duration,
        received: &mut ReceivedItems,
    ) -> Result<(), ConnectionEnd> {
        if http_response.status != OK {
            return Err(ConnectionEnd::Status(http_response.status));
        }
        self.process(parse_response(http_response.body)?, elapsed, received)
    }

    fn on_command_response(
        &mut self,
        http_response: CompleteResponse<'_>,
        received: &mut ReceivedItems,
    ) -> Result<(), ConnectionEnd> {
        if http_response.status != OK {
            return Err(ConnectionEnd::Status(http_response.status));
        }
        // Some servers deliver messages in the responses to commands.
        received.extend(parse_response(http_response.body)?.texts.into_iter().map(ReceivedItem::Text));
        Ok(())
    }

    fn poll_delay(&self) -> Duration {
        self.interval
    }
}
