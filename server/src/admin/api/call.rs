use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use encke_base::trace::RequestTrace;
use hyper::HeaderMap;

use super::{DEFAULT_LIMIT, HIGHEST_LIMIT};
use crate::admin::context::Context;
use crate::auth::Operator;
use crate::http::ApiError;

/// A request, as passed to a handler.
pub(crate) struct ApiCall {
    pub(crate) context: Arc<Context>,
    pub(crate) operator: Operator,
    pub(crate) headers: HeaderMap,
    /// Path segment that matches `{id}`, `{name}`, `{user}`, `{key}` or `{file}`, as the client sent it.
    pub(crate) parameter: String,
    pub(crate) query: String,
    /// Body of the request. Empty, unless the route takes a body.
    pub(crate) body: Bytes,
    pub(crate) trace: RequestTrace,
}

/// Parameters in a query. If a name is repeated, its last value counts.
pub(super) struct Query(HashMap<String, String>);

impl ApiCall {
    /// Parses the query.
    pub(super) fn query(&self) -> Query {
        Query(form_urlencoded::parse(self.query.as_bytes()).into_owned().collect())
    }
}

impl Query {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns `limit`, or its default.
    pub(super) fn limit(&self) -> Result<usize, ApiError> {
        let Some(text) = self.get("limit") else { return Ok(DEFAULT_LIMIT) };
        let limit = text.parse().ok().filter(|limit| (1..=HIGHEST_LIMIT).contains(limit));
        limit.ok_or_else(|| ApiError::bad_request(format!("limit must be from 1 to {HIGHEST_LIMIT}")))
    }

    /// Returns a non-negative integer. Numbers that do not fit into 64 bits saturate, because no offset is
    /// greater.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(ApiError::bad_request(format!("{name} must be a non-negative integer")));
        }
        Ok(Some(text.parse().unwrap_or(u64::MAX)))
    }
}
