//! Tests of [`WebSocket`] over an in-memory stream.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::pin;
use std::task::{Context, Waker};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::end::{ConnectionEnd, ProtocolFault};
use super::frame::Opcode;
use super::reader::Incoming;
use super::reader_tests::{frame, owned};
use super::socket::WebSocket;

impl WebSocket<DuplexStream> {
    async fn each<T>(
        &mut self,
        mut on_incoming: impl FnMut(Incoming<'_>) -> ControlFlow<T>,
    ) -> Result<T, ConnectionEnd> {
        poll_fn(|context| self.poll_each(context, &mut on_incoming)).await
    }
}

/// Returns a socket to which these bytes have been sent, and the server's side.
async fn open(bytes: &[u8]) -> (WebSocket<DuplexStream>, DuplexStream) {
    let (near, mut far) = duplex(1024);
    far.write_all(bytes).await.expect("the stream has room");
    (WebSocket::new(near, b"\x81\x01a".to_vec()), far)
}

/// Returns the first byte and the payload of each short frame that the client has sent.
async fn sent(socket: WebSocket<DuplexStream>, mut far: DuplexStream) -> Vec<(u8, Vec<u8>)> {
    drop(socket);
    let (mut bytes, mut frames) = (Vec::new(), Vec::new());
    far.read_to_end(&mut bytes).await.expect("an in-memory stream does not fail");
    let mut rest = bytes.as_slice();
    while let [first, length, key_and_payload @ ..] = rest {
        let (key, payload) = key_and_payload.split_at(4);
        let (payload, after) = payload.split_at(usize::from(length & 0x7F));
        frames.push((*first, payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect()));
        rest = after;
    }
    frames
}

#[tokio::test]
async fn pings_are_answered_and_later_frames_stay_buffered() {
    let (mut socket, far) = open(b"\x89\x02hi\x81\x01b\x81\x01c\x88\x02\x0f\xa0\x81\x01d").await;
    for expected in [
        Incoming::Text("a".into()),
        Incoming::Ping(b"hi".into()),
        Incoming::Text("b".into()),
        Incoming::Text("c".into()),
    ] {
        let incoming = socket.each(|incoming| ControlFlow::Break(owned(incoming))).await;
        assert_eq!(incoming, Ok(expected));
    }
    let end = socket.each(|_| ControlFlow::<()>::Continue(())).await;
    assert_eq!(end, Err(ConnectionEnd::Closed(Some(4000))), "frames after the Close frame are ignored");
    assert_eq!(sent(socket, far).await, [(0x8A, b"hi".to_vec()), (0x88, b"\x0f\xa0".to_vec())]);
}

#[tokio::test]
async fn a_mute_socket_sends_nothing() {
    let (mut socket, far) = open(b"\x89\x00\x88\x00").await;
    socket.mute();
    let end = socket.each(|_| ControlFlow::<()>::Continue(())).await;
    assert_eq!(end, Err(ConnectionEnd::Closed(None)));
    socket.send(Opcode::Text, b"lost").await.expect("the text is discarded");
    assert_eq!(sent(socket, far).await, []);
}

#[tokio::test]
async fn ends_are_distinguished() {
    for (bytes, expected) in [
        (&b""[..], ConnectionEnd::NoCloseFrame),
        (b"\x81", ConnectionEnd::NoCloseFrame),
        (b"\x88\x00", ConnectionEnd::Closed(None)),
        (b"\x81\x80\0\0\0\0", ConnectionEnd::Fault(ProtocolFault::Masked)),
    ] {
        let (mut socket, mut far) = open(bytes).await;
        far.shutdown().await.expect("an in-memory stream does not fail");
        assert_eq!(socket.each(|_| ControlFlow::<()>::Continue(())).await, Err(expected));
    }
}

/// Tests a server that pings without reading: it gets no more answers than fit into the buffer.
#[test]
fn unread_answers_do_not_pile_up() {
    let (near, mut far) = duplex(1024);
    let mut socket = WebSocket::new(near, Vec::new());
    let pings = frame(0x89, &[0; 125]).repeat(100);
    let mut flood = pin!(async { while far.write_all(&pings).await.is_ok() {} });
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..10_000 {
        assert!(flood.as_mut().poll(&mut context).is_pending());
        let listening = socket.poll_each(&mut context, &mut |_| ControlFlow::<()>::Continue(()));
        assert!(listening.is_pending());
    }
    assert!((64 * 1024..128 * 1024).contains(&socket.unwritten_bytes()), "{}", socket.unwritten_bytes());
}
