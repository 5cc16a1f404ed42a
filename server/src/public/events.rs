//! The request for a stream of events.

use encke_core::close::CloseCode;
use encke_core::dialect::Since;
use encke_core::session::ConnectionKind;
use hyper::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::{Request, StatusCode};

use super::admit::{NotAdmitted, admit, check_origin, refused};
use super::cors;
use super::query::Query;
use crate::admission::RefusalReason;
use crate::client::{Caller, ClientSettings, Context};
use crate::http::reply::{no_content, with};
use crate::http::{ApiError, Reply};
use crate::transport::sse::{Accepted, END, EventId, farewell};

const EVENT_STREAM: &str = "text/event-stream";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What a client asks for.
#[derive(Debug)]
struct Asked {
    query: Query,
    /// What it has of the channels, as far as it says so.
    positions: Vec<Option<Since<'static>>>,
}

/// Gives a request its session, or the answer that it gets instead. See [`Sessions::attach`](crate::session::Sessions::attach) for
/// `has_ended`.
pub(crate) fn accept<B>(
    request: &Request<B>,
    caller: &Caller,
    context: &Context,
    has_ended: impl Fn() -> bool,
) -> Result<Accepted, Box<Reply>> {
    let origin = request.headers().get(ORIGIN);
    // The one answer after which an EventSource does not try again.
    if caller.origin_allowed && request.headers().get(LAST_EVENT_ID).is_some_and(|id| id == END) {
        return Err(readable(no_content(), caller, origin));
    }
    admit_stream(request, caller, context, has_ended)
        .map_err(|refused| readable(refused.reply(|code| send_away(code, context)), caller, origin))
}

/// The page that asks may read why it gets no stream.
fn readable(mut reply: Reply, caller: &Caller, origin: Option<&HeaderValue>) -> Box<Reply> {
    if caller.origin_allowed {
        cors::allow_origin(reply.headers_mut(), origin);
    }
    Box::new(reply)
}

fn admit_stream<B>(
    request: &Request<B>,
    caller: &Caller,
    context: &Context,
    has_ended: impl Fn() -> bool,
) -> Result<Accepted, NotAdmitted> {
    check_origin(caller, context)?;
    let Asked { query, positions } = read(request, &context.settings)
        .map_err(|error| refused(RefusalReason::Query, error, caller, context))?;
    let (only_resume, last) = (query.channels.is_empty(), query.last);
    let (attached, channels) = admit(query, ConnectionKind::Events, only_resume, caller, context, has_ended)?;
    Ok(Accepted { head: head(request.headers().get(ORIGIN)), attached, channels, last, positions })
}

/// Reads the query. An EventSource comes back with its first query; the header says what it has.
fn read<B>(request: &Request<B>, settings: &ClientSettings) -> Result<Asked, ApiError> {
    let mut query = Query::read(request, settings)?;
    let mut positions = Vec::new();
    if let Some(id) = request.headers().get(LAST_EVENT_ID).and_then(|id| id.to_str().ok())
        && let Some(id) = EventId::parse(id)
    {
        (query.resume, query.seq, positions) = (Some(id.token), Some(id.seq), id.positions);
    }
    if query.channels.is_empty() && query.resume.is_none() {
        return Err(ApiError::bad_request("nothing to read: give channels=a,b or a session to resume"));
    }
    Ok(Asked { query, positions })
}

/// What a request asks for.
///
/// # Errors
/// It is refused for what it says.
pub(super) fn query<B>(request: &Request<B>, settings: &ClientSettings) -> Result<Query, ApiError> {
    read(request, settings).map(|asked| asked.query)
}

/// An EventSource takes any status but 200 for final. So the stream itself sends it away.
fn send_away(code: CloseCode, context: &Context) -> Reply {
    let mut out = Vec::new();
    farewell(&mut out, code, &context.entropy);
    let mut reply = with(StatusCode::OK, EVENT_STREAM, out);
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// The head of the answer, which lasts until either side ends the connection. No proxy may buffer it.
fn head(origin: Option<&HeaderValue>) -> Vec<u8> {
    let mut head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\n\
        x-accel-buffering: no\r\nconnection: close\r\n"
        .to_vec();
    let mut headers = HeaderMap::new();
    cors::allow_origin(&mut headers, origin);
    head.extend_from_slice(&cors::lines(&headers));
    head.extend_from_slice(b"\r\n");
    head
}
