//! Long-polling in the `json` dialect: `GET /poll` is held, `POST /poll` takes commands.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use encke_core::close::{CloseCode, CloseReason};
use encke_core::dialect::json::Json;
use encke_core::dialect::{
    Command, CommandError, CommandRequest, Dialect, ErrorCode, Response, StartPosition,
};
use encke_core::session::{ConnectionKind, Phase};
use futures_util::future::{Either, select};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, ORIGIN, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use serde_json::value::RawValue;

use super::context::Context;
use super::cors::{self, Cookies};
use super::deadline::RequestTimeout;
use super::query::Query;
use super::receive::read;
use crate::admission::RefusalReason;
use crate::client::{Caller, Refusal, Services, TokenRule, goaway};
use crate::commands::{CommandContext, carry_out};
use crate::connection::transport::poll::{Accepted, JsonArray, ResponseWriter};
use crate::http::body::{self, BodyLimits};
use crate::http::reply::with;
use crate::http::request::parameter;
use crate::http::{ApiError, ApiErrorCode, Reply, keeps_alive};
use crate::session::{CommandSource, SessionCell, SessionHandle};

/// Maximum number of commands in one request.
const MAX_COMMANDS: usize = 64;

/// Attaches a request to its session, or returns the response to send instead. See
/// [`Sessions::attach`](crate::session::Sessions::attach) for `has_ended`.
pub(crate) fn accept<B>(
    request: &Request<B>,
    caller: &Caller,
    services: &Services,
    has_ended: impl Fn() -> bool,
) -> Result<Accepted, Box<Reply>> {
    let admit = || {
        services.check_origin(caller)?;
        let kind = ConnectionKind::Poll { hold: services.sessions.lifecycle.settings().poll_hold };
        let Query { mut wanted, channels, last } = Query::read(request, kind, &services.settings)
            .map_err(|error| services.report_refusal(RefusalReason::Query, error, caller))?;
        if wanted.session.resume.is_none() {
            // Respond immediately to a client without a session, so that it learns which session it has.
            wanted.session.kind = ConnectionKind::Poll { hold: Duration::ZERO };
        }
        let attached = services.admit(caller, wanted, &channels, has_ended)?;
        let headers = cors::lines(request.headers().get(ORIGIN), Cookies::Ignored);
        // Close the connection after a request with a body. The body is not read, and its content must not be
        // mistaken for a request that a proxy has let through.
        let keep_alive = !has_body(request.headers()) && keeps_alive(request.version(), request.headers());
        let is_due = !attached.recovered;
        let channels = channels.into_iter().map(|channel| (channel, StartPosition::Newest(last))).collect();
        Ok(Accepted { attached, writer: ResponseWriter::json(), is_due, channels, headers, keep_alive })
    };
    admit().map_err(|refusal: Refusal| refused(refusal, caller, request.headers(), services))
}

/// Returns the response for a client that gets no session.
pub(super) fn refused(
    refusal: Refusal,
    caller: &Caller,
    headers: &HeaderMap,
    services: &Services,
) -> Box<Reply> {
    let reply = refusal.reply(|code| send_away(code, services));
    Box::new(finish(reply, caller, headers))
}

/// Maximum number of bytes of replies before another command of the same request is carried out. A client may
/// not read them.
const MAX_REPLY_BYTES: usize = 64 * 1024;

/// Executes the commands of a request. The time limit for the client's next request is the same as for the
/// first request of a new client.
pub(super) async fn command(
    request: Request<Incoming>,
    session: SessionHandle,
    caller: Caller,
    timeout: &RequestTimeout,
    context: &Context,
) -> Reply {
    let (head, body) = request.into_parts();
    let reply = commands(&head, body, (&session, &caller), timeout, context).await;
    finish(reply.unwrap_or_else(Reply::from), &caller, &head.headers)
}

async fn commands(
    head: &Parts,
    body: Incoming,
    (session, caller): (&SessionCell, &Caller),
    timeout: &RequestTimeout,
    context: &Context,
) -> Result<Reply, ApiError> {
    let (services, within) = (&context.client, context.handshake_timeout);
    services.count_request(session).await;
    body::check_json(&head.headers)?;
    let limits = BodyLimits { max_bytes: services.settings.max_message, timeout: within };
    let body = read(body, limits, caller.address, services).await?;
    let source = CommandSource::request(caller.address);
    let _answering = timeout.answering();
    let mut work = pin!(carry_out_all(&body, CommandContext { session, services, source }));
    // The time limit applies to the client's request. Calls to the backend or the engine may take longer,
    // which is no reason to close the connection.
    loop {
        match select(work.as_mut(), services.timeouts.sleep(within / 2)).await {
            Either::Left((reply, _)) => return Ok(reply),
            Either::Right(_) => timeout.renew(context),
        }
    }
}

/// Executes the commands in a complete body.
pub(crate) async fn carry_out_all(body: &[u8], context: CommandContext<'_>) -> Reply {
    match replies(body, context).await {
        Ok(replies) => array(replies),
        Err(error) => error.into(),
    }
}

