//! Socket.IO's protocol, revision 5, in the main namespace, over Engine.IO's, revision 4, over WebSocket from the start.

mod packet;

use std::ops::ControlFlow;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use self::packet::{Packet, offset_of};
use super::{Connection, Early, Event, Failure, Greeting, Ticket};
use crate::transport::websocket::{End, Incoming, Socket};

pub(super) const QUERY: &str = "EIO=4&transport=websocket";
/// Engine.IO's answer to a ping.
pub(super) const PONG: &str = "3";

#[derive(Deserialize)]
struct Open {
    #[serde(rename = "pingInterval")]
    ping_interval_ms: u64,
    #[serde(rename = "pingTimeout")]
    ping_timeout_ms: u64,
}

#[derive(Deserialize)]
struct Connected {
    sid: String,
    /// Given by servers that recover connections.
    pid: Option<String>,
}

/// Connects to the main namespace, and comes back to an earlier connection if there is a ticket.
pub(super) async fn greeting(
    connection: &mut Connection,
    resume: Option<&Ticket>,
) -> Result<Greeting, Failure> {
    let open = connection.greeting(|text| match Packet::read(text) {
        Packet::Open(json) => Early::Greeting(read(json)),
        _ => Early::Greeting(Err(Failure::NoHello)),
    });
    let Open { ping_interval_ms, ping_timeout_ms } = open.await??;
    connection.send(&format!("40{}", credentials(resume))).await;
    // The server sends missed messages before it confirms the recovery.
    let mut last_id = resume.and_then(|ticket| ticket.last_id.clone());
    let Connected { sid, pid } = loop {
        let connected = connection.greeting(|text| match Packet::read(text) {
            Packet::Connected(json) => Early::Greeting(Some(read(json))),
            Packet::Refused(json) => Early::Greeting(Some(Err(Failure::Unwelcome(reason(json))))),
            Packet::Event(event) => {
                last_id = offset_of(event).map(Into::into).or(last_id.take());
                Early::Message
            }
            Packet::Question(_) => Early::Message,
            Packet::Ping => Early::Greeting(None),
            Packet::Open(_) | Packet::Close => Early::Greeting(Some(Err(Failure::NoHello))),
            Packet::Other => Early::Other,
        });
        match connected.await? {
            Some(connected) => break connected?,
            None => connection.pong(&[]).await,
        }
    };
    // A recovered connection keeps its id.
    let recovered = resume.is_some_and(|ticket| ticket.token.split_once(' ').is_some_and(|it| it.1 == sid));
    let token = format!("{} {sid}", pid.unwrap_or_default()).into();
    let ticket = Ticket { token, seq: 0, last_id: last_id.filter(|_| recovered) };
    let [ping_interval, pong_timeout] = [ping_interval_ms, ping_timeout_ms].map(Duration::from_millis);
    Ok(Greeting { ticket, recovered, ping_interval, pong_timeout, ..Greeting::default() })
}

fn read<T: for<'de> Deserialize<'de>>(json: &str) -> Result<T, Failure> {
    serde_json::from_str(json).map_err(|_| Failure::NoHello)
}

/// What a CONNECT packet has in it. Without an offset there is nothing that can be recovered.
fn credentials(resume: Option<&Ticket>) -> String {
    let pid = resume.and_then(|ticket| ticket.token.split_once(' ')).map(|(pid, _)| pid);
    let pid = pid.filter(|pid| !pid.is_empty());
    let offset = resume.and_then(|ticket| ticket.last_id.as_deref());
    match (pid, offset) {
        (Some(pid), Some(offset)) => {
            format!(r#"{{"pid":{},"offset":{}}}"#, Value::from(pid), Value::from(offset))
        }
        _ => String::new(),
    }
}

/// What the server says of a CONNECT packet that it refuses.
fn reason(json: &str) -> String {
    #[derive(Deserialize)]
    struct Refused {
        message: String,
    }
    serde_json::from_str(json).map_or_else(|_| json.to_owned(), |Refused { message }| message)
}

/// What one look at the packets came to.
enum Step<T> {
    /// A ping, and what is to be done after it is answered.
    Asked(ControlFlow<T>),
    Done(Result<T, End>),
}

/// Like [`Socket::poll_each`], with Engine.IO's pings in place of those of WebSocket.
pub(super) fn poll_each<T>(
    socket: &mut Socket,
    context: &mut Context<'_>,
    on_event: &mut impl FnMut(Event<'_>) -> ControlFlow<T>,
) -> Poll<Result<T, End>> {
    loop {
        let polled = socket.poll_each(context, &mut |incoming| {
            let text = match incoming {
                Incoming::Text(text) => text,
                Incoming::Pong(payload) => return on_event(Event::Pong(&payload)).map_break(done),
                Incoming::Ping(_) | Incoming::Binary(_) | Incoming::Close(_) => {
                    return ControlFlow::Continue(());
                }
            };
            match Packet::read(&text) {
                Packet::Ping => ControlFlow::Break(Step::Asked(on_event(Event::Ping(&[])))),
                Packet::Close => ControlFlow::Break(Step::Done(Err(End::Closed(None)))),
                Packet::Event(event) => {
                    if let Some(offset) = offset_of(event) {
                        on_event(Event::Id(&offset)).map_break(done)?;
                    }
                    on_event(Event::Text(event)).map_break(done)
                }
                Packet::Question(event) => on_event(Event::Text(event)).map_break(done),
                Packet::Open(_) | Packet::Connected(_) | Packet::Refused(_) | Packet::Other => {
                    ControlFlow::Continue(())
                }
            }
        });
        let result = match ready!(polled)? {
            Step::Done(result) => result,
            Step::Asked(then) => {
                socket.poll_answer(context, PONG);
                match then {
                    ControlFlow::Continue(()) => continue,
                    ControlFlow::Break(value) => Ok(value),
                }
            }
        };
        return Poll::Ready(result);
    }
}

fn done<T>(value: T) -> Step<T> {
    Step::Done(Ok(value))
}
