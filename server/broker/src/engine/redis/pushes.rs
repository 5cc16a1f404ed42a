//! RESP3 pushes on their way from the connection to the feed task. Redis has no flow control for pushes, so
//! a receiver that falls too far behind loses the connection, and catches up from the logs afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use redis::aio::{AsyncPushSender, SendError};
use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Maximum number of queued messages.
const MAX_PUSHES: usize = 65_536;

/// Maximum size of all queued messages in bytes.
const MAX_PUSHED_BYTES: usize = 64 * 1024 * 1024;

/// A message pushed by Redis.
#[derive(Debug)]
pub(super) struct Push {
    pub(super) kind: PushType,
    /// Pub/sub channel to which the message was published; for a confirmation, the glob.
    pub(super) feed: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PushType {
    /// Received through a subscription to the feed itself.
    Message,
    /// Received through a glob that matches the feed.
    ByGlob,
    /// Confirmation of a glob: matching messages are pushed from now on.
    Confirmation,
}

impl Push {
    /// Whether this is another copy of `last`. Redis pushes a message once per matching subscription, and all
    /// copies in direct succession.
    pub(super) fn repeats(&self, last: &Self) -> bool {
        self.kind == PushType::ByGlob && self.feed == last.feed && self.payload == last.payload
    }

    fn bytes(&self) -> usize {
        self.feed.len() + self.payload.len()
    }
}

/// Sending half, held by the connection.
#[derive(Debug)]
pub(super) struct PushSender {
    pushes: mpsc::Sender<Push>,
    bytes: Arc<AtomicUsize>,
    /// Closes the connection when cancelled.
    closed: CancellationToken,
}

/// Receiving half, held by the feed task.
#[derive(Debug)]
pub(super) struct PushReceiver {
    pushes: mpsc::Receiver<Push>,
    bytes: Arc<AtomicUsize>,
}

/// Creates the queue for a connection that closes when `closed` is cancelled.
pub(super) fn push_queue(closed: CancellationToken) -> (PushSender, PushReceiver) {
    let (sender, receiver) = mpsc::channel(MAX_PUSHES);
    let bytes = Arc::new(AtomicUsize::new(0));
    (
        PushSender { pushes: sender, bytes: Arc::clone(&bytes), closed },
        PushReceiver { pushes: receiver, bytes },
    )
}

impl PushReceiver {
    pub(super) fn len(&self) -> usize {
        self.pushes.len()
    }

    /// Takes the next message, if one is queued.
    pub(super) fn take(&mut self) -> Option<Push> {
        match self.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(push) => push,
            Poll::Pending => None,
        }
    }

    pub(super) fn poll_next(&mut self, task: &mut Context<'_>) -> Poll<Option<Push>> {
        let next = self.pushes.poll_recv(task);
        if let Poll::Ready(Some(push)) = &next {
            self.bytes.fetch_sub(push.bytes(), Ordering::Relaxed);
        }
        next
    }
}

impl AsyncPushSender for PushSender {
    fn send(&self, info: PushInfo) -> Result<(), SendError> {
        let Some(push) = parse_push(info) else { return Ok(()) };
        let bytes = push.bytes();
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > MAX_PUSHED_BYTES || self.pushes.try_send(push).is_err() {
            self.closed.cancel();
            return Err(SendError);
        }
        Ok(())
    }
}

fn parse_push(info: PushInfo) -> Option<Push> {
    let mut words = info.data.into_iter().map(|word| match word {
        Value::BulkString(bytes) => bytes,
        _ => Vec::new(),
    });
    let kind = match info.kind {
        PushKind::Message => PushType::Message,
        PushKind::PMessage => PushType::ByGlob,
        PushKind::PSubscribe => PushType::Confirmation,
        _ => return None,
    };
    if kind == PushType::ByGlob {
        // Skip the glob.
        words.next()?;
    }
    Some(Push { kind, feed: words.next()?, payload: words.next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(kind: PushKind, payload: Vec<u8>) -> PushInfo {
        PushInfo { kind, data: vec![Value::BulkString(b"c".to_vec()), Value::BulkString(payload)] }
    }

    #[test]
    fn slow_receiver_loses_the_connection() {
        let closed = CancellationToken::new();
        let (sender, mut receiver) = push_queue(closed.clone());
        let half = vec![0; MAX_PUSHED_BYTES / 2];
        assert!(sender.send(info(PushKind::Message, half.clone())).is_ok());
        let next = receiver.poll_next(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(next, Poll::Ready(Some(_))), "{next:?}");
        assert!(sender.send(info(PushKind::Message, half.clone())).is_ok());
        assert!(!closed.is_cancelled());
        assert!(sender.send(info(PushKind::Message, half)).is_err());
        assert!(closed.is_cancelled());
    }

    #[test]
    fn number_of_queued_pushes_is_limited() {
        let closed = CancellationToken::new();
        let (sender, _receiver) = push_queue(closed.clone());
        for _ in 0..MAX_PUSHES {
            assert!(sender.send(info(PushKind::Message, Vec::new())).is_ok());
        }
        assert!(
            sender.send(info(PushKind::Subscribe, Vec::new())).is_ok(),
            "confirmations of subscriptions are ignored"
        );
        assert!(sender.send(info(PushKind::Message, Vec::new())).is_err());
        assert!(closed.is_cancelled());
    }
    #[test]
    fn copies_received_through_globs_are_recognized() {
        let (sender, mut receiver) = push_queue(CancellationToken::new());
        let mut push = |kind, words: &[&str]| {
            let data = words.iter().map(|word| Value::BulkString(word.as_bytes().to_vec())).collect();
            assert!(sender.send(PushInfo { kind, data }).is_ok());
            receiver.take().expect("a push")
        };
        let message = push(PushKind::Message, &["feed", "1"]);
        let by_glob = push(PushKind::PMessage, &["f*", "feed", "1"]);
        assert_eq!((&*by_glob.feed, &*by_glob.payload), (&b"feed"[..], &b"1"[..]));
        assert!(by_glob.repeats(&message) && !message.repeats(&by_glob));
        assert!(!push(PushKind::PMessage, &["f*", "feed", "2"]).repeats(&by_glob));
        assert!(!push(PushKind::PMessage, &["f*", "food", "1"]).repeats(&by_glob));
        let confirmed = push(PushKind::PSubscribe, &["f*", ""]);
        assert_eq!((confirmed.kind, &*confirmed.feed), (PushType::Confirmation, &b"f*"[..]));
        assert!(receiver.take().is_none());
        assert!(sender.send(PushInfo { kind: PushKind::PMessage, data: Vec::new() }).is_ok());
        assert!(receiver.take().is_none(), "a push without data is ignored");
    }
}
