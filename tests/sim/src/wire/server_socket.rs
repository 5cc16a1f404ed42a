//! The server's end of a connection.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use encke_server::testing::simulation::{RequestArrival, SimulatedSocket};
use encke_sys::Unacknowledged;

use super::SharedWire;

#[derive(Debug)]
pub(crate) struct ServerSocket(pub(super) SharedWire);

impl SimulatedSocket for ServerSocket {
    fn poll_receive(&mut self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut wire = self.0.lock();
        if let Some(kind) = wire.failed {
            return Poll::Ready(Err(kind.into()));
        }
        let count = wire.to_server.arrived.len().min(into.len());
        if count == 0 && !wire.to_server.end_arrived {
            wire.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        for (to, from) in into.iter_mut().zip(wire.to_server.arrived.drain(..count)) {
            *to = from;
        }
        wire.read_at = wire.network.served();
        // The receive buffer has space for more of the bytes in transit.
        wire.notify();
        Poll::Ready(Ok(count))
    }

    fn poll_send(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut wire = self.0.lock();
        if let Some(kind) = wire.failed {
            return Poll::Ready(Err(kind.into()));
        }
        if wire.to_client.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let taken = wire.to_client.send(bytes);
        if taken == 0 && !bytes.is_empty() {
            wire.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        if let Some(written) = &mut wire.written {
            written.extend_from_slice(&bytes[..taken]);
        }
        wire.written_at = Some(wire.network.served());
        wire.notify();
        Poll::Ready(Ok(taken))
    }

    fn end_stream(&mut self) {
        let mut wire = self.0.lock();
        wire.to_client.ended = true;
        wire.notify();
    }

    fn holds_bytes(&self) -> bool {
        !self.0.lock().to_server.arrived.is_empty()
    }

    fn last_arrival(&self) -> RequestArrival {
        self.0.lock().last_place
    }

    fn is_over(&self) -> bool {
        self.0.lock().is_over_for_server()
    }

    fn unacknowledged(&self) -> Unacknowledged {
        let wire = self.0.lock();
        Unacknowledged {
            bytes: wire.to_client.sent.len() as u64,
            in_flight: !wire.to_client.sent.is_empty() && wire.to_client.has_room(),
            silent_for: Duration::from_nanos(wire.network.monotonic() - wire.last_acknowledged),
        }
    }

    fn can_park(&self) -> bool {
        true
    }

    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut wire = self.0.lock();
        if !wire.to_server.arrived.is_empty() || wire.is_over_for_server() {
            return Poll::Ready(());
        }
        wire.reader = Some(context.waker().clone());
        Poll::Pending
    }

    fn on_park(&mut self) {
        self.0.lock().is_parked = true;
    }

    fn on_unpark(&mut self) {
        let mut wire = self.0.lock();
        wire.is_parked = false;
        *wire.network.unparked.lock() = Some(wire.number);
    }
}

impl Drop for ServerSocket {
    fn drop(&mut self) {
        let mut wire = self.0.lock();
        if wire.is_parked {
            wire.network.ended_parked.lock().push(wire.number);
        }
        wire.server_gone = true;
        wire.was_given_up = !wire.to_client.sent.is_empty();
        wire.to_client.ended = true;
        (wire.reader, wire.writer) = (None, None);
        // Closing a socket with unread bytes sends a reset.
        if !wire.to_server.arrived.is_empty() && wire.failed.is_none() && !wire.has_vanished() {
            wire.to_client.sent.clear();
            wire.reset_for_client = true;
        }
        wire.notify();
    }
}
