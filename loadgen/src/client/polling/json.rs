//! Encke's `json` dialect over long-polling: `GET` holds, `POST` takes commands.

use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;

use super::reading::{GONE, farewell, objects, take};
use super::{Dialect, LongPoll, Said, Saying};
use crate::client::{Failure, Greeting, Ticket, encke};
use crate::target::ServerUrl;
use crate::transport::websocket::End;
use crate::transport::{Answer, ConnectError, Line};

const OK: u16 = 200;
const SUPERSEDED: u16 = 409;

/// What the server asks for then.
const SUPERSEDED_PAUSE: Duration = Duration::from_secs(1);

/// What the requests of a session have in common.
#[derive(Debug)]
pub(in crate::client) struct JsonPolls {
    url: Rc<ServerUrl>,
    /// Those of a token, if there is one.
    headers: Box<str>,
    /// The resume token.
    token: Box<str>,
    /// What has arrived.
    seq: u64,
    /// It has come back. So what takes the place of its poll may be one that it sent before: a server may read that late.
    has_come_back: bool,
    /// Another poll has taken the place of this one: the next is to wait.
    is_superseded: bool,
}

/// Opens a session, or comes back to one. A poll of a session that is still there is held: so an acknowledgement goes before it, whose
/// answer says at once whether it is.
pub(in crate::client) async fn open(
    stream: TcpStream,
    url: &Rc<ServerUrl>,
    headers: String,
    resume: Option<&Ticket>,
) -> Result<(LongPoll<JsonPolls>, Greeting), Failure> {
    let mut line = Line::new(stream);
    let known = resume.cloned().unwrap_or_default();
    let mut polls = JsonPolls {
        url: url.clone(),
        headers: headers.into(),
        token: known.token,
        seq: known.seq,
        has_come_back: resume.is_some(),
        is_superseded: false,
    };
    let mut request = polls.request("GET", &url.path_with(&encke::query(resume)), "");
    if resume.is_some() {
        let ack = polls.post(&format!(r#"{{"ack":{{"seq":{}}}}}"#, polls.seq));
        request.splice(0..0, ack);
    }
    let now = Instant::now();
    let mut request = Some(request);
    let sent = poll_fn(|context| line.poll_send(context, || request.take().unwrap_or_default()));
    sent.await.map_err(Failure::ClosedBeforeHello)?;
    if resume.is_some() && answer(&mut line, is_there).await? {
        let ticket = Ticket { token: polls.token.clone(), seq: polls.seq, last_id: None };
        let greeting = Greeting { ticket, recovered: true, ..Greeting::default() };
        return Ok((LongPoll::new(line, polls).has_polled(now), greeting));
    }
    let greeting = answer(&mut line, greeting).await?;
    polls.token = greeting.ticket.token.clone();
    polls.seq = greeting.ticket.seq;
    Ok((LongPoll::new(line, polls), greeting))
}

async fn answer<T>(line: &mut Line, read: fn(Answer<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
    poll_fn(|context| line.poll_answer(context, read)).await.map_err(Failure::ClosedBeforeHello)?
}

fn is_there(answer: Answer<'_>) -> Result<bool, Failure> {
    if answer.status == GONE {
        return Ok(false);
    }
    match first_of(answer)?.and_then(farewell) {
        Some(end) => Err(Failure::ClosedBeforeHello(end)),
        None => Ok(true),
    }
}

fn greeting(answer: Answer<'_>) -> Result<Greeting, Failure> {
    let text = first_of(answer)?.ok_or(Failure::NoHello)?;
    match farewell(text) {
        Some(end) => Err(Failure::ClosedBeforeHello(end)),
        // Nothing is pinged here.
        None => encke::read_hello(text).map(|hello| Greeting {
            ping_interval: Duration::ZERO,
            pong_timeout: Duration::ZERO,
            ..hello
        }),
    }
}

/// The first object, if there is one.
fn first_of(answer: Answer<'_>) -> Result<Option<&str>, Failure> {
    if answer.status != OK {
        return Err(ConnectError::Refused(answer.status).into());
    }
    let objects = objects(answer.body).map_err(Failure::ClosedBeforeHello)?;
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

    fn goodbye(&self) -> String {
        r#"{"close":{}}"#.to_owned()
    }

    fn answered(&mut self, answer: Answer<'_>, after: Duration, said: &mut Said) -> Result<(), End> {
        self.is_superseded = answer.status == SUPERSEDED && std::mem::take(&mut self.has_come_back);
        if self.is_superseded {
            return Ok(());
        }
        if answer.status != OK {
            return Err(End::Status(answer.status));
        }
        let objects = objects(answer.body)?;
        if objects.is_empty() {
            said.push_back(Saying::Nothing(after));
        }
        take(objects, &mut self.seq, said)
    }

    fn replied(&mut self, answer: Answer<'_>, said: &mut Said) -> Result<(), End> {
        if answer.status != OK {
            return Err(End::Status(answer.status));
        }
        // Replies have no seq.
        take(objects(answer.body)?, &mut self.seq, said)
    }

    fn pause(&self) -> Duration {
        if self.is_superseded { SUPERSEDED_PAUSE } else { Duration::ZERO }
    }
}
