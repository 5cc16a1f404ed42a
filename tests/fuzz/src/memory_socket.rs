//! An in-memory socket whose client reads immediately.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use encke_server::testing::simulation::SimulatedSocket;
use encke_sys::Unacknowledged;
use parking_lot::Mutex;

/// Shared handle to both ends of the socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemorySocket(Arc<Mutex<SocketEnds>>);

#[derive(Debug, Default)]
struct SocketEnds {
    to_server: VecDeque<u8>,
    client_has_ended: bool,
    reader: Option<Waker>,
    to_client: Vec<u8>,
    server_has_ended: bool,
}

impl MemorySocket {
    pub(crate) fn client_sends(&self, bytes: &[u8]) {
        let mut ends = self.0.lock();
        ends.to_server.extend(bytes);
        ends.wake();
    }

    pub(crate) fn client_ends(&self) {
        let mut ends = self.0.lock();
        ends.client_has_ended = true;
        ends.wake();
    }

    /// Returns the bytes that the server has sent, and whether the server has ended its stream.
    pub(crate) fn received(&self) -> (Vec<u8>, bool) {
        let ends = self.0.lock();
        (ends.to_client.clone(), ends.server_has_ended)
    }
}

impl SocketEnds {
    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl SimulatedSocket for MemorySocket {
    fn poll_receive(&mut self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut ends = self.0.lock();
        if ends.to_server.is_empty() && !ends.client_has_ended {
            ends.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(io::Read::read(&mut ends.to_server, into))
    }

    fn poll_send(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut ends = self.0.lock();
        assert!(!ends.server_has_ended, "the server wrote after the end of its stream");
        ends.to_client.extend(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn end_stream(&mut self) {
        self.0.lock().server_has_ended = true;
    }

    fn holds_bytes(&self) -> bool {
        !self.0.lock().to_server.is_empty()
    }

    fn is_over(&self) -> bool {
        self.0.lock().client_has_ended
    }

    fn unacknowledged(&self) -> Unacknowledged {
        Unacknowledged { bytes: 0, in_flight: false, silent_for: Duration::ZERO }
    }
}
