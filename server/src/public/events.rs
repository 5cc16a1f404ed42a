//! The request for a stream of events.

use encke_core::close::CloseCode;
use encke_core::dialect::{DialectName, Since};
use encke_core::session::Heartbeat;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL,
    HeaderMap, HeaderName, HeaderValue, ORIGIN, VARY,
};
use hyper::{Request, StatusCode};

use crate::admission::RefusalReason;
use crate::auth::Permission;
use crate::channel::ChannelName;
use crate::client::{Caller, ClientSettings, Context};
use crate::http::reply::{no_content, with};
use crate::http::{ApiError, Reply};
use crate::session::{AttachRequest, Refusal, Transport};
use crate::transport::sse::{Accepted, END, EventId, farewell};

const EVENT_STREAM: &str = "text/event-stream";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What a client asks for.
#[derive(Debug, Default)]
struct Query {
    resume: Option<String>,
    seq: Option<u64>,
    token: Option<String>,
    channels: Vec<ChannelName>,
    /// What the client has of these channels, as far as it says so.
    positions: Vec<Option<Since<'static>>>,
}

/// Gives a request its session, or the answer that it gets instead.
pub(crate) fn accept<B>(
    request: &Request<B>,
    caller: &Caller,
    context: &Context,
) -> Result<Accepted, Box<Reply>> {
    let origin = request.headers().get(ORIGIN);
    admit(request, caller, context).map_err(|mut reply| {
        if caller.origin_allowed {
            allow_origin(reply.headers_mut(), origin);
        }
        reply
    })
}

fn admit<B>(request: &Request<B>, caller: &Caller, context: &Context) -> Result<Accepted, Box<Reply>> {
    let refuse = |reason, error: ApiError| {
        context.refusals.refused(reason, caller.address, &error);
        Err(Box::new(error.into()))
    };
    if !caller.origin_allowed {
        return refuse(RefusalReason::Origin, ApiError::forbidden("this origin is not in auth.origins"));
    }
    // The one answer after which an EventSource does not try again.
    if request.headers().get(LAST_EVENT_ID).is_some_and(|id| id == END) {
        return Err(Box::new(no_content()));
    }
    let query = match Query::read(request, &context.settings) {
        Ok(query) => query,
        Err(error) => return refuse(RefusalReason::Query, error),
    };
    let identity = match caller.identify(query.token.as_deref(), context) {
        Ok(identity) => identity,
        Err(code @ CloseCode::Overloaded) => return Err(come_back(code, context)),
        Err(code) => return Err(Box::new(ApiError::unauthorized(code.reason()).into())),
    };
    if let Some(channel) =
        query.channels.iter().find(|channel| !identity.allows(Permission::Subscribe, channel.as_str()))
    {
        let message = format!("the token does not allow to subscribe to {channel}");
        return refuse(RefusalReason::Channel, ApiError::forbidden(message));
    }
    let attach = |may_open| AttachRequest {
        resume: query.resume,
        seq: query.seq,
        identity,
        address: caller.address,
        heartbeat: Heartbeat::Frame,
        transport: Transport::Events,
        dialect: DialectName::Json,
        may_open,
        only_resume: query.channels.is_empty(),
    };
    // hyper has the socket, so nobody can ask it; and an EventSource waits for seconds before it comes back.
    let attached = context.attach(caller.address, attach, || false).map_err(|refusal| match refusal {
        Refusal::TooManyConnections | Refusal::TooManySessions | Refusal::TooFast => {
            come_back(CloseCode::Overloaded, context)
        }
        Refusal::Draining => come_back(CloseCode::Draining, context),
        Refusal::NotTheUser => Box::new(ApiError::forbidden("the session is another user's").into()),
        Refusal::Gone | Refusal::Late => {
            let message = "the session is gone; with channels=a,b a new one would follow them";
            Box::new(ApiError::new(StatusCode::GONE, "gone", message).into())
        }
    })?;
    let Query { channels, positions, .. } = query;
    Ok(Accepted { head: head(request.headers().get(ORIGIN)), attached, channels, positions })
}

impl Query {
    fn read<B>(request: &Request<B>, settings: &ClientSettings) -> Result<Self, ApiError> {
        let mut read = Self::default();
        let limit = settings.channel_name_bytes;
        for (name, value) in form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()) {
            match &*name {
                "resume" => read.resume = Some(value.into_owned()),
                "seq" => {
                    let seq = value.parse().map_err(|_| ApiError::bad_request("seq must be a number"))?;
                    read.seq = Some(seq);
                }
                "token" => read.token = Some(value.into_owned()),
                "channels" => {
                    for text in value.split(',') {
                        let channel = ChannelName::new(text, limit)
                            .map_err(|error| ApiError::bad_request(format!("channels: {error}")))?;
                        read.channels.push(channel);
                    }
                }
                _ => {}
            }
        }
        // An EventSource comes back with its first query; the header says what it has.
        if let Some(id) = request.headers().get(LAST_EVENT_ID).and_then(|id| id.to_str().ok())
            && let Some(EventId { token, seq, positions }) = EventId::parse(id)
        {
            (read.resume, read.seq, read.positions) = (Some(token), Some(seq), positions);
        }
        let limit = settings.max_subscriptions;
        if read.channels.len() > limit {
            let message =
                format!("channels: more than a session may follow (limits.max_subscriptions = {limit})");
            return Err(ApiError::bad_request(message));
        }
        if read.channels.is_empty() && read.resume.is_none() {
            return Err(ApiError::bad_request("nothing to read: give channels=a,b or a session to resume"));
        }
        Ok(read)
    }
}

/// An EventSource takes any status but 200 for final. So the stream itself sends it away.
fn come_back(code: CloseCode, context: &Context) -> Box<Reply> {
    let mut out = Vec::new();
    farewell(&mut out, code, &context.entropy);
    let mut reply = with(StatusCode::OK, EVENT_STREAM, out);
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Box::new(reply)
}

/// The answer to a browser that asks whether a page of another origin may come back with `Last-Event-ID` (a polyfill, or `fetch`:
/// an `EventSource` need not ask).
pub(crate) fn preflight(caller: &Caller, headers: &HeaderMap) -> Reply {
    if !caller.origin_allowed {
        return ApiError::forbidden("this origin is not in auth.origins").into();
    }
    let mut reply = no_content();
    let allowed = reply.headers_mut();
    allow_origin(allowed, headers.get(ORIGIN));
    allowed.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET"));
    allowed.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("last-event-id"));
    reply
}

fn allow_origin(headers: &mut HeaderMap, origin: Option<&HeaderValue>) {
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(VARY, HeaderValue::from_static("origin"));
    }
}

/// The head of the answer, which lasts until either side ends the connection. No proxy may buffer it.
fn head(origin: Option<&HeaderValue>) -> Vec<u8> {
    let mut head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\n\
        x-accel-buffering: no\r\nconnection: close\r\n"
        .to_vec();
    let mut headers = HeaderMap::new();
    allow_origin(&mut headers, origin);
    for (name, value) in &headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}
