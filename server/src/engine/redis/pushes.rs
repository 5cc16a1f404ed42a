//! What Redis says by itself, on its way from the connection to the task that follows channels. Nobody can tell Redis to wait, so whoever falls
//! too far behind loses the connection, and takes up again from the logs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use redis::aio::{AsyncPushSender, SendError};
use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Messages that wait.
const MOST_PUSHES: usize = 65_536;

/// Bytes of them.
const MOST_PUSHED_BYTES: usize = 64 * 1024 * 1024;

/// What Redis says.
#[derive(Debug)]
pub(super) struct Push {
    pub(super) kind: PushedAs,
    /// Where it was published; or a glob.
    pub(super) feed: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PushedAs {
    /// Redis was asked for what is published there.
    Message,
    /// The same, by a glob that stands for it.
    ByGlob,
    /// From here on it tells what this glob stands for.
    Confirmation,
}

impl Push {
    /// One message comes several times, if it was asked for in several ways: one right after the other, for Redis tells all of one before another.
    pub(super) fn repeats(&self, last: &Self) -> bool {
        self.kind == PushedAs::ByGlob && self.feed == last.feed && self.payload == last.payload
    }

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
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.pushes.len()
    }

    /// The next, if there is one already.
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
    let mut words = info.data.into_iter().map(|word| match word {
        Value::BulkString(bytes) => bytes,
        _ => Vec::new(),
    });
    let kind = match info.kind {
        PushKind::Message => PushedAs::Message,
        PushKind::PMessage => PushedAs::ByGlob,
        PushKind::PSubscribe => PushedAs::Confirmation,
        _ => return None,
    };
    if kind == PushedAs::ByGlob {
        // The glob.
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
    #[test]
    fn what_comes_by_a_glob_may_repeat_what_came_before() {
        let (sender, mut receiver) = pushes(CancellationToken::new());
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
        assert_eq!((confirmed.kind, &*confirmed.feed), (PushedAs::Confirmation, &b"f*"[..]));
        assert!(receiver.take().is_none());
        assert!(sender.send(PushInfo { kind: PushKind::PMessage, data: Vec::new() }).is_ok());
        assert!(receiver.take().is_none(), "not even a message");
    }
}
