//! A stream of events at rest: what of it is left without a task.

use std::future::Future;
use std::marker::PhantomData;

use encke_core::Timestamp;
use encke_core::dialect::DialectName;

use super::connection::Connection;
use super::event::{Events, heartbeat};
use super::positions::Positions;
use super::run;
use crate::admission::{OpenConnection, QuietConnection};
use crate::client::Context;
use crate::session::{Heard, Remains, SessionCell, SessionOutbox, Share, Transport, take_share};
use crate::transport::Socket;
use crate::transport::at_rest::{Awake, RestingSocketOf, Rests, rest as rest_as};
use crate::transport::unwritten::Unwritten;

struct Resting<S> {
    positions: Positions,
    open_connection: QuietConnection,
    becomes: PhantomData<fn() -> S>,
}

/// A stream goes to rest; its task ends.
pub(super) fn rest<S: Socket>(connection: Connection<S>, open_connection: OpenConnection) {
    let (awake, positions) = connection.into_quiet();
    rest_as(awake, Resting { positions, open_connection: open_connection.rest(), becomes: PhantomData });
}

impl<S: Socket> Rests for Resting<S> {
    type Socket = S;
    const TRANSPORT: Transport = Transport::Events;

    fn dialect(&self) -> DialectName {
        DialectName::Json
    }

    /// There is nothing that it could say. If it goes on, its task throws that away.
    fn heard(&mut self, _: &Context, _: &SessionCell, _: &[u8], _: Timestamp) -> Heard {
        Heard::Other(Remains::default())
    }

    /// A client cannot answer a heartbeat; its machine can.
    fn is_alive(&self, socket: &RestingSocketOf<Self>) -> bool {
        socket.has_ping_arrived()
    }

    fn ping(&mut self, sent: u64, out: &mut Vec<u8>) -> u64 {
        heartbeat(out);
        sent
    }

    fn may_send(&self) -> bool {
        true
    }

    fn take(&mut self, session: &SessionCell, outbox: &mut SessionOutbox, out: &mut Vec<u8>) -> Share {
        let token = session.resume_token().expose();
        take_share(outbox, &mut Events { out, token: &token, positions: &mut self.positions })
    }

    fn wake(self, awake: Awake<S>, remains: Remains) -> impl Future<Output: Send + 'static> + Send + 'static {
        let Self { positions, open_connection, .. } = self;
        let Remains { unwritten, receipts, ping, .. } = remains;
        let out = Unwritten::left_over(unwritten, receipts);
        run(Connection::woken(awake, positions, (out, ping.is_some())), open_connection.wake())
    }
}
