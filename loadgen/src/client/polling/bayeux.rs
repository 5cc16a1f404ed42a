//! Bayeux 1.0 over long-polling: the protocol of CometD and Faye.

use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpStream;

use super::bayeux_answer::{Heard, hear};
use super::{Dialect, LongPoll, Said, Saying};
use crate::client::{Failure, Greeting, Ticket};
use crate::target::ServerUrl;
use crate::transport::websocket::End;
use crate::transport::{Answer, ConnectError, Line};

const OK: u16 = 200;
/// The server does not know the client, or no longer.
const UNKNOWN_CLIENT: u16 = 402;

/// What the requests of a session have in common.
#[derive(Debug)]
pub(in crate::client) struct BayeuxPolls {
    url: Rc<ServerUrl>,
    connection_type: &'static str,
    /// Those of a token, if there is one.
    headers: Box<str>,
    /// As JSON.
    client_id: Box<str>,
    /// With the acknowledgement extension: the last that has arrived, as the server has it.
    ack: Option<Box<str>>,
    /// What the server has advised for the time between two connects.
    interval: Duration,
    /// A client asks that its first connect is answered at once, for only then it may know all advice.
    has_connected: bool,
    /// The last connect is to be held.
    is_held: bool,
}

/// Opens a session, or comes back to one by a connect that is answered at once.
pub(in crate::client) async fn open(
    stream: TcpStream,
    url: &Rc<ServerUrl>,
    headers: String,
    resume: Option<&Ticket>,
    acknowledges: bool,
) -> Result<(LongPoll<BayeuxPolls>, Greeting), Failure> {
    let mut line = Line::new(stream);
    let mut polls = BayeuxPolls::new(url, "long-polling", headers, resume, acknowledges);
    if let Some(ticket) = resume {
        let connect = polls.connect();
        let heard = ask(&mut line, connect).await?;
        if let Some(said) = come_back_with(&mut polls, heard)? {
            let greeting = Greeting { ticket: ticket.clone(), recovered: true, ..Greeting::default() };
            return Ok((LongPoll::new(line, polls).having_heard(said), greeting));
        }
    }
    let heard = ask(&mut line, polls.request(&handshake("long-polling", acknowledges))).await?;
    let greeting = greeting_of(&mut polls, heard, acknowledges)?;
    Ok((LongPoll::new(line, polls), greeting))
}

/// Takes in the reply to a handshake.
pub(super) fn greeting_of(
    polls: &mut BayeuxPolls,
    heard: Heard,
    acknowledges: bool,
) -> Result<Greeting, Failure> {
    let reply = heard.handshake.ok_or(Failure::NoHello)?;
    if let Some(error) = reply.refusal {
        return Err(Failure::Unwelcome(error));
    }
    if acknowledges && !reply.acknowledges {
        return Err(Failure::Unwelcome("the server has no acknowledgement extension".to_owned()));
    }
    let client_id = reply.client_id.ok_or(Failure::NoHello)?;
    polls.client_id = Value::from(&*client_id).to_string().into();
    polls.ack = acknowledges.then(|| NOTHING_YET.into());
    polls.interval = reply.advice.interval.unwrap_or_default();
    polls.has_connected = false;
    Ok(Greeting {
        ticket: Ticket { token: client_id.into(), ..Ticket::default() },
        poll_hold: reply.advice.timeout.unwrap_or_default(),
        reconnect_window: reply.advice.max_interval.unwrap_or_default(),
        ..Greeting::default()
    })
}

/// Takes in the reply to the connect of a client that comes back: what the session has for it, if it is still there.
pub(super) fn come_back_with(polls: &mut BayeuxPolls, heard: Heard) -> Result<Option<Said>, Failure> {
    let connect = heard.connect.as_ref().ok_or(Failure::NoHello)?;
    match connect.refusal() {
        Some(End::Status(UNKNOWN_CLIENT)) => Ok(None),
        Some(end) => Err(Failure::ClosedBeforeHello(end)),
        None => {
            let mut said = Said::new();
            polls.take(heard, Duration::ZERO, &mut said).map_err(Failure::ClosedBeforeHello)?;
            Ok(Some(said))
        }
    }
}

/// What CometD's clients acknowledge before they have received anything.
const NOTHING_YET: &str = "-1";

pub(super) fn handshake(connection_type: &str, acknowledges: bool) -> String {
    let ext = if acknowledges { r#","ext":{"ack":true}"# } else { "" };
    format!(
        r#"[{{"channel":"/meta/handshake","id":"h","version":"1.0","minimumVersion":"1.0","supportedConnectionTypes":["{connection_type}"]{ext}}}]"#
    )
}

/// Sends a request that is answered at once.
async fn ask(line: &mut Line, request: Vec<u8>) -> Result<Heard, Failure> {
    let mut request = Some(request);
    let sent = poll_fn(|context| line.poll_send(context, || request.take().unwrap_or_default()));
    sent.await.map_err(Failure::ClosedBeforeHello)?;
    let answer = poll_fn(|context| {
        line.poll_answer(context, |answer| match answer.status {
            OK => hear(answer.body).map_err(Failure::ClosedBeforeHello),
            status => Err(ConnectError::Refused(status).into()),
        })
    });
    answer.await.map_err(Failure::ClosedBeforeHello)?
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
            ack: acknowledges.then(|| known.last_id.unwrap_or_else(|| NOTHING_YET.into())),
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

    /// Messages first, then what is to be remembered of them.
    pub(super) fn take(&mut self, heard: Heard, after: Duration, said: &mut Said) -> Result<(), End> {
        let Heard { texts, connect, .. } = heard;
        let is_empty = texts.is_empty();
        said.extend(texts.into_iter().map(Saying::Text));
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
            said.push_back(Saying::Id(ack));
        }
        if is_empty && self.is_held && !connect.advice.multiple_clients {
            said.push_back(Saying::Nothing(after));
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

    fn goodbye(&self) -> String {
        format!(r#"{{"channel":"/meta/disconnect","id":"d","clientId":{}}}"#, self.client_id)
    }

    fn answered(&mut self, answer: Answer<'_>, after: Duration, said: &mut Said) -> Result<(), End> {
        if answer.status != OK {
            return Err(End::Status(answer.status));
        }
        self.take(hear(answer.body)?, after, said)
    }

    fn replied(&mut self, answer: Answer<'_>, said: &mut Said) -> Result<(), End> {
        if answer.status != OK {
            return Err(End::Status(answer.status));
        }
        // Some servers have messages share the answers to commands.
        said.extend(hear(answer.body)?.texts.into_iter().map(Saying::Text));
        Ok(())
    }

    fn pause(&self) -> Duration {
        self.interval
    }
}
