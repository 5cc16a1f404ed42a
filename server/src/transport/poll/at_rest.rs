//! A poll at rest: what of it is left without a task. Whatever there is to answer wakes it.

use std::future::Future;
use std::marker::PhantomData;

use encke_core::Timestamp;
use encke_core::dialect::DialectName;

use super::connection::Connection;
use super::form::Form;
use crate::client::Context;
use crate::session::{Heard, Remains, SessionCell, SessionOutbox, Share, Transport};
use crate::transport::Socket;
use crate::transport::at_rest::{Awake, RestingSocketOf, Rests, rest as rest_as};

/// What goes with a poll, also while it is at rest, and goes on with its connection afterwards.
pub(crate) trait Polls<S, F>: Send + 'static {
    /// What the task of the connection does, from a poll on that has been at rest.
    fn go_on(self, poll: Connection<S, F>) -> impl Future<Output: Send + 'static> + Send + 'static;
}

struct Resting<S, F, P> {
    form: F,
    headers: Box<[u8]>,
    keep_alive: bool,
    polls: P,
    becomes: PhantomData<fn() -> S>,
}

/// A poll goes to rest; the task of its connection ends.
pub(crate) fn rest<S: Socket, F: Form, P: Polls<S, F>>(poll: Connection<S, F>, polls: P) {
    let (awake, form, headers, keep_alive) = poll.into_quiet();
    rest_as(awake, Resting { form, headers, keep_alive, polls, becomes: PhantomData });
}

impl<S: Socket, F: Form, P: Polls<S, F>> Rests for Resting<S, F, P> {
    type Socket = S;
    const TRANSPORT: Transport = Transport::Poll;

    fn dialect(&self) -> DialectName {
        F::DIALECT
    }

    /// The next request, or part of it.
    fn heard(&mut self, _: &Context, _: &SessionCell, bytes: &[u8], _: Timestamp) -> Heard {
        Heard::Other(Remains { read: bytes.to_vec(), ..Remains::default() })
    }

    fn is_alive(&self, _: &RestingSocketOf<Self>) -> bool {
        false
    }

    /// A poll gets none.
    fn ping(&mut self, sent: u64, _: &mut Vec<u8>) -> u64 {
        sent
    }

    /// An answer ends a poll.
    fn may_send(&self) -> bool {
        false
    }

    fn take(&mut self, _: &SessionCell, _: &mut SessionOutbox, _: &mut Vec<u8>) -> Share {
        Share::default()
    }

    fn wake(self, awake: Awake<S>, remains: Remains) -> impl Future<Output: Send + 'static> + Send + 'static {
        let Self { form, headers, keep_alive, polls, .. } = self;
        polls.go_on(Connection::woken(awake, form, headers, keep_alive, remains.read))
    }
}
