//! Parsers that have no other way in, for the fuzz targets in `tests/fuzz`; not part of the API, and not in a build without the
//! feature `fuzzing`.

use std::net::IpAddr;

use encke_core::dialect::json::Json;
use encke_core::session::Heartbeat;
use hyper::HeaderMap;
use hyper::header::{HOST, HeaderName, HeaderValue};

#[cfg(feature = "simulation")]
use {
    crate::clock::{Clock, SimulatedTime, UnixTime},
    crate::config::{Config, Settings},
    crate::context,
    crate::entropy::Entropy,
    crate::events::{HookSink, NoHooks},
    crate::executor::NoTasks,
    crate::timeouts::Timeouts,
    std::sync::{Arc, LazyLock},
};

use crate::auth::{self, Hosts};
use crate::proxies::{Proxies, ProxyHeader};
use crate::public::parse_query;
use crate::session::ResumeToken;
use crate::snapshot;
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
    ResumeToken::parse(text).map(|token| token.expose().to_string())
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

/// What a connection begins with, where it must begin with a header of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    /// With a header of so many bytes, which names this client, or none.
    Client(Option<IpAddr>, usize),
    /// With the beginning of one.
    Unfinished,
    /// With something else.
    Refused,
}

/// Reads a header of the PROXY protocol that comes in pieces.
pub fn proxy_header<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Announced {
    let (mut header, mut length) = (ProxyHeader::default(), 0);
    for piece in pieces {
        let Ok(taken) = header.take(piece) else { return Announced::Refused };
        length += taken;
        match header.is_whole() {
            Ok(true) => {
                return header
                    .source()
                    .map_or(Announced::Refused, |client| Announced::Client(client, length));
            }
            Ok(false) => assert_eq!(taken, piece.len(), "what it does not take comes after it"),
            Err(_) => return Announced::Refused,
        }
    }
    Announced::Unfinished
}

/// The client of a request that came from `peer` with these lines of the header that is believed. `None` if one is no value of a header.
#[must_use]
pub fn client_behind(proxies: &Proxies, peer: IpAddr, lines: &[&[u8]]) -> Option<IpAddr> {
    let name = proxies.forwarded.expect("a header is believed").name();
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(name.clone(), HeaderValue::from_bytes(line).ok()?);
    }
    Some(proxies.client_of(peer, &headers))
}

/// Puts payloads into whole records of a snapshot: the kind of each, and its bytes.
#[must_use]
pub fn snapshot_of<'a>(records: impl IntoIterator<Item = (u8, &'a [u8])>) -> Vec<u8> {
    snapshot::framed(records)
}

/// Goes on with a snapshot as a server does, and writes down what came of it. `None` if it cannot be read. No time passes.
///
/// # Panics
/// If what it writes cannot be read.
#[cfg(feature = "simulation")]
#[must_use]
pub fn rewritten_snapshot(bytes: &[u8]) -> Option<Vec<u8>> {
    let kept = nothing_kept();
    snapshot::load_from(bytes, &kept).ok()?;
    kept.reminders.close();
    kept.channels.close();
    kept.sessions.move_all();
    Some(snapshot::written(&kept, UnixTime::from_secs(0)))
}

/// A server without sessions, whose clock stands.
#[cfg(feature = "simulation")]
fn nothing_kept() -> snapshot::Kept {
    static CONFIG: LazyLock<Config> =
        LazyLock::new(|| Settings::default().resolve().expect("the defaults are valid"));
    let config = &*CONFIG;
    let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(0)));
    let clock = Arc::new(Clock::simulated(time, config.timers.stall_threshold));
    let (timeouts, _) = Timeouts::new(clock, config.timers.ping_slack, config.limits.slots());
    let entropy = Entropy::system();
    let events = Box::new(HookSink(Box::new(NoHooks)));
    let client = context::client(config, timeouts, entropy, Arc::new(NoTasks), events);
    snapshot::Kept { sessions: client.sessions, channels: client.logs.channels, reminders: client.reminders }
}