async fn replies(body: &[u8], context: CommandContext<'_>) -> Result<JsonArray, ApiError> {
    let CommandContext { session, services, .. } = context;
    let texts = texts(body)?;
    services.count_frames(session, texts.len().saturating_sub(1));
    let (mut replies, mut any_received) = (JsonArray::default(), false);
    for text in texts {
        let requests = Json::default().read(text);
        if replies.len() >= MAX_REPLY_BYTES {
            requests.for_each(|request| refuse(request, &mut replies));
            continue;
        }
        // The reply is complete before the next command begins.
        let is_received = carry_out::<Json>(requests, context, &mut replies).await;
        any_received |= is_received;
        if is_received && session.phase() == Phase::Closed(CloseReason::Client) && is_close(text) {
            // The client closed the session itself. Ignore the commands that follow.
            return Ok(replies);
        }
    }
    // Return an error only if nothing was done: it invites the client to repeat everything.
    let code = match session.phase() {
        Phase::Closed(_) if !any_received => return Err(gone()),
        // The client did not ask for the expiry, and `normal` would keep it from opening a new session.
        Phase::Closed(CloseReason::ReconnectWindow) => CloseCode::Idle,
        Phase::Closed(reason) => reason.close_code(),
        // The session has moved to the next process or to another server, which accepts its commands.
        Phase::Moved if !any_received => return Err(services.moved()),
        Phase::Moved => CloseCode::Moved,
        Phase::Attached(_) | Phase::BetweenPolls | Phase::Suspended => return Ok(replies),
    };
    replies.notify(&goaway(code, &services.entropy));
    Ok(replies)
}

/// Refuses a command because the replies before it are already large.
fn refuse(CommandRequest { id, .. }: CommandRequest<'_, u64>, replies: &mut JsonArray) {
    let message = "the replies to the commands before it are too large; send it in another request";
    let result = Err(CommandError { code: ErrorCode::TooLarge, message: message.to_owned() });
    Json::default().respond(&[Response { id, result }], replies);
}

pub(super) fn gone() -> ApiError {
    ApiError::new(ApiErrorCode::Gone, "the session no longer exists")
}

fn is_close(text: &str) -> bool {
    Json::default().read(text).any(|request| request.command == Ok(Command::Close))
}

/// Finds the session that the request may use. Called before the body is read, so that a client
/// without a session costs only the reading of a head.
pub(crate) fn session<B>(
    request: &Request<B>,
    caller: &Caller,
    services: &Services,
) -> Result<SessionHandle, Box<Reply>> {
    let found = services.check_origin(caller).map_err(Refusal::from);
    let found = found.and_then(|()| find(request, caller, services));
    found.map_err(|refusal| refused(refusal, caller, request.headers(), services))
}

fn find<B>(request: &Request<B>, caller: &Caller, services: &Services) -> Result<SessionHandle, Refusal> {
    let token = parameter(request.uri(), "resume");
    let session = token.ok_or_else(|| ApiError::bad_request("add resume=TOKEN to identify the session"))?;
    find_session(&session, parameter(request.uri(), "token").as_deref(), caller, services)
}

fn find_session(
    session: &str,
    token: Option<&str>,
    caller: &Caller,
    services: &Services,
) -> Result<SessionHandle, Refusal> {
    let session = services.sessions.find(session);
    let session = session.ok_or_else(|| if caller.has_session { services.moved() } else { gone() })?;
    let now = services.timeouts.clock().unix_now();
    if session.identity().expires().is_some_and(|expires| expires <= now) {
        return Err(Refusal::Unidentified(CloseCode::TokenExpired));
    }
    services.identify_for_session(caller, token, &session, TokenRule::Required)?;
    Ok(session)
}

/// Executes the commands of a request that another server may have received. `None` if the session is not on this server.
pub(super) async fn forwarded(
    session: &str,
    body: &[u8],
    caller: &Caller,
    services: &Arc<Services>,
) -> Option<Reply> {
    services.sessions.find(session)?;
    let session = match find_session(session, None, caller, services) {
        Ok(session) => session,
        Err(refusal) => return Some(refusal.reply(|code| send_away(code, services))),
    };
    services.count_request(&session).await;
    let source = CommandSource::request(caller.address);
    let reply = carry_out_all(body, CommandContext { session: &session, services, source }).await;
    let has_moved = session.phase() == Phase::Moved && reply.status() == StatusCode::SERVICE_UNAVAILABLE;
    (!has_moved).then_some(reply)
}

/// Splits a body into commands: either a single one or an array.
fn texts(body: &[u8]) -> Result<Vec<&str>, ApiError> {
    if !body.trim_ascii_start().starts_with(b"[") {
        return body::parse::<&RawValue>(body).map(|command| vec![command.get()]);
    }
    let commands: Vec<&RawValue> = body::parse(body)?;
    if commands.len() > MAX_COMMANDS {
        let message =
            format!("{} commands in one request; at most {MAX_COMMANDS} are accepted", commands.len());
        return Err(ApiError::new(ApiErrorCode::TooLarge, message));
    }
    Ok(commands.into_iter().map(RawValue::get).collect())
}

/// Sends a client away because no session is available at the moment. The response says when to reconnect, as
/// it does when a session ends.
fn send_away(code: CloseCode, services: &Services) -> Reply {
    let mut body = JsonArray::default();
    body.notify(&goaway(code, &services.entropy));
    array(body)
}

fn array(array: JsonArray) -> Reply {
    with(StatusCode::OK, "application/json", array.into_bytes())
}

pub(super) fn finish(reply: Reply, caller: &Caller, headers: &HeaderMap) -> Reply {
    cors::allow(reply, caller, headers, Cookies::Ignored)
}

fn has_body(headers: &HeaderMap) -> bool {
    let length = headers.get(CONTENT_LENGTH).map(HeaderValue::as_bytes);
    headers.contains_key(TRANSFER_ENCODING) || length.is_some_and(|length| length != b"0")
}
