//! Requests event streams. Every other connection requests a stream with many channels, and closes when the
//! stream begins; the others request streams without channels, a hundred requests at a time.
//!
//! The attack costs 600 bytes for a session with 50 subscriptions, or 50 bytes for a refused request. A
//! server should apply its rate limit for commands to these requests.

use std::rc::Rc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Attacker, BATCH_COMMANDS};
use crate::transport::ResponseHead;

const CHANNELS: u32 = 50;
const READ_BYTES: usize = 16 * 1024;

pub(super) async fn run(attacker: Rc<Attacker>, index: u32) {
    if index.is_multiple_of(2) {
        request_streams(&attacker, index).await
    } else {
        request_without_channels(&attacker).await
    }
}

async fn request_streams(attacker: &Attacker, index: u32) {
    let host = attacker.url().authority();
    for round in 0_u64.. {
        let channels: Vec<_> = (0..CHANNELS).map(|it| format!("abuse-{index}-{round}-{it}")).collect();
        let request = format!("GET /events?channels={} HTTP/1.1\r\nHost: {host}\r\n\r\n", channels.join(","));
        let Some(mut stream) = attacker.connect().await else { continue };
        attacker.count_sent(request.len(), 1);
        let answer = match stream.write_all(request.as_bytes()).await {
            Ok(()) => ResponseHead::read(&mut stream).await,
            Err(error) => Err(error.into()),
        };
        attacker.count_response(answer);
    }
}

async fn request_without_channels(attacker: &Attacker) -> ! {
    let request = format!("GET /events HTTP/1.1\r\nHost: {}\r\n\r\n", attacker.url().authority());
    let requests = request.repeat(BATCH_COMMANDS as usize);
    loop {
        let Some(mut stream) = attacker.connect().await else { continue };
        let (mut read, mut write) = stream.split();
        let writing = async {
            loop {
                attacker.count_sent(requests.len(), BATCH_COMMANDS.into());
                if write.write_all(requests.as_bytes()).await.is_err() {
                    return;
                }
            }
        };
        let reading = async {
            let mut buffer = vec![0; READ_BYTES];
            while matches!(read.read(&mut buffer).await, Ok(1..)) {}
        };
        tokio::select! {
            () = writing => {}
            () = reading => {}
        }
        attacker.count_answer("cut");
    }
}
