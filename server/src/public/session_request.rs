//! Requests that may open a session. Their parameters are read in the same way as when the session is opened.

use std::time::Duration;

use encke_core::dialect::DialectName;
use encke_core::session::{ConnectionKind, Heartbeat};
use hyper::header::UPGRADE;
use hyper::{Method, Request};

use super::events;
use super::query::{Query, parse_query};
use crate::client::{AdmitRequest, ClientSettings};
use crate::transport::websocket::ConnectParams;

/// Reads a request for a session. Returns `None` if the request is invalid or opens no session. Bayeux
/// clients open sessions with messages instead.
pub(super) fn read<B>(request: &Request<B>, settings: &ClientSettings) -> Option<AdmitRequest> {
    if request.method() != Method::GET {
        return None;
    }
    match request.uri().path() {
        "/ws" if request.headers().contains_key(UPGRADE) => {
            let ConnectParams { resume, seq, token, .. } =
                parse_query(request.uri().query().unwrap_or_default())?;
            let kind = ConnectionKind::Stream(Heartbeat::Frame);
            Some(AdmitRequest { token, resume, seq, ..AdmitRequest::new(kind, DialectName::Json) })
        }
        "/events" => Some(events::query(request, settings).ok()?.admit_request(ConnectionKind::Events)),
        "/poll" => Some(
            Query::read(request, settings).ok()?.admit_request(ConnectionKind::Poll { hold: Duration::ZERO }),
        ),
        _ => None,
    }
}
