//! Parked event streams.

use std::future::Future;
use std::marker::PhantomData;

use encke_core::Timestamp;
use encke_core::dialect::DialectName;

use super::connection::EventStreamConnection;
use super::event::{EventWriter, write_heartbeat};
use super::positions::Positions;
use super::run;
use crate::admission::{CompactConnection, OpenConnection};
use crate::client::Services;
use crate::session::{
    DeliveryBatch, PendingWork, ReadOutcome, SessionCell, SessionOutbox, Transport, take_batch,
};
use crate::transport::Socket;
use crate::transport::parked::{ConnectionParts, ParkableTransport, ParkedStateOf, park as park_connection};
use crate::transport::pending_write::PendingWrite;

struct ParkedStream<S> {
    positions: Positions,
    open_connection: CompactConnection,
    marker: PhantomData<fn() -> S>,
}

/// Parks a stream. The calling task finishes afterwards.
pub(super) fn park<S: Socket>(connection: EventStreamConnection<S>, open_connection: OpenConnection) {
    let (parts, positions) = connection.into_parked_parts();
    park_connection(
        parts,
        ParkedStream { positions, open_connection: open_connection.compact(), marker: PhantomData },
    );
}

impl<S: Socket> ParkableTransport for ParkedStream<S> {
    type Socket = S;
    const TRANSPORT: Transport = Transport::Events;

    fn dialect(&self) -> DialectName {
        DialectName::Json
    }

    /// Unparks the stream. Clients have nothing to send on it; the task discards any input that follows.
    fn handle_input(&mut self, _: &Services, _: &SessionCell, _: &[u8], _: Timestamp) -> ReadOutcome {
        ReadOutcome::NeedsTask(PendingWork::default())
    }

    /// A client cannot answer a heartbeat, but the client's kernel acknowledges it.
    fn is_alive(&self, socket: &ParkedStateOf<Self>) -> bool {
        socket.has_ping_arrived()
    }

    fn ping(&mut self, sent: u64, out: &mut Vec<u8>) -> u64 {
        write_heartbeat(out);
        sent
    }

    fn can_send_while_parked(&self) -> bool {
        true
    }

    fn take_batch(
        &mut self,
        session: &SessionCell,
        outbox: &mut SessionOutbox,
        out: &mut Vec<u8>,
    ) -> DeliveryBatch {
        let token = session.resume_token().expose();
        take_batch(outbox, &mut EventWriter { out, token: &token, positions: &mut self.positions })
    }

    fn unpark(
        self,
        parts: ConnectionParts<S>,
        work: PendingWork,
    ) -> impl Future<Output: Send + 'static> + Send + 'static {
        let Self { positions, open_connection, .. } = self;
        let PendingWork { unwritten, receipts, ping, .. } = work;
        let out = PendingWrite::from_parked(unwritten, receipts);
        run(
            EventStreamConnection::unparked(parts, positions, (out, ping.is_some())),
            open_connection.expand(),
        )
    }
}
