//! Tests of [`WebSocket`] over an in-memory stream.

use std::future::poll_fn;
use std::ops::ControlFlow;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::super::end::ConnectionEnd;
use super::super::socket::WebSocket;
use super::*;

impl WebSocket<DuplexStream> {
    async fn each<T>(
        &mut self,
        mut on_incoming: impl FnMut(Incoming<'_>) -> ControlFlow<T>,
    ) -> Result<T, ConnectionEnd> {
        poll_fn(|context| self.poll_each(context, &mut on_incoming)).await
    }
}

/// Returns the first byte and the payload of a short frame from the client, and the bytes that follow the
/// frame.
fn unmasked(frame: &[u8]) -> (u8, Vec<u8>, &[u8]) {
    let length = usize::from(frame[1] & 0x7F);
    let (key, payload) = frame[2..6 + length].split_at(4);
    let payload = payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
    (frame[0], payload, &frame[6 + length..])
}

#[tokio::test]
async fn pings_are_answered_and_later_frames_stay_buffered() {
    let (near, mut far) = duplex(1024);
    let mut socket = WebSocket::new(near, b"\x81\x01a".to_vec());
    far.write_all(b"\x89\x02hi\x81\x01b\x81\x01c\x88\x02\x0f\xa0\x81\x01d")
        .await
        .expect("the stream has room");
    let mut heard = Vec::new();
    for _ in 0..4 {
        let event = socket.each(|incoming| ControlFlow::Break(owned(incoming))).await;
        heard.push(event.expect("there is another event"));
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
    assert_eq!(end, Err(ConnectionEnd::Closed(Some(4000))), "frames after the Close frame are ignored");
    drop(socket);
    let mut sent = Vec::new();
    far.read_to_end(&mut sent).await.expect("an in-memory stream does not fail");
    let (pong, payload, rest) = unmasked(&sent);
    assert_eq!((pong, payload.as_slice()), (0x8A, &b"hi"[..]));
    let (close, payload, rest) = unmasked(rest);
    assert_eq!((close, payload.as_slice(), rest), (0x88, &b"\x0f\xa0"[..], &b""[..]));
}

#[tokio::test]
async fn a_mute_socket_sends_nothing() {
    let (near, mut far) = duplex(1024);
    let mut socket = WebSocket::new(near, Vec::new());
    socket.mute();
    far.write_all(b"\x89\x00\x88\x00").await.expect("the stream has room");
    let mut pings = 0;
    let end = socket
        .each(|_| {
            pings += 1;
            ControlFlow::<()>::Continue(())
        })
        .await;
    socket.send_text("lost").await.expect("the text is discarded");
    assert_eq!((pings, end), (1, Err(ConnectionEnd::Closed(None))));
    drop(socket);
    let mut sent = Vec::new();
    far.read_to_end(&mut sent).await.expect("an in-memory stream does not fail");
    assert_eq!(sent, b"");
}

#[tokio::test]
async fn without_answers_only_explicit_pongs_are_sent() {
    let (near, mut far) = duplex(1024);
    let mut socket = WebSocket::new(near, Vec::new());
    socket.disable_answers();
    far.write_all(b"\x89\x01a").await.expect("the stream has room");
    let ping = socket.each(|incoming| ControlFlow::Break(owned(incoming))).await;
    assert_eq!(ping, Ok(Incoming::Ping(b"a".into())));
    socket.send_pong(b"b").await.expect("the peer reads");
    drop(socket);
    let mut sent = Vec::new();
    far.read_to_end(&mut sent).await.expect("an in-memory stream does not fail");
    assert_eq!(unmasked(&sent).1, b"b");
}

#[tokio::test]
async fn ends_are_distinguished() {
    for (bytes, expected) in [
        (&b""[..], ConnectionEnd::NoCloseFrame),
        (b"\x81", ConnectionEnd::NoCloseFrame),
        (b"\x88\x00", ConnectionEnd::Closed(None)),
        (b"\x81\x80\0\0\0\0", ConnectionEnd::Fault(ProtocolFault::Masked)),
    ] {
        let (near, mut far) = duplex(1024);
        let mut socket = WebSocket::new(near, Vec::new());
        far.write_all(bytes).await.expect("the stream has room");
        far.shutdown().await.expect("an in-memory stream does not fail");
        assert_eq!(socket.each(|_| ControlFlow::<()>::Continue(())).await, Err(expected));
    }
}

/// Tests a server that pings without reading: it gets no more answers than fit into the buffer.
#[tokio::test]
async fn unread_answers_do_not_pile_up() {
    let (near, mut far) = duplex(1024);
    let mut socket = WebSocket::new(near, Vec::new());
    let pings = frame(0x89, &[0; 125]).repeat(100);
    let flood = async move {
        loop {
            far.write_all(&pings).await.expect("the client is connected");
        }
    };
    let listen = socket.each(|_| ControlFlow::<()>::Continue(()));
    // In an in-memory stream, nothing more happens once the client stops reading.
    let long_enough = async {
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = long_enough => {}
        _ = flood => unreachable!("the flood never ends"),
        end = listen => panic!("{end:?}"),
    }
    assert!(socket.unwritten_bytes() < 128 * 1024, "{}", socket.unwritten_bytes());
}
