//! WebSockets: frames of RFC 6455, from the upgraded socket to the closing handshake.

mod bayeux;
mod dialect;
mod frame;
mod protocol;
mod sessionless;

use std::future::Future;
use std::sync::Arc;

use encke_core::close::CloseCode;
use encke_core::dialect::Dialect;
use encke_core::dialect::json::parse_positions;
use futures_util::FutureExt;
use futures_util::future::OptionFuture;

use crate::admission::{CompactConnection, OpenConnection, RefusalReason};
use crate::client::{AdmitRequest, Attachment, Caller, Services, hello, unsubscribed};
use crate::connection::{Connection, Ending, Parkable, Socket, close_socket, drive};
use crate::session::{ChannelKey, ReportedPositions};

pub(crate) use dialect::WebSocketDialect;

pub(crate) use bayeux::BayeuxSocket;
pub(crate) use frame::Frames;
pub(crate) use protocol::WebSocket;
pub(crate) use sessionless::SessionlessSocket;

/// An upgrade request that is answered with 101.
pub(crate) struct Upgrade<D> {
    pub(crate) caller: Caller,
    /// The requested session, and the dialect as requested. `None` if the query was malformed.
    pub(crate) wanted: Option<(AdmitRequest, D)>,
    /// Held until the socket is closed.
    pub(crate) open_connection: OpenConnection,
    /// First output: the 101, unless hyper has written it.
    pub(crate) answer: Vec<u8>,
}

/// An upgraded socket, and the bytes read from it so far.
pub(crate) type Upgraded<S> = (S, Vec<u8>);

/// Serves a WebSocket to its end, once it is upgraded.
///
/// A task reserves space for every value held across an await, and for arguments even after they are moved
/// elsewhere. Therefore the beginning is boxed, and the task itself holds only the connection. The result of
/// `drive` is dropped, since these dialects never open another session.
pub(crate) fn serve<S: Socket, D: WebSocketDialect>(
    upgrade: Upgrade<D>,
    upgraded: impl Future<Output = Option<Upgraded<S>>> + Send + 'static,
    services: Arc<Services>,
) -> impl Future<Output = ()> + Send {
    let opening = Box::pin(async move { open(upgraded.await?, upgrade, &services).await });
    opening.then(|connection| OptionFuture::from(connection.map(drive))).map(drop)
}

impl<S: Socket, D: WebSocketDialect> Parkable<S> for WebSocket<D, CompactConnection> {
    fn park(self) -> Self {
        Self { owner: self.owner.compact(), ..self }
    }

    fn run(connection: Connection<S, Self>) -> impl Future<Output: Send + 'static> + Send + 'static {
        drive(connection)
    }
}

/// Attaches a socket to a session, and greets the client. If the session refuses, closes the connection with
/// the reason.
async fn open<S: Socket, D: WebSocketDialect>(
    upgraded: Upgraded<S>,
    mut upgrade: Upgrade<D>,
    services: &Arc<Services>,
) -> Option<Connection<S, WebSocket<D, CompactConnection>>> {
    let has_positions =
        matches!(&upgrade.wanted, Some((it, _)) if it.session.positions == ReportedPositions::Announced);
    let (socket, read) =
        if has_positions { read_positions(upgraded, &mut upgrade, services).await? } else { upgraded };
    let Upgrade { caller, wanted, open_connection, answer } = upgrade;
    let attached = match wanted {
        Some((request, dialect)) => services
            .admit(&caller, request, &[], || socket.is_closed_by_peer())
            .map(|attached| (attached, dialect))
            .map_err(|refusal| refusal.close_code()),
        None => {
            let detail = "the query contains a malformed value";
            services.limits.refusals.record(RefusalReason::Query, caller.address, detail);
            Err(CloseCode::ProtocolError)
        }
    };
    let attached = match attached {
        Ok((attached, dialect)) => services
            .confirm_session(&attached, caller.address)
            .await
            .map(|()| (attached, dialect))
            .map_err(|refusal| refusal.close_code()),
        Err(code) => Err(code),
    };
    match attached {
        Ok((mut attached, dialect)) => {
            let (recovered, revoked) = (attached.recovered, std::mem::take(&mut attached.revoked));
            let attachment = Attachment::new(attached, Arc::clone(services));
            let websocket = WebSocket { dialect, owner: open_connection.compact() };
            let mut connection = Connection::new(socket, read, attachment, websocket);
            connection.out = answer.into();
            let (websocket, link) = connection.split();
            let mut frames = Frames(&mut link.out.bytes);
            let token = link.attachment.session.resume_token().expose();
            websocket.dialect.dialect().notify(&hello(link.attachment, &token, recovered), &mut frames);
            for channel in &revoked {
                websocket.dialect.dialect().notify(&unsubscribed(channel, "forbidden"), &mut frames);
            }
            Some(connection)
        }
        // Refuse after the upgrade, because a browser cannot see the status of a refused upgrade.
        Err(code) => {
            close_socket::<S, WebSocket<D, ()>>(socket, answer.into(), Ending::Close(code), services).await;
            None
        }
    }
}

