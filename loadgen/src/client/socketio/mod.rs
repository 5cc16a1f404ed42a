//! Socket.IO protocol, revision 5, in the main namespace, over Engine.IO protocol, revision 4, using
//! WebSocket from the start.

mod packet;

use std::ops::ControlFlow;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use self::packet::{Packet, offset_of};
use super::{ClientConnection, ClientEvent, ClientFailure, EarlyText, Greeting, Ticket};
use crate::transport::websocket::{ConnectionEnd, Incoming, WebSocket};

pub(super) const QUERY: &str = "EIO=4&transport=websocket";
/// Engine.IO's answer to a ping.
pub(super) const PONG: &str = "3";

#[derive(Deserialize)]
struct OpenPacket {
    #[serde(rename = "pingInterval")]
    ping_interval_ms: u64,
    #[serde(rename = "pingTimeout")]
    ping_timeout_ms: u64,
}

#[derive(Deserialize)]
struct ConnectedPacket {
    sid: String,
    /// Private id, sent by servers that support connection state recovery.
    pid: Option<String>,
}

/// Connects to the main namespace. With a ticket, asks the server to recover an earlier connection.
pub(super) async fn greeting(
    connection: &mut ClientConnection,
    resume: Option<&Ticket>,
) -> Result<Greeting, ClientFailure> {
    let open = connection.greeting(|text| match Packet::read(text) {
        Packet::Open(json) => EarlyText::Greeting(read(json)),
        _ => EarlyText::Greeting(Err(ClientFailure::NoHello)),
    });
    let OpenPacket { ping_interval_ms, ping_timeout_ms } = open.await??;
    connection.send(&format!("40{}", credentials(resume))).await;
    // The server sends missed messages before it confirms the recovery.
    let mut last_id = resume.and_then(|ticket| ticket.last_id.clone());
    let ConnectedPacket { sid, pid } = loop {
        let connected = connection.greeting(|text| match Packet::read(text) {
            Packet::Connected(json) => EarlyText::Greeting(Some(read(json))),
            Packet::Refused(json) => {
                EarlyText::Greeting(Some(Err(ClientFailure::SessionRefused(reason(json)))))
            }
            Packet::Event(event) => {
                last_id = offset_of(event).map(Into::into).or(last_id.take());
                EarlyText::Message
            }
            Packet::EventWithAck(_) => EarlyText::Message,
            Packet::Ping => EarlyText::Greeting(None),
            Packet::Open(_) | Packet::Close => EarlyText::Greeting(Some(Err(ClientFailure::NoHello))),
            Packet::Other => EarlyText::Other,
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

fn read<T: for<'de> Deserialize<'de>>(json: &str) -> Result<T, ClientFailure> {
    serde_json::from_str(json).map_err(|_| ClientFailure::NoHello)
}

/// Returns the payload of a CONNECT packet. Nothing can be recovered without an offset.
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

/// Returns the server's reason for refusing a CONNECT packet.
fn reason(json: &str) -> String {
    #[derive(Deserialize)]
    struct RefusedPacket {
        message: String,
    }
    serde_json::from_str(json).map_or_else(|_| json.to_owned(), |RefusedPacket { message }| message)
}

/// Result of reading packets.
enum PacketOutcome<T> {
    /// A ping, and how to continue after it is answered.
    Ping(ControlFlow<T>),
    Done(Result<T, ConnectionEnd>),
}

/// Like [`WebSocket::poll_each`], but with Engine.IO's pings instead of WebSocket pings.
pub(super) fn poll_each<T>(
    socket: &mut WebSocket,
    context: &mut Context<'_>,
    on_event: &mut impl FnMut(ClientEvent<'_>) -> ControlFlow<T>,
) -> Poll<Result<T, ConnectionEnd>> {
    loop {
        let polled = socket.poll_each(context, &mut |incoming| {
            let text = match incoming {
                Incoming::Text(text) => text,
                Incoming::Pong(payload) => return on_event(ClientEvent::Pong(&payload)).map_break(done),
                Incoming::Ping(_) | Incoming::Binary(_) | Incoming::Close(_) => {
                    return ControlFlow::Continue(());
                }
            };
            match Packet::read(&text) {
                Packet::Ping => ControlFlow::Break(PacketOutcome::Ping(on_event(ClientEvent::Ping(&[])))),
                Packet::Close => ControlFlow::Break(PacketOutcome::Done(Err(ConnectionEnd::Closed(None)))),
                Packet::Event(event) => {
                    if let Some(offset) = offset_of(event) {
                        on_event(ClientEvent::Id(&offset)).map_break(done)?;
                    }
                    on_event(ClientEvent::Text(event)).map_break(done)
                }
                Packet::EventWithAck(event) => on_event(ClientEvent::Text(event)).map_break(done),
                Packet::Open(_) | Packet::Connected(_) | Packet::Refused(_) | Packet::Other => {
                    ControlFlow::Continue(())
                }
            }
        });
        let result = match ready!(polled)? {
            PacketOutcome::Done(result) => result,
            PacketOutcome::Ping(then) => {
                socket.poll_send_text(context, PONG);
                match then {
                    ControlFlow::Continue(()) => continue,
                    ControlFlow::Break(value) => Ok(value),
                }
            }
        };
        return Poll::Ready(result);
    }
}

fn done<T>(value: T) -> PacketOutcome<T> {
    PacketOutcome::Done(Ok(value))
}
