//! The server's side of a client's connection.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use encke_core::dialect::json::{Hello, ServerMessage};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::stream::to_send;
use super::{ChannelFault, FakeChannelState, publish};
use crate::accept::accept;

/// How long a session is kept after its connection has closed.
const WINDOW: Duration = Duration::from_secs(1);
/// How long a client may go without reading.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Guard that records when a connection has closed.
struct DisconnectGuard<'a> {
    session: usize,
    shared: &'a FakeChannelState,
}

impl Drop for DisconnectGuard<'_> {
    fn drop(&mut self) {
        let mut lost_at = self.shared.lost_at.lock().expect("the mutex is not poisoned");
        lost_at.insert(self.session, Instant::now());
    }
}

type FakeSocket = WebSocketStream<TcpStream>;

pub(super) async fn serve(stream: TcpStream, shared: &FakeChannelState) -> Result<(), Error> {
    let (mut socket, query) = accept(stream).await?;
    let resume = parse_resume(&query).filter(|(session, _)| {
        let lost_at = shared.lost_at.lock().expect("the mutex is not poisoned").get(session).copied();
        let is_late = lost_at.is_some_and(|at| at.elapsed() > WINDOW);
        shared.fault != ChannelFault::Forget && (!is_late || shared.fault == ChannelFault::NeverExpire)
    });
    let session = resume.map_or_else(|| shared.sessions.fetch_add(1, Ordering::Relaxed), |(it, _)| it);
    let had = resume.filter(|_| shared.fault != ChannelFault::Repeat);
    let mut sent = had.map_or(0, |(_, seq)| seq);
    let mut subscribed = resume.is_some();
    let _lost = DisconnectGuard { session, shared };
    let hello = ServerMessage::Hello(Hello {
        version: 1,
        session: format!("s_{session}").into(),
        resume: format!("s_{session}.secret").into(),
        recovered: resume.is_some(),
        // Always send the client's seq, regardless of what the server sends next.
        seq: resume.map_or(0, |(_, seq)| seq) as u64,
        ping_interval_ms: 60_000,
        pong_timeout_ms: 10_000,
        reconnect_window_ms: u64::try_from(WINDOW.as_millis()).expect("it fits into u64"),
    });
    socket.send(Message::text(hello.to_json())).await?;
    let mut log = shared.log.subscribe();
    log.mark_changed();
    loop {
        tokio::select! {
            command = socket.next() => match command.transpose()? {
                Some(Message::Text(text)) => {
                    let text = text.to_string();
                    subscribed |= execute(&text, &mut socket, shared).await?;
                    // A new subscriber receives only later messages.
                    if text.contains("\"subscribe\"") {
                        sent = to_send(session, shared).len();
                    }
                }
                Some(_) => {}
                None => return Ok(()),
            },
            _ = log.changed(), if subscribed => {
                for (index, object) in to_send(session, shared).iter().enumerate().skip(sent) {
                    let send = socket.send(Message::text(object.with_seq(index + 1)));
                    match shared.fault {
                        ChannelFault::DisconnectSlow => match timeout(WRITE_TIMEOUT, send).await {
                            Ok(sent) => sent?,
                            Err(_) => return Ok(()),
                        },
                        _ => send.await?,
                    }
                    sent = index + 1;
                }
            }
        }
    }
}

fn parse_resume(query: &str) -> Option<(usize, usize)> {
    let (token, seq) = query.strip_prefix("resume=s_")?.split_once("&seq=")?;
    Some((token.strip_suffix(".secret")?.parse().ok()?, seq.parse().expect("a seq is a number")))
}

/// Executes a command. Returns whether it was a successful subscription.
async fn execute(text: &str, socket: &mut FakeSocket, shared: &FakeChannelState) -> Result<bool, Error> {
    let command: Value = serde_json::from_str(text).expect("clients send JSON");
    if command.get("ack").is_some() {
        shared.acks.fetch_add(1, Ordering::Relaxed);
        return Ok(false);
    }
    let is_subscription = command.get("subscribe").is_some();
    let refused = match shared.fault {
        ChannelFault::RefuseSubscriptions => is_subscription,
        ChannelFault::RefusePublications => !is_subscription,
        _ => false,
    };
    let outcome = if refused {
        json!({"id": command["id"], "error": {"code": "forbidden", "message": "no"}})
    } else if is_subscription {
        assert_eq!(command["subscribe"]["channel"], "loadgen");
        json!({"id": command["id"], "ok": {"channel": "loadgen", "epoch": "e", "offset": 0}})
    } else {
        assert_eq!(command["publish"]["channel"], "loadgen");
        publish(&command["publish"]["data"], shared);
        json!({"id": command["id"], "ok": {"epoch": "e", "offset": 1}})
    };
    socket.send(Message::text(json!({"reply": outcome}).to_string())).await?;
    Ok(is_subscription && !refused)
}
