//! The admin listener: health, metrics, API and dashboard.

mod api;
mod audit;
mod body;
mod busiest;
mod context;
mod guards;
pub(crate) mod live;
mod page;

use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use encke_base::trace::RequestTrace;
use encke_timeouts::WheelTimer;
use futures_util::future::{Either, select};
use hyper::body::Incoming;
use hyper::header::AUTHORIZATION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::admission::RefusalReason;
use crate::auth::Scope;
use crate::connection;
use crate::http::body::{BodyLimits, check_json, read};
use crate::http::request::normalize;
use crate::http::{
    ApiError, MAX_HEAD_BYTES, RequestState, TimedHeads, TimedWrites, add_common_headers, keeps_alive,
};
use api::ApiCall;
use api::routes::{self, Route};
use audit::AuditedAction;
use body::{ResponseBody, full_body};
use guards::{authorize, check_scope, segments};

pub use api::HealthStatus;
pub(crate) use api::{accept_forwarded, metrics_text};
pub(crate) use busiest::BusiestCache;
pub use context::LogLinesDropped;
pub(crate) use context::{Context, PublicListener, TimerSettings};

/// How much larger than the longest message a request body may be, to allow for the channel names of a
/// broadcast and other fields.
const BODY_OVERHEAD_BYTES: usize = 512 * 1024;

/// Serves the admin API on one connection, with TLS if configured.
pub(crate) fn serve(socket: TcpStream, peer: IpAddr, context: Arc<Context>) {
    let open = context.admin_connections.begin(peer, context.client.timeouts.clock().now());
    tokio::spawn(async move {
        let served = Box::pin(serve_http(socket, peer, &context));
        match select(served, poll_fn(|task| open.poll_evicted(task, || false))).await {
            Either::Left((Ok(()), _)) => {}
            Either::Left((Err(error), _)) => tracing::debug!(%error, "admin connection failed"),
            Either::Right(_) => {
                let limit = "limits.max_admin_connections";
                context.client.limits.refusals.record(RefusalReason::Admin, peer, limit);
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
    let accepted = connection::accept(socket, context.tls.as_deref());
    let socket = timeouts.within(context.handshake_timeout, accepted).await;
    let socket = socket.ok_or("limits.handshake_timeout")??;
    let (settings, state) = (&context.client.settings, RequestState::default());
    let service = service_fn(|request: Request<Incoming>| async {
        state.begin();
        let keep_alive = keeps_alive(request.version(), request.headers());
        let mut reply = handle(request, peer, context).await;
        let keep_alive = keep_alive.then_some(settings.keep_alive_timeout);
        add_common_headers(&mut reply, timeouts.clock().unix_now(), keep_alive);
        state.end();
        Ok::<_, Infallible>(reply)
    });
    let socket = TimedWrites::new(socket, settings.write_timeout, Arc::clone(timeouts));
    let socket = TimedHeads::new(socket, context.handshake_timeout, Arc::clone(timeouts), state.clone());
    let connection = http1::Builder::new()
        .timer(WheelTimer(Arc::clone(timeouts)))
        .header_read_timeout(settings.keep_alive_timeout)
        .max_buf_size(MAX_HEAD_BYTES)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(socket), service);
    Ok(connection.await?)
}

async fn handle(request: Request<Incoming>, peer: IpAddr, context: &Arc<Context>) -> Response<ResponseBody> {
    let (head, body) = request.into_parts();
    let mut head = Request::from_parts(head, ());
    let normalized = normalize(&mut head);
    let found = normalized
        .and_then(|()| authorize(&head, &context.client.access.auth, context.scheme()))
        .and_then(|operator| {
            let parts: Vec<&str> = segments(&head).collect();
            let (route, parameter) = routes::find(head.method(), &parts, head.uri().path())?;
            Ok((operator, route, parameter.to_owned()))
        });
    let (operator, route, parameter) = match found {
        Ok(found) => found,
        Err(error) => {
            if error.is_unauthorized() && head.headers().contains_key(AUTHORIZATION) {
                context.client.limits.refusals.record(
                    RefusalReason::ApiKey,
                    peer,
                    format_args!("{} {}", head.method(), head.uri().path()),
                );
            }
            return full_body(error.into());
        }
    };
    let trace = begin_trace(route, &head, context);
    let headers = std::mem::take(head.headers_mut());
    // Create the value only if it is needed, because even an unused value would write its line when dropped.
    let mut act = (route.scope != Scope::Read).then(|| AuditedAction {
        scope: route.scope,
        operator: &operator,
        from: peer,
        head: &head,
        status: None,
    });
    let answered = async {
        check_scope(&operator, route.scope)?;
        route
            .answer(ApiCall {
                body: read_body(route, &headers, body, context).await?,
                context: Arc::clone(context),
                operator: operator.clone(),
                headers,
                parameter,
                query: head.uri().query().unwrap_or_default().to_owned(),
                trace: trace.clone(),
            })
            .await
    };
    let reply = answered.await.unwrap_or_else(|error| full_body(error.into()));
    if let Some(act) = &mut act {
        act.status = Some(reply.status());
    }
    trace.end(reply.status());
    reply
}

fn begin_trace(route: &Route, head: &Request<()>, context: &Context) -> RequestTrace {
    let Some((tracer, path)) = context.client.tracer.as_ref().zip(route.traced_path()) else {
        return RequestTrace::default();
    };
    tracer.begin(path, head.headers(), context.scheme())
}

async fn read_body(
    route: &Route,
    headers: &HeaderMap,
    body: Incoming,
    context: &Context,
) -> Result<Bytes, ApiError> {
    if !route.takes_body {
        return Ok(Bytes::new());
    }
    check_json(headers)?;
    let max_bytes = context.client.settings.max_message + BODY_OVERHEAD_BYTES;
    let limits = BodyLimits { max_bytes, timeout: context.handshake_timeout };
    read(body, limits, &context.client.timeouts, |_| {}).await
}
