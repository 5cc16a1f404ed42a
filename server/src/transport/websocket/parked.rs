//! Parked WebSockets.

use std::future::Future;
use std::marker::PhantomData;

use encke_core::Timestamp;
use encke_core::dialect::{DialectName, pong_seq};
use encke_core::frame_walk::lone_pong;
use futures_util::FutureExt;
use futures_util::future::OptionFuture;

use super::connection::{WebSocketConnection, pong_input};
use super::dialect::WebSocketDialect;
use super::frame::{Frames, OutgoingFrames, write_ping};
use super::frame_limiter::FrameLimiter;
use super::{NewSession, SocketOwner, run, websocket};
use crate::client::Services;
use crate::session::{
    DeliveryBatch, PendingWork, ReadOutcome, SessionCell, SessionOutbox, Transport, take_batch,
};
use crate::transport::Socket;
use crate::transport::parked::{ConnectionParts, ParkableTransport, ParkedStateOf, park as park_connection};
use crate::transport::pending_write::PendingWrite;

struct ParkedWebSocket<S, D, H: SocketOwner<S>> {
    /// Whether messages are pending that must wait until the client acknowledges earlier ones.
    until_acknowledged: bool,
    dialect: D,
    owner: H::Parked,
    marker: PhantomData<fn() -> S>,
}

/// Parks a connection. The calling task finishes afterwards.
pub(super) fn park<S: Socket, D: WebSocketDialect, H: SocketOwner<S>>(
    connection: WebSocketConnection<S, D>,
    owner: H,
) {
    let (parts, dialect, until_acknowledged) = connection.into_parked_parts();
    let owner = owner.park();
    park_connection(
        parts,
        ParkedWebSocket::<S, D, H> { until_acknowledged, dialect, owner, marker: PhantomData },
    );
}

impl<S: Socket, D: WebSocketDialect, H: SocketOwner<S>> ParkableTransport for ParkedWebSocket<S, D, H> {
    type Socket = S;
    const TRANSPORT: Transport = Transport::WebSocket;

    fn dialect(&self) -> DialectName {
        D::NAME
    }

    /// Frames over the rate limit are read later.
    fn may_read(&self, session: &SessionCell, now: Timestamp) -> bool {
        session.frames.next_at() <= now
    }

    fn handle_input(
        &mut self,
        context: &Services,
        session: &SessionCell,
        bytes: &[u8],
        now: Timestamp,
    ) -> ReadOutcome {
        match lone_pong::<8>(bytes).and_then(|payload| pong_seq(&payload)) {
            Some(seq) => {
                session.frames.count_input(1, context.settings.frames_per_second, now);
                ReadOutcome::Pong {
                    input: pong_input(&self.dialect, seq),
                    makes_room: self.until_acknowledged,
                }
            }
            None => ReadOutcome::NeedsTask(PendingWork { read: bytes.to_vec(), ..PendingWork::default() }),
        }
    }

    /// Always false: a client answers a ping with a pong, which is input, and the caller checks for input.
    fn is_alive(&self, _: &ParkedStateOf<Self>) -> bool {
        false
    }

    fn ping(&mut self, sent: u64, out: &mut Vec<u8>) -> u64 {
        let seq = self.dialect.acknowledgeable_seq(sent);
        write_ping(&mut self.dialect, seq, &mut Frames(out));
        seq
    }

    fn can_send_while_parked(&self) -> bool {
        self.dialect.can_send_while_parked()
    }

    fn take_batch(
        &mut self,
        _: &SessionCell,
        outbox: &mut SessionOutbox,
        out: &mut Vec<u8>,
    ) -> DeliveryBatch {
        let frames = Frames(out);
        let share = take_batch(outbox, &mut OutgoingFrames { dialect: &mut self.dialect, frames });
        self.until_acknowledged = share.backlog.awaits_ack;
        share
    }

