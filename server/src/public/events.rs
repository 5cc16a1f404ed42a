//! Requests for an event stream.

use std::borrow::Cow;

use encke_core::close::CloseCode;
use encke_core::session::ConnectionKind;
use hyper::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::{Request, StatusCode};

use super::cors::{self, Cookies};
use super::query::Query;
use crate::admission::RefusalReason;
use crate::client::{Caller, ClientSettings, Refusal, Services};
use crate::connection::transport::sse::{Accepted, ClientPositions, END_EVENT_ID, EventId, write_farewell};
use crate::http::reply::{no_content, with};
use crate::http::request::parameter;
use crate::http::{ApiError, Reply, http_date};
use crate::session::ReportedPositions;

const EVENT_STREAM: &str = "text/event-stream";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Attaches a request to its session, or returns the response to send instead. See
/// [`Sessions::attach`](crate::session::Sessions::attach) for `has_ended`.
pub(crate) fn accept<B>(
    request: &Request<B>,
    caller: &Caller,
    services: &Services,
    has_ended: impl Fn() -> bool,
) -> Result<Accepted, Box<Reply>> {
    // 204 is the only response after which an `EventSource` does not try again.
    if caller.origin.is_ok() && last_event_id(request).is_some_and(|id| id == END_EVENT_ID) {
        return Err(Box::new(cors::allow(no_content(), caller, request.headers(), Cookies::Ignored)));
    }
    let admit = || {
        services.check_origin(caller)?;
        let (Query { wanted, channels, last }, positions) = read(request, &services.settings)
            .map_err(|error| services.report_refusal(RefusalReason::Query, error, caller))?;
        let attached = services.admit(caller, wanted, &channels, has_ended)?;
        Ok(Accepted {
            head: head(request.headers().get(ORIGIN), services),
            attached,
            channels,
            last,
            positions,
        })
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
    // Allow the page to read why the stream was refused.
    Box::new(cors::allow(reply, caller, headers, Cookies::Ignored))
}

/// Reads the query. An `EventSource` reconnects with its original query; the `Last-Event-ID` header says
/// which events it has received, and its position in each channel, if known.
///
/// # Errors
/// The query is invalid.
pub(super) fn read<B>(
    request: &Request<B>,
    settings: &ClientSettings,
) -> Result<(Query, ClientPositions), ApiError> {
    let mut query = Query::read(request, ConnectionKind::Events, settings)?;
    let mut positions = ClientPositions::NONE;
    let session = &mut query.wanted.session;
    if let Some(id) = last_event_id(request) {
        match EventId::parse(&id) {
            Some(id) => {
                session.positions = ReportedPositions::Known(id.positions.known.clone());
                (session.resume, session.seq, positions) = (Some(id.token), Some(id.seq), id.positions)
            }
            None => positions = ClientPositions::UNKNOWN,
        }
    }
    // An `EventSource` without channels would receive nothing in a new session.
    session.only_resume = query.channels.is_empty();
    if session.only_resume && session.resume.is_none() {
        return Err(ApiError::bad_request("nothing to read: specify channels=a,b or a session to resume"));
    }
    Ok((query, positions))
}

/// Returns the id of the last event that the client has received, if it is valid.
pub(super) fn event_id<B>(request: &Request<B>) -> Option<EventId> {
    EventId::parse(&last_event_id(request)?)
}

/// Returns the id of the last event that the client has received. Some implementations of `EventSource` send
/// it in the query, since the header requires a preflight. An empty id is treated as absent.
fn last_event_id<B>(request: &Request<B>) -> Option<Cow<'_, str>> {
    let header = request.headers().get(LAST_EVENT_ID).filter(|id| !id.is_empty());
    let header = header.map(|id| String::from_utf8_lossy(id.as_bytes()));
    header.or_else(|| parameter(request.uri(), "lastEventId")).filter(|id| !id.is_empty())
}

/// Sends the client away with an event stream, because an `EventSource` treats any status but 200 as final.
fn send_away(code: CloseCode, services: &Services) -> Reply {
    let mut out = Vec::new();
    write_farewell(&mut out, code, &services.entropy);
    let mut reply = with(StatusCode::OK, EVENT_STREAM, out);
    // Clients expect the end of the connection at the end of a stream.
    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}

/// Returns the head of the response. The body lasts until either side ends the connection, and no proxy may
/// buffer it.
fn head(origin: Option<&HeaderValue>, services: &Services) -> Vec<u8> {
    let date = http_date(services.timeouts.clock().unix_now());
    let mut head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {EVENT_STREAM}\r\ncache-control: no-store\r\n\
         x-accel-buffering: no\r\nconnection: close\r\ndate: {date}\r\n"
    )
    .into_bytes();
    head.extend_from_slice(&cors::lines(origin, Cookies::Ignored));
    head.extend_from_slice(b"\r\n");
    head
}
