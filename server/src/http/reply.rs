use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde::Serialize;

/// A whole answer.
pub(crate) type Reply = Response<Full<Bytes>>;

/// A refusal: `{"error":{"code","message"}}` with the fitting status.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    /// What the client may do instead.
    header: Option<(HeaderName, &'static str)>,
}

impl ApiError {
    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", what)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message);
        Self { header: Some((WWW_AUTHENTICATE, "Bearer")), ..error }
    }

    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        let error =
            Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", format!("allowed: {allow}"));
        Self { header: Some((ALLOW, allow)), ..error }
    }

    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), header: None }
    }
}

impl From<ApiError> for Reply {
    fn from(error: ApiError) -> Self {
        #[derive(Serialize)]
        struct Body<'a> {
            error: Inner<'a>,
        }
        #[derive(Serialize)]
        struct Inner<'a> {
            code: &'static str,
            message: &'a str,
        }
        let body = Body { error: Inner { code: error.code, message: &error.message } };
        let mut reply = json_with(error.status, &body);
        if let Some((name, value)) = error.header {
            reply.headers_mut().insert(name, HeaderValue::from_static(value));
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
