//! Asks for streams of events. Every other connection asks for one with many channels, and leaves when it begins; the others ask for
//! streams of no channel, a hundred requests at once.
//!
//! The attacker pays 600 bytes for a session with 50 subscriptions, or 50 for a refusal. A server should rate these requests as it does
//! commands.

use std::rc::Rc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Attacker, BATCH};
use crate::transport::ResponseHead;

const CHANNELS: u32 = 50;
const READ_BYTES: usize = 16 * 1024;

pub(super) async fn run(attacker: Rc<Attacker>, index: u32) {
    if index.is_multiple_of(2) { follow(&attacker, index).await } else { ask(&attacker).await }
}

async fn follow(attacker: &Attacker, index: u32) {
    let host = attacker.url().authority();
    for round in 0_u64.. {
        let channels: Vec<_> = (0..CHANNELS).map(|it| format!("abuse-{index}-{round}-{it}")).collect();
        let request = format!("GET /events?channels={} HTTP/1.1\r\nHost: {host}\r\n\r\n", channels.join(","));
        let Some(mut stream) = attacker.stream().await else { continue };
        attacker.sent(request.len(), 1);
        let answer = match stream.write_all(request.as_bytes()).await {
            Ok(()) => ResponseHead::read(&mut stream).await,
            Err(error) => Err(error.into()),
        };
        attacker.head(answer);
    }
}

async fn ask(attacker: &Attacker) -> ! {
    let request = format!("GET /events HTTP/1.1\r\nHost: {}\r\n\r\n", attacker.url().authority());
    let requests = request.repeat(BATCH as usize);
    loop {
        let Some(mut stream) = attacker.stream().await else { continue };
        let (mut read, mut write) = stream.split();
        let write_on = async {
            loop {
                attacker.sent(requests.len(), BATCH.into());
                if write.write_all(requests.as_bytes()).await.is_err() {
                    return;
                }
            }
        };
        let read_on = async {
            let mut buffer = vec![0; READ_BYTES];
            while matches!(read.read(&mut buffer).await, Ok(1..)) {}
        };
        tokio::select! {
            () = write_on => {}
            () = read_on => {}
        }
        attacker.answer("cut");
    }
}
