//! Attacks with HTTP requests, or with what should become one.

use std::rc::Rc;
use std::time::Duration;

use encke_client::transport::{ResponseHead, Stream};
use tokio::io::{AsyncWriteExt, WriteHalf, copy, sink, split};
use tokio::time::interval;

use super::{Attacker, BATCH_COMMANDS};

const FILLER: &[u8] =
    b"X-Filler: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n";
const LINES: usize = 32;
const BYTE_EVERY: Duration = Duration::from_secs(1);
const CHANNELS: u32 = 50;

/// Connects and sends nothing, and reconnects whenever the server closes the connection.
///
/// The attack costs the attacker one socket per connection. A server should limit the number of connections
/// without a session. At the limit, it should close the oldest connection of the client that has the most of
/// them, and continue to admit other clients.
pub(super) async fn handshakes(attacker: Rc<Attacker>, _: u32) {
    loop {
        let Some(mut stream) = attacker.connect().await else { continue };
        attacker.count_response(ResponseHead::read(&mut stream).await);
    }
}

/// Begins a request and never ends its headers. Half of the attackers send headers as fast as they can, the
/// others a byte a second.
///
/// The attack costs the bytes that are sent. A server should read only a few kilobytes of a request's headers
/// (431), wait only a few seconds for their end (408, or close the connection), and use little memory in the
/// meantime.
pub(super) async fn headers(attacker: Rc<Attacker>, index: u32) {
    loop {
        let Some(stream) = attacker.connect().await else { continue };
        let (mut read, write) = split(stream);
        let answer = tokio::select! {
            answer = ResponseHead::read(&mut read) => answer,
            () = send_headers(&attacker, write, index) => ResponseHead::read(&mut read).await,
        };
        attacker.count_response(answer);
    }
}

/// Sends headers until the server accepts no more.
async fn send_headers(attacker: &Attacker, mut write: WriteHalf<Stream>, index: u32) {
    let host = attacker.url().authority();
    let begin = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n", attacker.url().path_with(""));
    let is_slow = !index.is_multiple_of(2);
    let piece = if is_slow { FILLER[..1].to_vec() } else { FILLER.repeat(LINES) };
    let mut next = interval(BYTE_EVERY);
    attacker.costs.count_sent(begin.len(), 1);
    let mut is_taken = write.write_all(begin.as_bytes()).await.is_ok();
    while is_taken {
        if is_slow {
            next.tick().await;
        }
        attacker.costs.count_sent(piece.len(), 0);
        is_taken = write.write_all(&piece).await.is_ok();
    }
}

/// Requests event streams. Every other connection requests a stream with many channels, and closes when the
/// stream begins; the others request streams without channels, a hundred requests at a time.
///
/// The attack costs 600 bytes for a session with 50 subscriptions, or 50 bytes for a refused request. A
/// server should apply its rate limit for commands to these requests.
pub(super) async fn events(attacker: Rc<Attacker>, index: u32) {
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
        attacker.costs.count_sent(request.len(), 1);
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
        let Some(stream) = attacker.connect().await else { continue };
        let (mut read, mut write) = split(stream);
        let writing = async {
            loop {
                attacker.costs.count_sent(requests.len(), BATCH_COMMANDS.into());
                if write.write_all(requests.as_bytes()).await.is_err() {
                    return;
                }
            }
        };
        let mut ignored = sink();
        tokio::select! {
            () = writing => {}
            _ = copy(&mut read, &mut ignored) => {}
        }
        attacker.costs.count_answer("cut");
    }
}
