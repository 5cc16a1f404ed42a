use hyper::StatusCode;

use crate::http::Reply;
use crate::http::reply;

/// Written by hand. A test holds it against the routes, and an end-to-end test against what the handlers do.
pub(super) const DOCUMENT: &str = include_str!("openapi.json");

/// `GET /api/openapi.json`
pub(super) fn show() -> Reply {
    reply::with(StatusCode::OK, "application/json", DOCUMENT)
}
