use hyper::StatusCode;

use crate::http::Reply;
use crate::http::reply;

/// Written by hand; a test holds it against the routes.
pub(super) const DOCUMENT: &str = include_str!("openapi.json");

/// `GET /api/openapi.json`
pub(super) fn show() -> Reply {
    reply::with(StatusCode::OK, "application/json", DOCUMENT)
}
