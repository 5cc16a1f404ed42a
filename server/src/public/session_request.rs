//! Requests that may open or use a session. Their parameters are read in the same way as when the session is opened.

use std::borrow::Cow;
use std::time::Duration;

use encke_core::session::ConnectionKind;
use hyper::header::UPGRADE;
use hyper::{Method, Request};

use super::events;
use super::query::{Query, parse_query};
use crate::client::{AdmitRequest, ClientSettings};
use crate::http::request::parameter;
use crate::session::SessionRequest;

/// Reads a request for a session. Returns `None` if the request is invalid or uses no session. Bayeux
/// clients use sessions with messages instead.
pub(super) fn read<B>(request: &Request<B>, settings: &ClientSettings) -> Option<AdmitRequest> {
    let poll = || {
        let kind = ConnectionKind::Poll { hold: Duration::ZERO };
        Some(Query::read(request, kind, settings).ok()?.wanted)
    };
    if request.method() == Method::POST && request.uri().path() == "/poll" {
        let AdmitRequest { token, session } = poll()?;
        session.resume.as_ref()?;
        // Commands have no position in the session.
        return Some(AdmitRequest {
            token,
            session: SessionRequest { seq: None, only_resume: true, ..session },
        });
    }
    if request.method() != Method::GET {
        return None;
    }
    match request.uri().path() {
        "/ws" if request.headers().contains_key(UPGRADE) => {
            Some(parse_query(request.uri().query().unwrap_or_default())?.0)
        }
        "/events" => Some(events::read(request, settings).ok()?.0.wanted),
        "/poll" => poll(),
        _ => None,
    }
}

/// Whether the request uses a session. False for Bayeux clients, whose messages name the session.
pub(super) fn uses_session<B>(request: &Request<B>) -> bool {
    matches!(request.uri().path(), "/ws" | "/events" | "/poll") && request.method() != Method::OPTIONS
}

/// Returns the last seq that the client has received, if it reports one.
pub(super) fn seq<B>(request: &Request<B>) -> Option<u64> {
    let in_event_id = events::event_id(request).map(|id| id.seq);
    in_event_id.or_else(|| parameter(request.uri(), "seq")?.parse().ok())
}

/// Returns the resume token of a request that uses a session.
pub(super) fn resume_token<B>(request: &Request<B>) -> Option<String> {
    let in_event_id = events::event_id(request).map(|id| id.token);
    in_event_id.or_else(|| parameter(request.uri(), "resume").map(Cow::into_owned))
}
