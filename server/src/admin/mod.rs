//! The admin listener: health, metrics, and the API.

mod api;
mod audit;
mod body;
mod busiest;
mod guards;
pub(crate) mod live;
mod page;
mod public_url;

use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::Receiver;
use futures_util::future::{Either, select};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use tokio_util::sync::CancellationToken;

use crate::admission::{Handshakes, RefusalReason};
use crate::auth::Operator;
use crate::client;
use crate::clock::UnixTime;
use crate::http::body::{BodyLimits, check_json, read};
use crate::http::{ApiError, MAX_HEAD_BYTES, TimedWrites};
use crate::metrics::{ProcessView, Readings};
use crate::timeouts::{Batch, Scheme, WheelTimer};
use crate::tls::Tls;
use crate::trace::Root;
use crate::transport::TcpSocket;
use api::routes::{self, Call, Route};
use audit::Act;
use body::{Body, whole};
use guards::{admit, check_scope, segments};
use live::Live;

pub(crate) use api::HealthStatus;
pub(crate) use busiest::LatestBusiest;
pub(crate) use public_url::PublicUrl;

/// What a body may contain beside the longest message: the names of a broadcast's channels, and fields.
const BESIDE_THE_MESSAGE_BYTES: usize = 512 * 1024;

/// What the handlers of the admin listener share.
pub(crate) struct Context {
    pub(crate) client: Arc<client::Context>,
    pub(crate) timers: TimersView,
    pub(crate) tls: Option<Arc<Tls>>,
    /// What the dashboard is told.
    pub(crate) live: Live,
    /// Where it finds the other listener.
    pub(crate) public: PublicListener,
    /// Connections of the other listener that have no session yet.
    pub(crate) handshakes: Arc<Handshakes>,
    /// Its connections: when there are too many, the oldest of the address with most is cut, so that health checks come through.
    pub(crate) sockets: Arc<Handshakes>,
    /// How long the head and the body of a request may take.
    pub(crate) handshake_timeout: Duration,
    /// Expiries on their way to the workers.
    pub(crate) batches: Receiver<Batch>,
    pub(crate) log_lines_dropped: LogLinesDropped,
    pub(crate) busiest: LatestBusiest,
    /// Set when the server drains.
    pub(crate) stop: CancellationToken,
}

/// The listener of clients, as pages find it.
#[derive(Debug)]
pub(crate) struct PublicListener {
    /// From outside, if that is known.
    pub(crate) url: Option<PublicUrl>,
    pub(crate) port: u16,
    pub(crate) has_tls: bool,
}

/// How the wheel was configured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimersView {
    pub(crate) scheme: Scheme,
    pub(crate) tick: Duration,
    pub(crate) workers: usize,
    /// When the wheel has not turned for this long, the server is not healthy.
    pub(crate) watchdog: Duration,
}

/// Reads how many log lines were dropped.
pub type LogLinesDropped = Box<dyn Fn() -> u64 + Send + Sync>;

impl Context {
    /// Of the URLs by which this listener is reached.
    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// All metrics, in the text format that Prometheus reads.
    pub(crate) fn metrics_text(&self) -> String {
        self.client.metrics.encode(&self.readings(), &live::limits(self))
    }

    fn readings(&self) -> Readings {
        let (timeouts, channels) = (&self.client.timeouts, &self.client.logs.channels);
        Readings {
            timer_entries: timeouts.entries(),
            stalls: timeouts.stats.stalls.load(Ordering::Relaxed),
            channels: channels.len(),
            log_bytes: channels.bytes(),
            unfinished_bytes: self.client.unfinished.bytes(),
            reminders: self.client.reminders.len(),
            dispatch_depth: self.batches.len(),
            dispatch_age: timeouts.dispatch_age(),
            worker_panics: timeouts.dispatch.worker_panics.load(Ordering::Relaxed),
            log_lines_dropped: (self.log_lines_dropped)(),
            process: ProcessView::now(),
            started_at: self.live.settings.started_at.since(UnixTime::from_secs(0)),
        }
    }
}

