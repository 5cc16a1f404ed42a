//! Subscribes to a busy channel and reads nothing, so that everything waits at the server. The first connection publishes to it.
//!
//! The attacker pays what it publishes, once, however many do not read it. A server should bound what waits for each client, in the
//! kernel as well, and close a client that takes nothing for some seconds.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::{interval, sleep, timeout};

use super::{Attacker, Batch};

const DATA_BYTES: usize = 60_000;
const PUBLISH_EVERY: Duration = Duration::from_millis(50);
/// What the attacker's own kernel takes in; it doubles this.
const RECEIVE_BUFFER_BYTES: u32 = 4 * 1024;
/// How long a connection is kept, although it may have been closed: nothing is read, not even that.
const KEEP: Duration = Duration::from_secs(30);

pub(super) async fn run(attacker: Rc<Attacker>, index: u32) {
    if index == 0 { publish(&attacker).await } else { subscribe(&attacker).await }
}

async fn publish(attacker: &Attacker) -> ! {
    let data = "x".repeat(DATA_BYTES);
    let command = format!(r#"{{"id":1,"publish":{{"channel":"abuse","data":"{data}"}}}}"#);
    let batch = Batch::of([command]);
    loop {
        let Some(mut session) = attacker.open(None).await else { continue };
        let mut next = interval(PUBLISH_EVERY);
        loop {
            next.tick().await;
            if !attacker.ask(&mut session, &batch).await {
                break;
            }
        }
    }
}

async fn subscribe(attacker: &Attacker) -> ! {
    let batch = Batch::of([r#"{"id":1,"subscribe":{"channel":"abuse"}}"#.to_owned()]);
    loop {
        let Some(mut session) = attacker.open_with(None, Some(RECEIVE_BUFFER_BYTES)).await else { continue };
        if attacker.ask(&mut session, &batch).await {
            session.connection.allow_reading(0);
            // It ends only if what was sent before cannot be written.
            let _ = timeout(KEEP, attacker.listen(&mut session)).await;
        } else {
            sleep(PUBLISH_EVERY).await;
        }
    }
}
