//! Subscribes to a busy channel and reads nothing, so everything is queued in the server. The first
//! connection publishes to the channel.
//!
//! The attack costs one message for each published message, regardless of the number of subscribers that do
//! not read it. A server should limit the queue of each client, including the kernel's send buffer, and close
//! a client that reads nothing for several seconds.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::{interval, sleep, timeout};

use super::{Attacker, CommandBatch};

const DATA_BYTES: usize = 60_000;
const PUBLISH_EVERY: Duration = Duration::from_millis(50);
/// Receive buffer of the attacker's kernel, which doubles this value.
const RECEIVE_BUFFER_BYTES: u32 = 4 * 1024;
/// How long a connection is kept, even if the server closes it earlier: the attacker does not read, so it
/// cannot notice.
const KEEP_TIME: Duration = Duration::from_secs(30);

pub(super) async fn run(attacker: Rc<Attacker>, index: u32) {
    if index == 0 { publish(&attacker).await } else { subscribe(&attacker).await }
}

async fn publish(attacker: &Attacker) -> ! {
    let data = "x".repeat(DATA_BYTES);
    let command = format!(r#"{{"id":1,"publish":{{"channel":"abuse","data":"{data}"}}}}"#);
    let batch = CommandBatch::of([command]);
    loop {
        let Some(mut session) = attacker.open(None).await else { continue };
        let mut next = interval(PUBLISH_EVERY);
        loop {
            next.tick().await;
            if !attacker.send_batch(&mut session, &batch).await {
                break;
            }
        }
    }
}

async fn subscribe(attacker: &Attacker) -> ! {
    let batch = CommandBatch::of([r#"{"id":1,"subscribe":{"channel":"abuse"}}"#.to_owned()]);
    loop {
        let Some(mut session) = attacker.open_with(None, Some(RECEIVE_BUFFER_BYTES)).await else { continue };
        if attacker.send_batch(&mut session, &batch).await {
            session.connection.allow_reading(0);
            // This ends early only if queued data cannot be written.
            let _ = timeout(KEEP_TIME, attacker.read_to_end(&mut session)).await;
        } else {
            sleep(PUBLISH_EVERY).await;
        }
    }
}
