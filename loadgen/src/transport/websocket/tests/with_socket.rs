//! Over a stream in memory.

use std::future::poll_fn;
use std::ops::ControlFlow;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::super::end::End;
use super::super::socket::Socket;
use super::*;

impl Socket<DuplexStream> {
    async fn each<T>(
        &mut self,
        mut on_incoming: impl FnMut(Incoming<'_>) -> ControlFlow<T>,
    ) -> Result<T, End> {
        poll_fn(|context| self.poll_each(context, &mut on_incoming)).await
    }
}

/// The payload of a short frame from the client, and what follows it.
fn unmasked(frame: &[u8]) -> (u8, Vec<u8>, &[u8]) {
    let length = usize::from(frame[1] & 0x7F);
    let (key, payload) = frame[2..6 + length].split_at(4);
    let payload = payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
    (frame[0], payload, &frame[6 + length..])
}

#[tokio::test]
async fn pings_are_answered_and_what_follows_an_event_waits() {
    let (near, mut far) = duplex(1024);
    let mut socket = Socket::new(near, b"\x81\x01a".to_vec());
    far.write_all(b"\x89\x02hi\x81\x01b\x81\x01c\x88\x02\x0f\xa0\x81\x01d").await.expect("it has room");
    let mut heard = Vec::new();
    for _ in 0..4 {
        let event = socket.each(|incoming| ControlFlow::Break(owned(incoming))).await;
        heard.push(event.expect("there is more"));
    }
    assert_eq!(
        heard,
        [
            Incoming::Text("a".into()),
            Incoming::Ping(b"hi".into()),
            Incoming::Text("b".into()),
            Incoming::Text("c".into())
        ]
    );
    let end = socket.each(|_| ControlFlow::<()>::Continue(())).await;
    assert_eq!(end, Err(End::Closed(Some(4000))), "after which nothing counts");
    drop(socket);
    let mut sent = Vec::new();
    far.read_to_end(&mut sent).await.expect("it is a stream in memory");
    let (pong, payload, rest) = unmasked(&sent);
    assert_eq!((pong, payload.as_slice()), (0x8A, &b"hi"[..]));
    let (close, payload, rest) = unmasked(rest);
    assert_eq!((close, payload.as_slice(), rest), (0x88, &b"\x0f\xa0"[..], &b""[..]));
}

#[tokio::test]
async fn mute_means_mute() {
    let (near, mut far) = duplex(1024);
    let mut socket = Socket::new(near, Vec::new());
    socket.mute();
    far.write_all(b"\x89\x00\x88\x00").await.expect("it has room");
    let mut pings = 0;
    let end = socket
        .each(|_| {
            pings += 1;
            ControlFlow::<()>::Continue(())
        })
        .await;
    socket.send_text("lost").await.expect("it is swallowed");
    assert_eq!((pings, end), (1, Err(End::Closed(None))));
    drop(socket);
    let mut sent = Vec::new();
    far.read_to_end(&mut sent).await.expect("it is a stream in memory");
    assert_eq!(sent, b"");
}

#[tokio::test]
async fn without_answers_a_pong_leaves_when_it_is_sent() {
    let (near, mut far) = duplex(1024);
    let mut socket = Socket::new(near, Vec::new());
    socket.stop_answering();
    far.write_all(b"\x89\x01a").await.expect("it has room");
    let ping = socket.each(|incoming| ControlFlow::Break(owned(incoming))).await;
    assert_eq!(ping, Ok(Incoming::Ping(b"a".into())));
    socket.send_pong(b"b").await.expect("somebody listens");
    drop(socket);
    let mut sent = Vec::new();
    far.read_to_end(&mut sent).await.expect("it is a stream in memory");
    assert_eq!(unmasked(&sent).1, b"b");
}

#[tokio::test]
async fn ends_are_told_apart() {
    for (bytes, expected) in [
        (&b""[..], End::Cut),
        (b"\x81", End::Cut),
        (b"\x88\x00", End::Closed(None)),
        (b"\x81\x80\0\0\0\0", End::Fault(Fault::Masked)),
    ] {
        let (near, mut far) = duplex(1024);
        let mut socket = Socket::new(near, Vec::new());
        far.write_all(bytes).await.expect("it has room");
        far.shutdown().await.expect("it is a stream in memory");
        assert_eq!(socket.each(|_| ControlFlow::<()>::Continue(())).await, Err(expected));
    }
}

/// A server that pings without reading gets no more than it has room for.
#[tokio::test]
async fn answers_nobody_reads_do_not_pile_up() {
    let (near, mut far) = duplex(1024);
    let mut socket = Socket::new(near, Vec::new());
    let pings = frame(0x89, &[0; 125]).repeat(100);
    let flood = async move {
        loop {
            far.write_all(&pings).await.expect("the client is there");
        }
    };
    let listen = socket.each(|_| ControlFlow::<()>::Continue(()));
    // In a stream of memory, nothing moves any more as soon as the client stops reading.
    let long_enough = async {
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = long_enough => {}
        _ = flood => unreachable!("it has no end"),
        end = listen => panic!("{end:?}"),
    }
    assert!(socket.unwritten_bytes() < 128 * 1024, "{}", socket.unwritten_bytes());
}
