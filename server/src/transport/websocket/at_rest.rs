//! A WebSocket at rest: what of it is left without a task.

use std::future::Future;
use std::marker::PhantomData;

use encke_core::Timestamp;
use encke_core::dialect::{DialectName, pong_seq};
use encke_core::frame_walk::lone_pong;
use futures_util::FutureExt;
use futures_util::future::OptionFuture;

use super::connection::{Connection, pong};
use super::frame::{Frames, OutgoingFrames, write_ping};
use super::inbox::Inbox;
use super::spoken::Spoken;
use super::{Anew, Holder, run, websocket};
use crate::client::Context;
use crate::session::{Heard, Remains, SessionCell, SessionOutbox, Share, Transport, take_share};
use crate::transport::Socket;
use crate::transport::at_rest::{Awake, RestingSocketOf, Rests, rest as rest_as};
use crate::transport::unwritten::Unwritten;

struct Resting<S, D, H: Holder<S>> {
    /// There is something to send, but nothing is sent until something is acknowledged.
    until_acknowledged: bool,
    dialect: D,
    holder: H::AtRest,
    becomes: PhantomData<fn() -> S>,
}

/// A connection goes to rest; its task ends.
pub(super) fn rest<S: Socket, D: Spoken, H: Holder<S>>(connection: Connection<S, D>, holder: H) {
    let (awake, dialect, until_acknowledged) = connection.into_quiet();
    let holder = holder.rest();
    rest_as(awake, Resting::<S, D, H> { until_acknowledged, dialect, holder, becomes: PhantomData });
}

impl<S: Socket, D: Spoken, H: Holder<S>> Rests for Resting<S, D, H> {
    type Socket = S;
    const TRANSPORT: Transport = Transport::WebSocket;

    fn dialect(&self) -> DialectName {
        D::NAME
    }

    /// Frames that come too fast are read later.
    fn may_read(&self, session: &SessionCell, now: Timestamp) -> bool {
        session.frames.next_at() <= now
    }

    fn heard(&mut self, context: &Context, session: &SessionCell, bytes: &[u8], now: Timestamp) -> Heard {
        match lone_pong::<8>(bytes).and_then(|payload| pong_seq(&payload)) {
            Some(seq) => {
                session.frames.count(1, context.settings.frames_per_second, now);
                Heard::Pong { input: pong(&self.dialect, seq), makes_room: self.until_acknowledged }
            }
            None => Heard::Other(Remains { read: bytes.to_vec(), ..Remains::default() }),
        }
    }

    /// Its answer is something to read.
    fn is_alive(&self, _: &RestingSocketOf<Self>) -> bool {
        false
    }

    fn ping(&mut self, sent: u64, out: &mut Vec<u8>) -> u64 {
        let seq = self.dialect.told(sent);
        write_ping(&mut self.dialect, seq, &mut Frames(out));
        seq
    }

    fn may_send(&self) -> bool {
        self.dialect.sends_at_rest()
    }

    fn take(&mut self, _: &SessionCell, outbox: &mut SessionOutbox, out: &mut Vec<u8>) -> Share {
        let frames = Frames(out);
        let share = take_share(outbox, &mut OutgoingFrames { dialect: &mut self.dialect, frames });
        self.until_acknowledged = share.backlog.until_acknowledged;
        share
    }

    fn wake(self, awake: Awake<S>, remains: Remains) -> impl Future<Output: Send + 'static> + Send + 'static {
        let Self { dialect, holder, .. } = self;
        let Remains { read, unwritten, receipts, ping, .. } = remains;
        let out = Unwritten::left_over(unwritten, receipts);
        let (socket, attachment, pace) = awake.into_parts();
        let opening = Box::pin(async move {
            let inbox = Inbox::new(socket, read);
            let socket = websocket(inbox, Vec::new(), &attachment.context.settings).await;
            Some(Connection::woken(socket, attachment, dialect, (out, ping), pace))
        });
        // Not an `async` block: it would have room for the connection twice.
        run(opening, H::wake(holder)).then(|anew| {
            OptionFuture::from(anew.map(|(socket, text, holder): Anew<S, H>| holder.open_anew(socket, text)))
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
    use crate::client::{Caller, Rest};
    use crate::clock::Clock;
    use crate::config::Settings;
    use crate::context;
    use crate::entropy::Entropy;
    use crate::events::{HookSink, NoHooks};
    use crate::executor::{Runtime, yield_now};
    use crate::rest::{AnyPoller, Line, Pollers};
    use crate::timeouts::Timeouts;
    use crate::transport::TcpSocket;
    use crate::transport::at_rest::size_of_resting;
    use crate::transport::websocket::{Upgrade, Wanted, serve};

    /// All that connections need, but for a poller that takes them, and time that passes.
    fn context_without_a_poller(runtime: Handle) -> Context {
        let config = Settings::default().resolve().expect("the defaults are valid");
        let clock = Arc::new(Clock::new(config.timers.stall_threshold));
        let (timeouts, _) = Timeouts::new(clock, config.timers.ping_slack, config.limits.slots());
        let executor = Arc::new(runtime.clone());
        let events = Box::new(HookSink(Box::new(NoHooks)));
        let mut context = context::client(&config, timeouts, Entropy::system(), executor, events);
        let pollers = Pollers::new(1).expect("epoll");
        pollers.iter().for_each(|poller| poller.stop());
        let (poller, runtime) = (AnyPoller::Kernel(pollers), Runtime::Tokio(runtime));
        context.rest = Some(Rest { after: Duration::ZERO, line: Line::default(), poller, runtime });
        context
    }

    /// Its socket cannot be looked at: it has a task again at once, and is not to rest again at once.
    #[test]
    fn a_connection_that_cannot_rest_tries_again_later() {
        let runtime = Builder::new_current_thread().enable_io().build().expect("a runtime");
        runtime.block_on(async {
            let context = Arc::new(context_without_a_poller(Handle::current()));
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            let _client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a listener");
            let (socket, peer) = listener.accept().expect("a client");
            socket.set_nonblocking(true).expect("a socket");
            let request = Request::new(());
            let upgrade = Upgrade {
                caller: Caller::of(&request, peer.ip(), &context.auth),
                wanted: Some(Wanted::<Json>::default()),
                open_connection: OpenConnections::default().enter(None),
                answer: Vec::new(),
            };
            let socket = TcpSocket::wake(socket).expect("a runtime");
            let upgraded = std::future::ready(Some((socket, Vec::new())));
            let _over = tokio::spawn(serve(upgrade, upgraded, Arc::clone(&context)));
            let line = &context.rest.as_ref().expect("it rests").line;
            for _ in 0..1_000 {
                if line.next_look(Waker::noop()).is_some() {
                    return;
                }
                yield_now().await;
            }
            panic!("it does nothing else than to try again");
        });
    }

    /// All that a connection at rest owns.
    #[test]
    fn a_websocket_at_rest_is_small() {
        let size = size_of_resting::<Resting<TcpSocket, Json, OpenConnection>>();
        assert!(size <= 80, "{size} bytes");
    }
}
