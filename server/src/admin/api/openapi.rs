use hyper::StatusCode;

use crate::http::Reply;
use crate::http::reply;

/// OpenAPI document of the admin API, written by hand. A unit test compares it with the routes, and an
/// end-to-end test with the behaviour of the handlers.
pub(super) const DOCUMENT: &str = include_str!("openapi.json");

/// `GET /api/openapi.json`
pub(super) fn show() -> Reply {
    reply::with(StatusCode::OK, "application/json", DOCUMENT)
}