    fn unpark(
        self,
        parts: ConnectionParts<S>,
        work: PendingWork,
    ) -> impl Future<Output: Send + 'static> + Send + 'static {
        let Self { dialect, owner, .. } = self;
        let PendingWork { read, unwritten, receipts, ping, .. } = work;
        let out = PendingWrite::from_parked(unwritten, receipts);
        let (socket, attachment, backoff) = parts.into_parts();
        let opening = Box::pin(async move {
            let inbox = FrameLimiter::new(socket, read);
            let socket = websocket(inbox, Vec::new(), &attachment.services.settings).await;
            Some(WebSocketConnection::unparked(socket, attachment, dialect, (out, ping), backoff))
        });
        // Do not use an `async` block, which would reserve space for the connection twice.
        run(opening, H::unpark(owner)).then(|new_session| {
            OptionFuture::from(
                new_session
                    .map(|(socket, text, owner): NewSession<S, H>| owner.open_new_session(socket, text)),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::sync::Arc;
    use std::task::Waker;
    use std::time::Duration;

    use encke_core::dialect::json::Json;
    use hyper::Request;
    use tokio::runtime::{Builder, Handle};

    use super::*;
    use crate::admission::{OpenConnection, OpenConnections};
    use crate::assembly;
    use crate::client::{Caller, ConnectionParking};
    use crate::clock::Clock;
    use crate::config::Settings;
    use crate::entropy::Entropy;
    use crate::events::{HookSink, NoHooks};
    use crate::executor::{Runtime, yield_now};
    use crate::parking::{AnyPoller, IdleQueue, Pollers};
    use crate::timeouts::Timeouts;
    use crate::transport::TcpSocket;
    use crate::transport::parked::parked_size;
    use crate::transport::websocket::{ConnectParams, Upgrade, serve};

    /// Services for connections, except that the poller rejects sockets and the clock does not advance.
    fn context_without_a_poller(runtime: Handle) -> Services {
        let config = Settings::default().resolve().expect("the defaults are valid");
        let clock = Arc::new(Clock::new(config.timers.stall_threshold));
        let (timeouts, _) = Timeouts::new(clock, config.timers.ping_slack, config.limits.session_slots());
        let executor = Arc::new(runtime.clone());
        let events = Box::new(HookSink(Box::new(NoHooks)));
        let mut context = assembly::client_services(&config, timeouts, Entropy::system(), executor, events);
        let pollers = Pollers::new(1).expect("epoll");
        pollers.iter().for_each(|poller| poller.stop());
        let (poller, runtime) = (AnyPoller::Kernel(pollers), Runtime::Tokio(runtime));
        context.parking = Some(ConnectionParking {
            idle_time: Duration::ZERO,
            idle_queue: IdleQueue::default(),
            poller,
            runtime,
        });
        context
    }

    /// The poller rejects the socket, so the connection is unparked immediately. The connection must not
    /// retry immediately.
    #[test]
    fn failed_parking_is_retried_later() {
        let runtime = Builder::new_current_thread().enable_io().build().expect("a runtime");
        runtime.block_on(async {
            let context = Arc::new(context_without_a_poller(Handle::current()));
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            let _client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a listener");
            let (socket, peer) = listener.accept().expect("a client");
            socket.set_nonblocking(true).expect("a socket");
            let request = Request::new(());
            let upgrade = Upgrade {
                caller: Caller::from_request(&request, peer.ip(), &context.auth),
                wanted: Some(ConnectParams::<Json>::default()),
                open_connection: OpenConnections::default().enter(None),
                answer: Vec::new(),
            };
            let socket = TcpSocket::unpark(socket).expect("a runtime");
            let upgraded = std::future::ready(Some((socket, Vec::new())));
            let _over = tokio::spawn(serve(upgrade, upgraded, Arc::clone(&context)));
            let line = &context.parking.as_ref().expect("parking is enabled").idle_queue;
            for _ in 0..1_000 {
                if line.next_check(Waker::noop()).is_some() {
                    return;
                }
                yield_now().await;
            }
            panic!("the connection keeps trying to park");
        });
    }

    /// The size includes everything that a parked connection owns.
    #[test]
    fn parked_websocket_is_small() {
        let size = parked_size::<ParkedWebSocket<TcpSocket, Json, OpenConnection>>();
        assert!(size <= 80, "{size} bytes");
    }
}
