use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde::Serialize;

use super::ApiErrorCode;
use crate::auth::BadHost;

/// How long a client waits after the refusal of a request whose session has a newer connection. Without this
/// pause, two polls of one session would supersede each other endlessly.
pub(crate) const SUPERSEDED_PAUSE: Duration = Duration::from_secs(1);

/// A complete response.
pub(crate) type Reply = Response<Full<Bytes>>;

/// An error response: `{"error":{"code","message"}}` with the matching status.
#[derive(Debug)]
pub(crate) struct ApiError {
    code: ApiErrorCode,
    message: String,
    /// Header that says what the client may do instead.
    header: Option<(HeaderName, HeaderValue)>,
}

impl From<BadHost> for ApiError {
    fn from(error: BadHost) -> Self {
        match error {
            BadHost::NotOne => Self::bad_request(error.to_string()),
            BadHost::Unlisted(_) | BadHost::CrossSite => Self::forbidden(error.to_string()),
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Content of an error response.
#[derive(Debug, Serialize)]
pub(crate) struct ErrorBody {
    code: ApiErrorCode,
    message: String,
}

impl ApiError {
    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Self::new(ApiErrorCode::NotFound, what)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(ApiErrorCode::BadRequest, message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(ApiErrorCode::Forbidden, message)
    }

    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        let error = Self::new(ApiErrorCode::Unauthorized, message);
        Self { header: Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))), ..error }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.code == ApiErrorCode::NotFound
    }

    pub(crate) fn is_unauthorized(&self) -> bool {
        self.code == ApiErrorCode::Unauthorized
    }

    /// Creates the error for a request whose session has a newer connection.
    pub(crate) fn superseded(message: impl Into<String>) -> Self {
        let error = Self::new(ApiErrorCode::Superseded, message);
        Self { header: Some((RETRY_AFTER, HeaderValue::from(SUPERSEDED_PAUSE.as_secs()))), ..error }
    }

    /// Creates the error for an unsupported method. `allow` lists the supported methods, separated by commas.
    pub(crate) fn method_not_allowed(allow: &str) -> Self {
        let error = Self::new(ApiErrorCode::MethodNotAllowed, format!("allowed: {allow}"));
        Self { header: HeaderValue::from_str(allow).ok().map(|allow| (ALLOW, allow)), ..error }
    }

    pub(crate) fn new(code: ApiErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), header: None }
    }

    /// Returns the error without its status, for a list of results.
    pub(crate) fn into_body(self) -> ErrorBody {
        ErrorBody { code: self.code, message: self.message }
    }
}

impl From<ApiError> for Reply {
    fn from(mut error: ApiError) -> Self {
        #[derive(Serialize)]
        struct ErrorEnvelope {
            error: ErrorBody,
        }
        let (status, header) = (error.code.status(), error.header.take());
        let mut reply = json_with(status, &ErrorEnvelope { error: error.into_body() });
        if let Some((name, value)) = header {
            reply.headers_mut().insert(name, value);
        }
        reply
    }
}

pub(crate) fn json(body: &impl Serialize) -> Reply {
    json_with(StatusCode::OK, body)
}

pub(crate) fn json_with(status: StatusCode, body: &impl Serialize) -> Reply {
    let body = serde_json::to_vec(body).expect("our own types have string keys and serialize");
    with(status, "application/json", body)
}

pub(crate) fn with(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

pub(crate) fn no_content() -> Reply {
    let mut reply = Response::new(Full::default());
    *reply.status_mut() = StatusCode::NO_CONTENT;
    reply
}
