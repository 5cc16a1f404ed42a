//! Long-polling, in the `json` dialect: `GET /poll` holds, `POST /poll` takes commands.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use encke_core::close::{CloseCode, CloseReason};
use encke_core::dialect::json::Json;
use encke_core::dialect::{Command, Dialect};
use encke_core::session::{ConnectionKind, Phase};
use futures_util::future::{Either, select};
use hyper::body::Incoming;
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderValue, ORIGIN, TRANSFER_ENCODING,
};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode, Version};
use serde_json::value::RawValue;

use super::admit::{NotAdmitted, admit, check_origin, gone, refused};
use super::cors;
use super::query::Query;
use super::receive::read;
use crate::admission::RefusalReason;
use crate::client::{Caller, Commands, Context, Speaker, goaway, retry_ms};
use crate::http::body::{self, BodyLimits};
use crate::http::reply::with;
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::session::{Backlog, SessionHandle, Via};
use crate::transport::poll::{Accepted, Array, JsonForm};

/// Commands in one request.
const MAX_COMMANDS: usize = 64;

/// Why commands are not carried out.
const GONE: &str = "the session is gone";

/// Gives a request its session, or the answer that it gets instead. See [`Sessions::attach`](crate::session::Sessions::attach) for
/// `has_ended`.
pub(crate) fn accept<B>(
    request: &Request<B>,
    caller: &Caller,
    context: &Context,
    has_ended: impl Fn() -> bool,
) -> Result<Accepted<JsonForm>, Box<Reply>> {
    admit_poll(request, caller, context, has_ended).map_err(|refused| {
        let reply = refused.reply(|code| send_away(code, context));
        Box::new(finish(reply, caller, request.headers()))
    })
}

fn admit_poll<B>(
    request: &Request<B>,
    caller: &Caller,
    context: &Context,
    has_ended: impl Fn() -> bool,
) -> Result<Accepted<JsonForm>, NotAdmitted> {
    check_origin(caller, context)?;
    let query = Query::read(request, &context.settings)
        .map_err(|error| refused(RefusalReason::Query, error, caller, context))?;
    // A client without a session is told at once which one it has.
    let hold = if query.resume.is_some() { context.sessions.settings().poll_hold } else { Duration::ZERO };
    let last = query.last;
    let (attached, channels) =
        admit(query, ConnectionKind::Poll { hold }, false, caller, context, has_ended)?;
    let mut headers = HeaderMap::new();
    cors::allow_origin(&mut headers, request.headers().get(ORIGIN));
    let headers = cors::lines(&headers);
    // After a body none follows: it is not read, and what is in it must not be taken for a request that a proxy has let pass.
    let keep_alive = !has_body(request.headers()) && keeps_alive(request.version(), request.headers());
    let is_due = !attached.recovered;
    Ok(Accepted { attached, form: JsonForm::default(), is_due, channels, last, headers, keep_alive })
}

/// Carries out the commands of a request.
pub(super) async fn command(
    request: Request<Incoming>,
    session: SessionHandle,
    caller: Caller,
    context: Arc<Context>,
    (timeout, goes_on): (Duration, impl Fn() + Send),
) -> Reply {
    let (head, body) = request.into_parts();
    let speaker = Speaker { session: &session, context: &context, via: Via::request(caller.address) };
    let reply = commands(&head, body, speaker, (timeout, goes_on)).await;
    finish(reply, &caller, &head.headers)
}

async fn commands(
    head: &Parts,
    body: Incoming,
    speaker: Speaker<'_>,
    (timeout, goes_on): (Duration, impl Fn() + Send),
) -> Reply {
    let Speaker { session, context, via } = speaker;
    let limits = BodyLimits { max_bytes: context.settings.max_message, timeout };
    if let Some(pause) = context.pause(session) {
        pause.await;
    }
    context.count_frames(session, 1);
    let read = async {
        body::check_json(&head.headers)?;
        read(body, limits, via.address(), context).await
    };
    match read.await {
        Ok(body) => {
            let mut work = pin!(carry_out_all(&body, speaker));
            // The client's time was for its request. What is asked elsewhere for it may take longer, and is no reason to cut it.
            loop {
                let sleep = context.timeouts.sleep(timeout / 2);
                match select(work.as_mut(), sleep).await {
                    Either::Left((reply, _)) => break reply,
                    Either::Right(_) => goes_on(),
                }
            }
        }
        Err(error) => error.into(),
    }
}

/// Carries out the commands of a body that has arrived.
pub(crate) async fn carry_out_all(body: &[u8], speaker: Speaker<'_>) -> Reply {
    match replies(body, speaker).await {
        Ok(replies) => array(replies),
        Err(error) => error.into(),
    }
}

