//! Parked polls. A poll is unparked as soon as there is anything to respond with.

use std::future::Future;
use std::marker::PhantomData;

use encke_core::Timestamp;
use encke_core::dialect::DialectName;

use super::connection::PollConnection;
use super::response_writer::PollResponseWriter;
use crate::client::Services;
use crate::session::{DeliveryBatch, PendingWork, ReadOutcome, SessionCell, SessionOutbox, Transport};
use crate::transport::Socket;
use crate::transport::parked::{ConnectionParts, ParkableTransport, ParkedStateOf, park as park_connection};

/// State that a connection keeps while its poll is held or parked, and needs afterwards.
pub(crate) trait PollContinuation<S, F>: Send + 'static {
    /// Returns the future that the connection's task runs once the poll is unparked.
    fn continue_after_parking(
        self,
        poll: PollConnection<S, F>,
    ) -> impl Future<Output: Send + 'static> + Send + 'static;
}

struct ParkedPoll<S, F, P> {
    writer: F,
    headers: Box<[u8]>,
    keep_alive: bool,
    continuation: P,
    marker: PhantomData<fn() -> S>,
}

/// Parks a poll. The calling task finishes afterwards.
pub(crate) fn park<S: Socket, F: PollResponseWriter, P: PollContinuation<S, F>>(
    poll: PollConnection<S, F>,
    continuation: P,
) {
    let (parts, writer, headers, keep_alive) = poll.into_parked_parts();
    park_connection(parts, ParkedPoll { writer, headers, keep_alive, continuation, marker: PhantomData });
}

impl<S: Socket, F: PollResponseWriter, P: PollContinuation<S, F>> ParkableTransport for ParkedPoll<S, F, P> {
    type Socket = S;
    const TRANSPORT: Transport = Transport::Poll;

    fn dialect(&self) -> DialectName {
        F::DIALECT
    }

    /// Keeps the input for the task: it is the next request, or part of it.
    fn handle_input(&mut self, _: &Services, _: &SessionCell, bytes: &[u8], _: Timestamp) -> ReadOutcome {
        ReadOutcome::NeedsTask(PendingWork { read: bytes.to_vec(), ..PendingWork::default() })
    }

    fn is_alive(&self, _: &ParkedStateOf<Self>) -> bool {
        false
    }

    /// Polls are not pinged.
    fn ping(&mut self, sent: u64, _: &mut Vec<u8>) -> u64 {
        sent
    }

    /// A response ends the poll, which requires a task.
    fn can_send_while_parked(&self) -> bool {
        false
    }

    fn take_batch(&mut self, _: &SessionCell, _: &mut SessionOutbox, _: &mut Vec<u8>) -> DeliveryBatch {
        DeliveryBatch::default()
    }

    fn unpark(
        self,
        parts: ConnectionParts<S>,
        work: PendingWork,
    ) -> impl Future<Output: Send + 'static> + Send + 'static {
        let Self { writer, headers, keep_alive, continuation, .. } = self;
        continuation
            .continue_after_parking(PollConnection::unparked(parts, writer, headers, keep_alive, work.read))
    }
}
