//! A connection to Redis: bytes that are under way, and bytes that have come.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::task::{Context, Poll, Waker};

use encke_server::simulation::Socket;
use encke_sys::Unacknowledged;

use super::resp::Value;
use super::{Redis, RedisConnection};

#[derive(Debug, Default)]
pub(super) struct Connection {
    /// What the server has said, and Redis has not done.
    pub(super) said: Vec<u8>,
    /// What Redis has said, on its way.
    answers: Vec<u8>,
    arrived: VecDeque<u8>,
    pub(super) subscriptions: BTreeSet<String>,
    /// The commands of a transaction that has begun.
    pub(super) transaction: Option<Vec<Vec<String>>>,
    has_failed: bool,
    /// Nothing moves on it.
    pub(super) is_silent: bool,
    reader: Option<Waker>,
}

impl Connection {
    pub(super) fn say(&mut self, value: &Value) {
        value.write(&mut self.answers);
    }

    pub(super) fn is_open(&self) -> bool {
        !self.has_failed
    }

    pub(super) fn deliver(&mut self) {
        if self.is_silent || self.has_failed {
            return;
        }
        self.arrived.extend(self.answers.drain(..));
        self.wake();
    }

    pub(super) fn fail(&mut self) {
        self.has_failed = true;
        self.subscriptions.clear();
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }
}

/// The server's end of one.
#[derive(Debug)]
pub(super) struct ServerEnd {
    pub(super) redis: Redis,
    pub(super) number: RedisConnection,
}

impl Socket for ServerEnd {
    fn poll_receive(&mut self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut state = self.redis.0.lock();
        let Some(connection) = state.connections.get_mut(&self.number).filter(|it| it.is_open()) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        let count = connection.arrived.len().min(into.len());
        if count == 0 {
            connection.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        for (to, from) in into.iter_mut().zip(connection.arrived.drain(..count)) {
            *to = from;
        }
        Poll::Ready(Ok(count))
    }

    fn poll_send(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.redis.0.lock();
        let Some(connection) = state.connections.get_mut(&self.number).filter(|it| it.is_open()) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        connection.said.extend(bytes);
        state.news.push(self.number);
        Poll::Ready(Ok(bytes.len()))
    }

    fn end_stream(&mut self) {}

    fn holds_bytes(&self) -> bool {
        false
    }

    fn is_over(&self) -> bool {
        false
    }

    fn unacknowledged(&self) -> Unacknowledged {
        Unacknowledged::default()
    }
}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        self.redis.0.lock().connections.remove(&self.number);
    }
}