async fn replies(body: &[u8], speaker: Speaker<'_>) -> Result<Array, ApiError> {
    let Speaker { session, context, .. } = speaker;
    let texts = texts(body)?;
    context.count_frames(session, texts.len().saturating_sub(1));
    let (mut replies, mut any_heard) = (Array::default(), false);
    for text in texts {
        let is_heard = carry_out(text, speaker, &mut replies).await;
        any_heard |= is_heard;
        if is_heard && session.phase() == Phase::Closed(CloseReason::Client) && is_close(text) {
            // The client wanted this end: what follows counts no more.
            return Ok(replies);
        }
    }
    // An error says that nothing was done, and invites the client to do all of it again.
    let code = match session.phase() {
        Phase::Closed(_) if !any_heard => return Err(gone(GONE)),
        // It is nobody's fault, and "normal" would keep the client from coming back, to a new session.
        Phase::Closed(CloseReason::ReconnectWindow) => CloseCode::Idle,
        Phase::Closed(reason) => reason.close_code(),
        Phase::Moved if !any_heard => return Err(moved()),
        Phase::Moved => CloseCode::Moved,
        Phase::Attached(_) | Phase::BetweenPolls | Phase::Suspended => return Ok(replies),
    };
    replies.notify(&goaway(code, retry_ms(code, &context.entropy)));
    Ok(replies)
}

/// The session goes on in the next process, which takes its commands.
fn moved() -> ApiError {
    ApiError::new(ApiErrorCode::Draining, "the server is going away; the session stays")
}

/// One command, and its reply, which comes before that of the next. Returns whether the session has heard it.
async fn carry_out(text: &str, speaker: Speaker<'_>, replies: &mut Array) -> bool {
    let mut commands = Commands::new();
    let (mut backlog, mut dialect) = (Backlog::default(), Json::default());
    let is_heard = commands.received(text, speaker, &mut backlog, &mut dialect, replies);
    commands.finish(speaker, &mut backlog, &mut dialect, replies).await;
    is_heard
}

fn is_close(text: &str) -> bool {
    Json::default().read(text).any(|request| request.command == Ok(Command::Close))
}

/// The session whose secret a request has. It is looked for before the body is read: a stranger costs no more than a head.
pub(crate) fn session<B>(
    request: &Request<B>,
    caller: &Caller,
    context: &Context,
) -> Result<SessionHandle, Box<Reply>> {
    let found = check_origin(caller, context).and_then(|()| find(request, context));
    found.map_err(|error| Box::new(finish(error.into(), caller, request.headers())))
}

fn find<B>(request: &Request<B>, context: &Context) -> Result<SessionHandle, ApiError> {
    let mut query = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
    let token = query.find(|(name, _)| name == "resume").map(|(_, token)| token);
    let token = token.ok_or_else(|| ApiError::bad_request("whose commands these are: give resume=TOKEN"))?;
    let session = context.sessions.find(&token).ok_or_else(|| gone(GONE))?;
    let now = context.timeouts.clock().unix_now();
    if session.identity().expires().is_some_and(|expires| expires <= now) {
        return Err(ApiError::unauthorized(CloseCode::TokenExpired.reason()));
    }
    Ok(session)
}

/// The commands in a body: one, or an array of them.
fn texts(body: &[u8]) -> Result<Vec<&str>, ApiError> {
    if !body.trim_ascii_start().starts_with(b"[") {
        return body::parse::<&RawValue>(body).map(|command| vec![command.get()]);
    }
    let commands: Vec<&RawValue> = body::parse(body)?;
    if commands.len() > MAX_COMMANDS {
        let message = format!("{} commands; there may be {MAX_COMMANDS} in one request", commands.len());
        return Err(ApiError::new(ApiErrorCode::TooLarge, message));
    }
    Ok(commands.into_iter().map(RawValue::get).collect())
}

/// The answer of a server that has no session to give now says when to come back, as that of one that takes it away.
fn send_away(code: CloseCode, context: &Context) -> Reply {
    let mut body = Array::default();
    body.notify(&goaway(code, retry_ms(code, &context.entropy)));
    array(body)
}

fn array(array: Array) -> Reply {
    with(StatusCode::OK, "application/json", array.into_bytes())
}

/// No cache may keep an answer, and the pages that may ask may read it.
fn finish(mut reply: Reply, caller: &Caller, headers: &HeaderMap) -> Reply {
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if caller.origin_allowed {
        cors::allow_origin(reply.headers_mut(), headers.get(ORIGIN));
    }
    reply
}

fn has_body(headers: &HeaderMap) -> bool {
    let length = headers.get(CONTENT_LENGTH).map(HeaderValue::as_bytes);
    headers.contains_key(TRANSFER_ENCODING) || length.is_some_and(|length| length != b"0")
}

/// Whether another request may follow on the connection.
pub(super) fn keeps_alive(version: Version, headers: &HeaderMap) -> bool {
    let says_close = |value: &HeaderValue| {
        value
            .to_str()
            .is_ok_and(|text| text.split(',').any(|option| option.trim().eq_ignore_ascii_case("close")))
    };
    version == Version::HTTP_11 && !headers.get_all(CONNECTION).iter().any(says_close)
}
