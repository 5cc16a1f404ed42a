//! The admin listener: health, metrics, API and dashboard.

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

use encke_timeouts::clock::UnixTime;
use encke_timeouts::{ExpiryBatch, TimerScheme, WheelTimer};
use tokio_util::sync::CancellationToken;

use crate::admission::{Handshakes, RefusalReason};
use crate::auth::Operator;
use crate::client;
use crate::connection::TcpSocket;
use crate::http::body::{BodyLimits, check_json, read};
use crate::http::{ApiError, MAX_HEAD_BYTES, TimedWrites};
use crate::metrics::{ProcessView, Readings};
use crate::tls::Tls;
use crate::trace::RequestTrace;
use api::routes::{self, ApiCall, Route};
use audit::AuditedAction;
use body::{ResponseBody, full_body};
use guards::{authorize, check_scope, segments};
use live::Live;

pub use api::HealthStatus;
pub(crate) use busiest::BusiestCache;
pub(crate) use public_url::PublicUrl;

/// How much larger than the longest message a request body may be, to allow for the channel names of a
/// broadcast and other fields.
const BODY_OVERHEAD_BYTES: usize = 512 * 1024;

/// State shared by the handlers of the admin listener.
pub(crate) struct Context {
    pub(crate) client: Arc<client::Services>,
    pub(crate) timers: TimerSettings,
    pub(crate) tls: Option<Arc<Tls>>,
    /// Data for the dashboard.
    pub(crate) live: Live,
    /// How the dashboard reaches the public listener.
    pub(crate) public: PublicListener,
    /// Connections of the public listener that have no session yet.
    pub(crate) handshakes: Arc<Handshakes>,
    /// Connections of this listener. If there are too many, the oldest connection of the address with the
    /// most connections is closed, so that health checks get through.
    pub(crate) admin_connections: Arc<Handshakes>,
    /// Maximum time for receiving a request's head, and again for its body.
    pub(crate) handshake_timeout: Duration,
    /// Batches of expiries queued for the workers.
    pub(crate) batches: Receiver<ExpiryBatch>,
    pub(crate) log_lines_dropped: LogLinesDropped,
    pub(crate) busiest: BusiestCache,
    /// Cancelled when the server drains.
    pub(crate) stop: CancellationToken,
}

/// How web pages reach the public listener.
#[derive(Debug)]
pub(crate) struct PublicListener {
    /// External URL, if configured.
    pub(crate) url: Option<PublicUrl>,
    pub(crate) port: u16,
    pub(crate) has_tls: bool,
}

/// Settings of the timers, for display.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerSettings {
    pub(crate) scheme: TimerScheme,
    pub(crate) tick: Duration,
    pub(crate) workers: usize,
    /// How long the wheel may make no progress before the server reports itself as unhealthy.
    pub(crate) watchdog: Duration,
}

/// Function that returns how many log lines were dropped.
pub type LogLinesDropped = Box<dyn Fn() -> u64 + Send + Sync>;

impl Context {
    /// Returns the scheme of this listener's URLs.
    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Returns all metrics in the text format of Prometheus.
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
            partial_message_bytes: self.client.limits.partial_messages.bytes(),
            reminders: self.client.reminders.len(),
            dispatch_depth: self.batches.len(),
            dispatch_age: timeouts.dispatch_age(),
            worker_panics: timeouts.worker_panics(),
            log_lines_dropped: (self.log_lines_dropped)(),
            process: ProcessView::now(),
            started_at: self.live.settings.started_at.since(UnixTime::from_secs(0)),
        }
    }
}

/// Serves the admin API on one connection, with TLS if configured.
pub(crate) fn serve(socket: TcpStream, peer: SocketAddr, context: Arc<Context>) {
    let open = context.admin_connections.begin(peer.ip(), context.client.timeouts.clock().now());
    tokio::spawn(async move {
        let served = Box::pin(serve_http(socket, peer.ip(), &context));
        match select(served, poll_fn(|task| open.poll_evicted(task))).await {
            Either::Left((Ok(()), _)) => {}
            Either::Left((Err(error), _)) => tracing::debug!(%error, "admin connection failed"),
            Either::Right(_) => {
                let limit = "limits.max_admin_connections";
                context.client.limits.refusals.record(RefusalReason::Admin, peer.ip(), limit);
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
    let service = service_fn(|request| async { Ok::<_, Infallible>(handle(request, peer, context).await) });
    let socket = TimedWrites::new(socket, context.client.settings.write_timeout, Arc::clone(timeouts));
    let connection = http1::Builder::new()
        .timer(WheelTimer(Arc::clone(timeouts)))
        .header_read_timeout(context.handshake_timeout)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(socket), service);
    Ok(connection.await?)
}

async fn handle(request: Request<Incoming>, peer: IpAddr, context: &Arc<Context>) -> Response<ResponseBody> {
    let (head, body) = request.into_parts();
    let head = Request::from_parts(head, ());
    let operator = match authorize(&head, &context.client.access.auth, context.scheme()) {
        Ok(operator) => operator,
        Err(error) => return error_response(error),
    };
    let parts: Vec<&str> = segments(&head).collect();
    let (route, parameter) = match routes::find(head.method(), &parts, head.uri().path()) {
        Ok(found) => found,
        Err(error) => return error_response(error),
    };
    let mut act = AuditedAction::of(route.scope, &operator, peer, &head);
    let trace = begin_trace(route, &head, context);
    let answered = match check_scope(&operator, route.scope) {
        Ok(()) => dispatch(route, parameter, &operator, &head, body, context, trace.clone()).await,
        Err(error) => Err(error),
    };
    let reply = answered.unwrap_or_else(error_response);
    if let Some(act) = &mut act {
        act.status = Some(reply.status());
    }
    trace.end(reply.status());
    reply
}

fn error_response(error: ApiError) -> Response<ResponseBody> {
    full_body(error.into())
}

fn begin_trace(route: &Route, head: &Request<()>, context: &Context) -> RequestTrace {
    let Some((tracer, path)) = context.client.tracer.as_ref().zip(route.traced_path()) else {
        return RequestTrace::default();
    };
    tracer.begin(path, head.headers(), context.scheme())
}

async fn dispatch(
    route: &Route,
    parameter: &str,
    operator: &Operator,
    head: &Request<()>,
    body: Incoming,
    context: &Arc<Context>,
    trace: RequestTrace,
) -> Result<Response<ResponseBody>, ApiError> {
    let body = if route.takes_body {
        let max_bytes = context.client.settings.max_message + BODY_OVERHEAD_BYTES;
        let limits = BodyLimits { max_bytes, timeout: context.handshake_timeout };
        check_json(head.headers())?;
        read(body, limits, &context.client.timeouts, |_| {}).await?
    } else {
        Bytes::new()
    };
    let query = head.uri().query().unwrap_or_default();
    let headers = head.headers();
    route.answer(&ApiCall { context, operator, headers, parameter, query, body: &body, trace }).await
}
