//! Simulated connections to Redis, with the bytes in transit and the bytes received.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::task::{Context, Poll, Waker};

use encke_server::testing::simulation::SimulatedSocket;
use encke_sys::Unacknowledged;

use super::resp::RespValue;
use super::{Redis, RedisConnection};

#[derive(Debug, Default)]
pub(super) struct RedisLink {
    /// Bytes from the server that Redis has not processed.
    pub(super) received: Vec<u8>,
    /// Bytes from Redis in transit.
    answers: Vec<u8>,
    arrived: VecDeque<u8>,
    pub(super) subscriptions: BTreeSet<String>,
    /// Queued commands of an open transaction.
    pub(super) transaction: Option<Vec<Vec<String>>>,
    has_failed: bool,
    /// Whether transmission has stopped although the connection is open.
    pub(super) is_silent: bool,
    reader: Option<Waker>,
}

impl RedisLink {
    pub(super) fn send(&mut self, value: &RespValue) {
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

/// The server's end of a connection.
#[derive(Debug)]
pub(super) struct ServerEnd {
    pub(super) redis: Redis,
    pub(super) number: RedisConnection,
}

impl SimulatedSocket for ServerEnd {
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
        connection.received.extend(bytes);
        state.changed.push(self.number);
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