/// Serves the admin API on one connection, within TLS if that is configured.
pub(crate) fn serve(socket: TcpStream, peer: SocketAddr, context: Arc<Context>) {
    let open = context.sockets.begin(peer.ip(), context.client.timeouts.clock().now());
    tokio::spawn(async move {
        let served = Box::pin(serve_http(socket, peer.ip(), &context));
        match select(served, poll_fn(|task| open.poll_cut(task))).await {
            Either::Left((Ok(()), _)) => {}
            Either::Left((Err(error), _)) => tracing::debug!(%error, "admin connection failed"),
            Either::Right(_) => {
                let limit = "limits.max_admin_connections";
                context.client.refusals.refused(RefusalReason::Admin, peer.ip(), limit);
            }
        }
    });
}

async fn serve_http(
    socket: TcpStream,
    peer: IpAddr,
    context: &Arc<Context>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let timeouts = &context.client.timeouts;
    let accepted = TcpSocket::accept(socket, context.tls.as_deref());
    let socket = timeouts.within(context.handshake_timeout, accepted).await;
    let socket = socket.ok_or("limits.handshake_timeout")??;
    let service = service_fn(|request| async { Ok::<_, Infallible>(answer(request, peer, context).await) });
    let socket = TimedWrites::new(socket, context.client.settings.write_timeout, Arc::clone(timeouts));
    let connection = http1::Builder::new()
        .timer(WheelTimer(Arc::clone(timeouts)))
        .header_read_timeout(context.handshake_timeout)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(socket), service);
    Ok(connection.await?)
}

async fn answer(request: Request<Incoming>, peer: IpAddr, context: &Arc<Context>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let head = Request::from_parts(head, ());
    let operator = match admit(&head, &context.client.auth, context.scheme()) {
        Ok(operator) => operator,
        Err(error) => return refusal(error),
    };
    let parts: Vec<&str> = segments(&head).collect();
    let (route, parameter) = match routes::find(head.method(), &parts, head.uri().path()) {
        Ok(found) => found,
        Err(error) => return refusal(error),
    };
    let mut act = Act::of(route.scope, &operator, peer, &head);
    let trace = begin_trace(route, &head, context);
    let answered = match check_scope(&operator, route.scope) {
        Ok(()) => carry_out(route, parameter, &operator, &head, body, context, trace.clone()).await,
        Err(error) => Err(error),
    };
    let reply = answered.unwrap_or_else(refusal);
    if let Some(act) = &mut act {
        act.status = Some(reply.status());
    }
    trace.end(reply.status());
    reply
}

fn refusal(error: ApiError) -> Response<Body> {
    whole(error.into())
}

#[cfg(not(feature = "otlp"))]
fn begin_trace(_: &Route, _: &Request<()>, _: &Context) -> Root {
    Root::default()
}

#[cfg(feature = "otlp")]
fn begin_trace(route: &Route, head: &Request<()>, context: &Context) -> Root {
    let Some((tracer, path)) = context.client.tracer.as_ref().zip(route.traced()) else {
        return Root::default();
    };
    tracer.begin(path, head.headers(), context.scheme())
}

async fn carry_out(
    route: &Route,
    parameter: &str,
    operator: &Operator,
    head: &Request<()>,
    body: Incoming,
    context: &Arc<Context>,
    trace: Root,
) -> Result<Response<Body>, ApiError> {
    let body = if route.takes_body {
        let max_bytes = context.client.settings.max_message + BESIDE_THE_MESSAGE_BYTES;
        let limits = BodyLimits { max_bytes, timeout: context.handshake_timeout };
        check_json(head.headers())?;
        read(body, limits, &context.client.timeouts, |_| {}).await?
    } else {
        Bytes::new()
    };
    let query = head.uri().query().unwrap_or_default();
    let headers = head.headers();
    route.answer(&Call { context, operator, headers, parameter, query, body: &body, trace }).await
}
