//! Attacks with commands, a hundred at a time: as many as a session may send per second by default.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::interval;

use super::{Attacker, BATCH_COMMANDS, CommandBatch};

/// Length of the data of a large message. With the rest of the command it stays just below the longest message
/// that a server accepts by default.
pub(super) const DATA_BYTES: usize = 60_000;
/// Number of channels per session of `history`: enough that no channel reaches its own limit.
const HISTORY_CHANNELS: u32 = 10;
/// Ends the session, so that the server keeps nothing of it.
const CLOSE_SESSION: &str = r#"{"close":{}}"#;

/// Publishes far more than a session is allowed to. Every other connection keeps publishing regardless of the
/// replies; the others resume the same session again and again, and send a hundred publishes each time.
///
/// The attack costs 60 bytes per publish. A server should count the commands of a session over all its
/// connections, refuse the ones above the limit cheaply, and close a client that does not stop.
pub(super) async fn publishes(attacker: Rc<Attacker>, index: u32) {
    let batch = CommandBatch::of((1..=BATCH_COMMANDS).map(|id| publish(id, &format!("abuse-{index}"), "0")));
    let mut ticket = None;
    loop {
        let Some(mut session) = attacker.open(ticket.as_ref()).await else {
            ticket = None;
            continue;
        };
        if index.is_multiple_of(2) {
            attacker.flood(&mut session, &batch.frames, batch.commands.into()).await;
        } else {
            attacker.send_batch(&mut session, &batch).await;
            ticket = Some(session.greeting.ticket.clone());
        }
    }
}

/// Creates as many channels as possible: continuously publishes or subscribes to new names, and opens a new
/// session when a session may send no more commands.
///
/// The attack costs 60 bytes per channel, and a connection per hundred channels. A server should limit the
/// number of channels. When the limit is reached, the creator of the most channels should lose some of them,
/// and a new client should still be able to create one.
pub(super) async fn channels(attacker: Rc<Attacker>, index: u32) {
    send_batches(&attacker, |round, id| {
        let channel = format!("abuse-{index}-{round}-{id}");
        if index.is_multiple_of(2) { publish(id, &channel, "0") } else { subscribe(id, &channel) }
    })
    .await;
}

/// Continuously publishes large messages to new channels, and opens a new session when a session may send no
/// more commands.
///
/// The attack costs one byte for each byte that the server keeps. A server should limit the total size of all
/// logs. When the limit is reached, the creator of the logs with the most bytes should lose the oldest
/// messages, and the history of other channels should stay intact: see `history_received`.
pub(super) async fn history(attacker: Rc<Attacker>, index: u32) {
    let data = format!("\"{}\"", "x".repeat(DATA_BYTES));
    send_batches(&attacker, |round, id| {
        publish(id, &format!("abuse-{index}-{round}-{}", id % HISTORY_CHANNELS), &data)
    })
    .await;
}

/// Subscribes to one channel with all connections, and asks for its subscribers once a second, as often as a
/// session may send commands, all at once.
///
/// The attack costs 50 bytes per list. A server should charge for the list, not for the command, and let other
/// sessions act in between.
pub(super) async fn presence(attacker: Rc<Attacker>, _: u32) {
    const CHANNEL: &str = "abuse-presence";
    let list = |id| format!(r#"{{"id":{id},"presence":{{"channel":"{CHANNEL}"}}}}"#);
    let lists = CommandBatch::of((1..=BATCH_COMMANDS - 2).map(list));
    loop {
        let Some(mut session) = attacker.open(None).await else { continue };
        attacker.send_batch(&mut session, &CommandBatch::of([subscribe(1, CHANNEL)])).await;
        let mut second = interval(Duration::from_secs(1));
        loop {
            second.tick().await;
            if !attacker.send_batch(&mut session, &lists).await {
                break;
            }
        }
    }
}

/// Joins and leaves a channel: the first connection as often as a session may, the second as often as it can,
/// with a new session each time. All others listen. Without a namespace for `abuse-` with `join_leave`, the
/// server announces nothing.
///
/// The attack costs the first connection 100 bytes per join and leave, and the second a WebSocket. A server
/// should not announce each of them to everyone.
pub(super) async fn joins(attacker: Rc<Attacker>, index: u32) {
    const CHANNEL: &str = "abuse-joins";
    let join = CommandBatch::of([subscribe(1, CHANNEL)]);
    let leave = CommandBatch::of([format!(r#"{{"id":1,"unsubscribe":{{"channel":"{CHANNEL}"}}}}"#)]);
    loop {
        let Some(mut session) = attacker.open(None).await else { continue };
        let is_joined = attacker.send_batch(&mut session, &join).await;
        match index {
            0 if is_joined => {
                let mut pause = interval(Duration::from_secs(2) / BATCH_COMMANDS);
                while attacker.send_batch(&mut session, &leave).await
                    && attacker.send_batch(&mut session, &join).await
                {
                    pause.tick().await;
                }
            }
            0 => {}
            1 => _ = session.connection.send(CLOSE_SESSION).await,
            _ => attacker.read_to_end(&mut session).await,
        }
    }
}

/// Opens one session after the other, and sends each a batch of these commands.
async fn send_batches(attacker: &Attacker, command: impl Fn(u64, u32) -> String) {
    for round in 0_u64.. {
        let Some(mut session) = attacker.open(None).await else { continue };
        let commands = (1..=BATCH_COMMANDS).map(|id| command(round, id));
        attacker.send_batch(&mut session, &CommandBatch::of(commands)).await;
        session.connection.send(CLOSE_SESSION).await;
    }
}

fn subscribe(id: u32, channel: &str) -> String {
    format!(r#"{{"id":{id},"subscribe":{{"channel":"{channel}"}}}}"#)
}

pub(super) fn publish(id: u32, channel: &str, data: &str) -> String {
    format!(r#"{{"id":{id},"publish":{{"channel":"{channel}","data":{data}}}}}"#)
}
