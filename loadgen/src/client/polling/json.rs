//! Encke's `json` dialect over long-polling: `GET` polls, `POST` sends commands.

use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;

use super::json_response::{GONE, goaway_end, objects, queue_objects};
use super::{Dialect, LongPoll, ReceivedItem, ReceivedItems};
use crate::client::{ClientFailure, Greeting, Ticket, encke};
use crate::target::ServerUrl;
use crate::transport::websocket::ConnectionEnd;
use crate::transport::{CompleteResponse, ConnectError, HttpClient};

const OK: u16 = 200;
const SUPERSEDED: u16 = 409;

/// How long the server asks clients to wait before polling again after 409.
const SUPERSEDED_DELAY: Duration = Duration::from_secs(1);

/// State of a session, shared by its requests.
#[derive(Debug)]
pub(in crate::client) struct JsonPolls {
    url: Rc<ServerUrl>,
    /// Header lines for the token, if there is one.
    headers: Box<str>,
    /// Resume token.
    token: Box<str>,
    /// Number of the last message received.
    seq: u64,
    /// Whether the session has been resumed and no poll has been superseded since. One 409 is tolerated,
    /// because the server may read an older poll, sent before the disconnect, after a newer one.
    is_resumed: bool,
    /// Whether the last poll was superseded by another one. If so, the next poll is delayed.
    is_superseded: bool,
}

/// Opens a session, or resumes one. When resuming, an acknowledgement is sent before the poll: its response
/// shows immediately whether the session exists, whereas the poll of an existing session would be held.
pub(in crate::client) async fn open(
    stream: TcpStream,
    url: &Rc<ServerUrl>,
    headers: String,
    resume: Option<&Ticket>,
) -> Result<(LongPoll<JsonPolls>, Greeting), ClientFailure> {
    let mut client = HttpClient::new(stream);
    let known = resume.cloned().unwrap_or_default();
    let mut polls = JsonPolls {
        url: url.clone(),
        headers: headers.into(),
        token: known.token,
        seq: known.seq,
        is_resumed: resume.is_some(),
        is_superseded: false,
    };
    let mut request = polls.request("GET", &url.path_with(&encke::query(resume)), "");
    if resume.is_some() {
        let ack = polls.post(&format!(r#"{{"ack":{{"seq":{}}}}}"#, polls.seq));
        request.splice(0..0, ack);
    }
    let now = Instant::now();
    let mut request = Some(request);
    let sent = poll_fn(|context| client.poll_send(context, || request.take().unwrap_or_default()));
    sent.await.map_err(ClientFailure::ClosedBeforeHello)?;
    if resume.is_some() && read_first_response(&mut client, session_exists).await? {
        let ticket = Ticket { token: polls.token.clone(), seq: polls.seq, last_id: None };
        let greeting = Greeting { ticket, recovered: true, ..Greeting::default() };
        return Ok((LongPoll::new(client, polls).with_poll_sent_at(now), greeting));
    }
    let greeting = read_first_response(&mut client, greeting).await?;
    polls.token = greeting.ticket.token.clone();
    polls.seq = greeting.ticket.seq;
    Ok((LongPoll::new(client, polls), greeting))
}

async fn read_first_response<T>(
    client: &mut HttpClient,
    read: fn(CompleteResponse<'_>) -> Result<T, ClientFailure>,
) -> Result<T, ClientFailure> {
    poll_fn(|context| client.poll_response(context, read)).await.map_err(ClientFailure::ClosedBeforeHello)?
}

fn session_exists(response: CompleteResponse<'_>) -> Result<bool, ClientFailure> {
    if response.status == GONE {
        return Ok(false);
    }
    match first_object(response)?.and_then(goaway_end) {
        Some(end) => Err(ClientFailure::ClosedBeforeHello(end)),
        None => Ok(true),
    }
}

fn greeting(response: CompleteResponse<'_>) -> Result<Greeting, ClientFailure> {
    let text = first_object(response)?.ok_or(ClientFailure::NoHello)?;
    match goaway_end(text) {
        Some(end) => Err(ClientFailure::ClosedBeforeHello(end)),
        // Long-polling has no pings.
        None => encke::read_hello(text).map(|hello| Greeting {
            ping_interval: Duration::ZERO,
            pong_timeout: Duration::ZERO,
            ..hello
        }),
    }
}

/// Returns the first object, if there is one.
fn first_object(response: CompleteResponse<'_>) -> Result<Option<&str>, ClientFailure> {
    if response.status != OK {
        return Err(ConnectError::Refused(response.status).into());
    }
    let objects = objects(response.body).map_err(ClientFailure::ClosedBeforeHello)?;
    Ok(objects.first().copied())
}

impl JsonPolls {
    fn post(&self, body: &str) -> Vec<u8> {
        let path = self.url.path_without("channels", &format!("resume={}", self.token));
        self.request("POST", &path, body)
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        let (host, headers) = (self.url.authority(), &self.headers);
        let content = match body.len() {
            0 => String::new(),
            length => format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"),
        };
        format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{content}{headers}\r\n{body}").into_bytes()
    }
}

impl Dialect for JsonPolls {
    const MAX_COMMANDS: usize = 64;

    fn poll(&mut self) -> Vec<u8> {
        let query = format!("resume={}&seq={}", self.token, self.seq);
        self.request("GET", &self.url.path_without("channels", &query), "")
    }

    fn commands(&mut self, commands: &[String]) -> Vec<u8> {
        match commands {
            [one] => self.post(one),
            several => self.post(&format!("[{}]", several.join(","))),
        }
    }

    fn subscribe(&self, channel: &str) -> String {
        encke::subscribe(channel)
    }

    fn publish(&self, id: u64, channel: &str, data: &str) -> String {
        encke::publish(id, channel, data)
    }

    fn close_command(&self) -> String {
        r#"{"close":{}}"#.to_owned()
    }

    fn on_poll_response(
        &mut self,
        response: CompleteResponse<'_>,
        elapsed: Duration,
        received: &mut ReceivedItems,
    ) -> Result<(), ConnectionEnd> {
        self.is_superseded = response.status == SUPERSEDED && std::mem::take(&mut self.is_resumed);
        if self.is_superseded {
            return Ok(());
        }
        if response.status != OK {
            return Err(ConnectionEnd::Status(response.status));
        }
        let objects = objects(response.body)?;
        if objects.is_empty() {
            received.push_back(ReceivedItem::Empty(elapsed));
        }
        queue_objects(objects, &mut self.seq, received)
    }

    fn on_command_response(
        &mut self,
        response: CompleteResponse<'_>,
        received: &mut ReceivedItems,
    ) -> Result<(), ConnectionEnd> {
        if response.status != OK {
            return Err(ConnectionEnd::Status(response.status));
        }
        // Replies have no seq.
        queue_objects(objects(response.body)?, &mut self.seq, received)
    }

    fn poll_delay(&self) -> Duration {
        if self.is_superseded { SUPERSEDED_DELAY } else { Duration::ZERO }
    }
}
