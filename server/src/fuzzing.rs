//! Parsers that have no other way in, for the fuzz targets in `tests/fuzz`; not part of the API, and not in a build without the
//! feature `fuzzing`.

use encke_core::dialect::json::Json;
use encke_core::session::Heartbeat;
use hyper::HeaderMap;
use hyper::header::{HOST, HeaderName, HeaderValue};

use crate::auth::{self, Hosts};
use crate::public::parse_query;
use crate::session::ResumeToken;
use crate::transport::sse;
use crate::transport::websocket::Wanted;

/// The id of an event, as a client comes back with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventId {
    /// A resume token, unchecked.
    pub token: String,
    /// The last event that the client has.
    pub seq: u64,
    /// Epoch and offset in each channel of the URL, where the client has them; empty if the id says nothing of channels.
    pub positions: Vec<Option<(String, u64)>>,
}

/// What the query of an upgrade asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeQuery {
    /// A resume token, unchecked.
    pub resume: Option<String>,
    /// The last message that the client has.
    pub seq: Option<u64>,
    /// A JWT, unchecked.
    pub token: Option<String>,
    /// The client wants `ping` objects rather than ping frames.
    pub pings_are_messages: bool,
}

/// Reads a `Last-Event-ID`.
#[must_use]
pub fn event_id(text: &str) -> Option<EventId> {
    let sse::EventId { token, seq, positions } = sse::EventId::parse(text)?;
    let positions = positions.into_iter();
    let positions = positions.map(|since| since.map(|since| (since.epoch.into_owned(), since.offset)));
    Some(EventId { token, seq, positions: positions.collect() })
}

/// Reads a resume token. Returns it as the server would write it.
#[must_use]
pub fn resume_token(text: &str) -> Option<String> {
    ResumeToken::parse(text).map(|token| token.expose())
}

/// Reads the query of an upgrade; `None` if a value is malformed.
#[must_use]
pub fn upgrade_query(text: &str) -> Option<UpgradeQuery> {
    let Wanted { resume, seq, token, dialect: Json { heartbeat } } = parse_query(text)?;
    Some(UpgradeQuery { resume, seq, token, pings_are_messages: heartbeat == Heartbeat::Message })
}

/// The token in the value of an `Authorization` header.
#[must_use]
pub fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    auth::bearer(authorization)
}

/// Whether a request with these values of `Host` may be answered where nothing else guards. `None` if one is no value of a header.
#[must_use]
pub fn is_host_allowed(listed: &Hosts, hosts: &[&[u8]], site: Option<&[u8]>) -> Option<bool> {
    const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
    let mut headers = HeaderMap::new();
    for (name, value) in hosts.iter().map(|host| (HOST, host)).chain(site.iter().map(|site| (SITE, site))) {
        headers.append(name, HeaderValue::from_bytes(value).ok()?);
    }
    Some(listed.allow(&headers, false).is_ok())
}
