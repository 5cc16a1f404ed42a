//! Entry points to internal parsers for the fuzz targets in `tests/fuzz`. They are not part of the API and
//! exist only in builds with the feature `fuzzing`.

use std::net::IpAddr;

use encke_core::dialect::json::Json;
use encke_core::session::Heartbeat;
use hyper::HeaderMap;
use hyper::header::{HOST, HeaderName, HeaderValue};

#[cfg(feature = "simulation")]
use {
    crate::config::{Config, Settings},
    crate::events::{HookSink, NoHooks},
    crate::server::{assembly, persistence},
    encke_base::entropy::Entropy,
    encke_base::executor::NoTasks,
    encke_timeouts::Timeouts,
    encke_timeouts::clock::{Clock, SimulatedTime, UnixTime},
    std::sync::{Arc, LazyLock},
};

use crate::auth::{self, Hosts};
use crate::client::AdmitRequest;
use crate::connection::transport::sse;
use crate::http::proxies::{Proxies, ProxyHeader};
use crate::public::parse_query;
use crate::session::ResumeToken;
use crate::session::SessionRequest;
use crate::snapshot;

/// The id of a server-sent event, as sent by a reconnecting client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventId {
    /// Resume token, unverified.
    pub token: String,
    /// Seq of the last event that the client has received.
    pub seq: u64,
    /// Channel, epoch and offset of each known position.
    pub positions: Vec<(String, String, u64)>,
    /// Whether the client has been following channels whose positions are unknown.
    pub has_others: bool,
}

/// Parameters in the query of a WebSocket upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeQuery {
    /// Resume token, not verified.
    pub resume: Option<String>,
    /// Seq of the last message that the client has received, if reported.
    pub seq: Option<u64>,
    /// JWT, unverified.
    pub token: Option<String>,
    /// Whether the client wants `ping` objects instead of ping frames.
    pub pings_are_messages: bool,
}

/// Parses a `Last-Event-ID`.
#[must_use]
pub fn event_id(text: &str) -> Option<EventId> {
    let sse::EventId { token, seq, positions } = sse::EventId::parse(text)?;
    let sse::ClientPositions { known, has_others } = positions;
    let positions =
        known.into_iter().map(|(key, since)| (key.to_string(), since.epoch.into_owned(), since.offset));
    Some(EventId { token, seq, positions: positions.collect(), has_others })
}

/// Parses a resume token. Returns it as the server would write it.
#[must_use]
pub fn resume_token(text: &str) -> Option<String> {
    ResumeToken::parse(text).map(|token| token.expose().to_string())
}

/// Parses the query of an upgrade. `None` if a value is malformed.
#[must_use]
pub fn upgrade_query(text: &str) -> Option<UpgradeQuery> {
    let (AdmitRequest { token, session: SessionRequest { resume, seq, .. } }, Json { heartbeat }) =
        parse_query(text)?;
    Some(UpgradeQuery { resume, seq, token, pings_are_messages: heartbeat == Heartbeat::Message })
}

/// Returns the token in the value of an `Authorization` header.
#[must_use]
pub fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    auth::bearer(authorization)
}

/// Whether a request with these values of `Host` is accepted by a listener without authentication. `None` if
/// a value is not a valid header value.
#[must_use]
pub fn is_host_allowed(listed: &Hosts, hosts: &[&[u8]], site: Option<&[u8]>) -> Option<bool> {
    const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
    let mut headers = HeaderMap::new();
    for (name, value) in hosts.iter().map(|host| (HOST, host)).chain(site.iter().map(|site| (SITE, site))) {
        headers.append(name, HeaderValue::from_bytes(value).ok()?);
    }
    Some(listed.allow(&headers, false).is_ok())
}

/// Result of parsing the beginning of a connection that must start with a PROXY protocol header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeaderOutcome {
    /// A complete header: the client's address, if it names one, and the header's length in bytes.
    Client(Option<IpAddr>, usize),
    /// The beginning of a header.
    Incomplete,
    /// Not a valid header.
    Refused,
}

/// Parses a PROXY protocol header that arrives in pieces.
pub fn proxy_header<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> ProxyHeaderOutcome {
    let (mut header, mut length) = (ProxyHeader::default(), 0);
    for piece in pieces {
        let Ok(taken) = header.take(piece) else { return ProxyHeaderOutcome::Refused };
        length += taken;
        match header.is_complete() {
            Ok(true) => {
                return header.source().map_or(ProxyHeaderOutcome::Refused, |client| {
                    ProxyHeaderOutcome::Client(client, length)
                });
            }
            Ok(false) => assert_eq!(taken, piece.len(), "what it does not take comes after it"),
            Err(_) => return ProxyHeaderOutcome::Refused,
        }
    }
    ProxyHeaderOutcome::Incomplete
}

/// Returns the client of a request from `peer` with these lines of the trusted header. `None` if a line is
/// not a valid header value.
#[must_use]
pub fn client_behind(proxies: &Proxies, peer: IpAddr, lines: &[&[u8]]) -> Option<IpAddr> {
    let name = proxies.forwarded.expect("a header is believed").name();
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(name.clone(), HeaderValue::from_bytes(line).ok()?);
    }
    Some(proxies.client_address(peer, &headers))
}

/// Encodes payloads, each with its kind, as the records of a snapshot.
#[must_use]
pub fn snapshot_of<'a>(records: impl IntoIterator<Item = (u8, &'a [u8])>) -> Vec<u8> {
    snapshot::frame_records(records)
}

/// Loads a snapshot as a server does, and writes it again. `None` if it cannot be loaded. The clock stands
/// still.
///
/// # Panics
/// Panics if the written snapshot cannot be read.
#[cfg(feature = "simulation")]
#[must_use]
pub fn rewritten_snapshot(bytes: &[u8]) -> Option<Vec<u8>> {
    let kept = empty_state();
    snapshot::load_from(bytes, &kept).ok()?;
    kept.reminders.close();
    kept.channels.close();
    kept.sessions.move_all();
    Some(snapshot::write_to_vec(&kept, UnixTime::from_secs(0)))
}

/// Returns the state of a server without sessions, whose clock is stopped.
#[cfg(feature = "simulation")]
fn empty_state() -> snapshot::SnapshotState {
    static CONFIG: LazyLock<Config> =
        LazyLock::new(|| Settings::default().resolve().expect("the defaults are valid"));
    let config = &*CONFIG;
    let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(0)));
    let clock = Arc::new(Clock::simulated(time, config.timers.stall_threshold));
    let (timeouts, _) = Timeouts::new(clock, config.timers.ping_slack, config.limits.session_slots());
    let entropy = Entropy::system();
    let events = Box::new(HookSink(Box::new(NoHooks)));
    let client = assembly::client_services(config, timeouts, entropy, Arc::new(NoTasks), events);
    persistence::snapshot_state(&client)
}
