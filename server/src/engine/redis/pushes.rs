//! What Redis says by itself, on its way from the connection to the task that follows channels. Nobody can tell Redis to wait, so whoever falls
//! too far behind loses the connection, and takes up again from the logs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::aio::{AsyncPushSender, SendError};
use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Messages that wait.
const MOST_PUSHES: usize = 65_536;

/// Bytes of them.
const MOST_PUSHED_BYTES: usize = 64 * 1024 * 1024;

/// A message that was published in Redis.
#[derive(Debug)]
pub(super) struct Push {
    /// Where.
    pub(super) feed: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

impl Push {
    fn bytes(&self) -> usize {
        self.feed.len() + self.payload.len()
    }
}

/// The connection's end.
#[derive(Debug)]
pub(super) struct PushSender {
    pushes: mpsc::Sender<Push>,
    bytes: Arc<AtomicUsize>,
    /// Of the connection.
    over: CancellationToken,
}

/// The task's end.
#[derive(Debug)]
pub(super) struct Pushes {
    pushes: mpsc::Receiver<Push>,
    bytes: Arc<AtomicUsize>,
}

/// Both ends, for the connection that this token ends.
pub(super) fn pushes(over: CancellationToken) -> (PushSender, Pushes) {
    let (sender, receiver) = mpsc::channel(MOST_PUSHES);
    let bytes = Arc::new(AtomicUsize::new(0));
    (PushSender { pushes: sender, bytes: Arc::clone(&bytes), over }, Pushes { pushes: receiver, bytes })
}

impl Pushes {
    pub(super) fn poll_next(&mut self, task: &mut std::task::Context<'_>) -> std::task::Poll<Option<Push>> {
        let next = self.pushes.poll_recv(task);
        if let std::task::Poll::Ready(Some(push)) = &next {
            self.bytes.fetch_sub(push.bytes(), Ordering::Relaxed);
        }
        next
    }
}

impl AsyncPushSender for PushSender {
    fn send(&self, info: PushInfo) -> Result<(), SendError> {
        let Some(push) = message(info) else { return Ok(()) };
        let bytes = push.bytes();
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > MOST_PUSHED_BYTES || self.pushes.try_send(push).is_err() {
            self.over.cancel();
            return Err(SendError);
        }
        Ok(())
    }
}

fn message(info: PushInfo) -> Option<Push> {
    let (PushKind::Message, Ok([Value::BulkString(feed), Value::BulkString(payload)])) =
        (info.kind, <[Value; 2]>::try_from(info.data))
    else {
        return None;
    };
    Some(Push { feed, payload })
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn info(kind: PushKind, payload: Vec<u8>) -> PushInfo {
        PushInfo { kind, data: vec![Value::BulkString(b"c".to_vec()), Value::BulkString(payload)] }
    }

    #[test]
    fn whoever_falls_behind_loses_the_connection() {
        let over = CancellationToken::new();
        let (sender, mut receiver) = pushes(over.clone());
        let half = vec![0; MOST_PUSHED_BYTES / 2];
        assert!(sender.send(info(PushKind::Message, half.clone())).is_ok());
        let next = receiver.poll_next(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(next, Poll::Ready(Some(_))), "{next:?}");
        assert!(sender.send(info(PushKind::Message, half.clone())).is_ok());
        assert!(!over.is_cancelled());
        assert!(sender.send(info(PushKind::Message, half)).is_err());
        assert!(over.is_cancelled());
    }

    #[test]
    fn there_may_be_so_many() {
        let over = CancellationToken::new();
        let (sender, _receiver) = pushes(over.clone());
        for _ in 0..MOST_PUSHES {
            assert!(sender.send(info(PushKind::Message, Vec::new())).is_ok());
        }
        assert!(sender.send(info(PushKind::Subscribe, Vec::new())).is_ok(), "not a message");
        assert!(sender.send(info(PushKind::Message, Vec::new())).is_err());
        assert!(over.is_cancelled());
    }
}