/// Reads the positions of a client, which are in its first frame. `None` if there are none: the connection is closed.
async fn read_positions<S: Socket, D>(
    upgraded: Upgraded<S>,
    upgrade: &mut Upgrade<D>,
    services: &Arc<Services>,
) -> Option<Upgraded<S>> {
    let (wanted, _) = upgrade.wanted.as_mut()?;
    let mut waiting = SessionlessSocket::new(upgraded, upgrade.caller.address, services);
    waiting.begin(std::mem::take(&mut upgrade.answer));
    let timeout = services.settings.write_timeout;
    let ending = match services.timeouts.within(timeout, waiting.next()).await {
        Some(Ok((text, _))) => match parse_positions(&text) {
            Some(known) => {
                let known = known.into_iter().map(|(name, since)| (ChannelKey::of_name(&name), since));
                wanted.session.positions = ReportedPositions::Known(known.collect());
                return Some(waiting.into_parts());
            }
            None => CloseCode::ProtocolError.into(),
        },
        Some(Err(ending)) => ending,
        // The network may have been too slow, so the client may come back.
        None => CloseCode::SlowConsumer.into(),
    };
    waiting.close(ending).await;
    None
}

#[cfg(test)]
mod tests {
    use std::future::Ready;
    use std::sync::Arc;
    use std::task::Waker;
    use std::time::Duration;

    use encke_base::entropy::Entropy;
    use encke_base::executor::{Runtime, yield_now};
    use encke_base::parking::{AnyPoller, IdleQueue, Pollers};
    use encke_core::dialect::json::Json;
    use encke_timeouts::Timeouts;
    use encke_timeouts::clock::Clock;
    use hyper::Request;
    use tokio::runtime::{Builder, Handle};

    use super::*;
    use crate::admission::OpenConnections;
    use crate::client::test_services::ADDRESS;
    use crate::client::{Caller, ConnectionParking};
    use crate::config::Settings;
    use crate::connection::{TcpSocket, connected_sockets, parked_size};
    use crate::events::{HookSink, NoHooks};
    use crate::public::parse_query;
    use crate::server::assembly;

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
            let (_client, socket) = connected_sockets();
            let request = Request::new(());
            let upgrade = Upgrade {
                caller: Caller::from_request(&request, ADDRESS, &context.access.auth),
                wanted: parse_query(""),
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
        let size = parked_size::<TcpSocket, WebSocket<Json, CompactConnection>>();
        assert!(size <= 80, "{size} bytes");
    }

    /// With the runtime's overhead, the task takes 648 bytes.
    #[test]
    fn websocket_task_is_small() {
        type Upgrading = Ready<Option<Upgraded<TcpSocket>>>;
        fn size<F>(_: fn(Upgrade<Json>, Upgrading, Arc<Services>) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(serve) <= 544, "{} bytes", size(serve));
    }
}
