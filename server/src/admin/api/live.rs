use hyper::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};

use super::routes::Call;
use crate::admin::body::Body;
use crate::admin::live;
use crate::http::{ApiError, ApiErrorCode};

/// Else nginx would gather what comes by and by.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// `GET /api/live`
pub(super) fn watch(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let viewer = live::view(call.operator, call.context).ok_or_else(draining)?;
    let mut response = Response::new(Body::Live(viewer));
    for (name, value) in
        [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store"), (X_ACCEL_BUFFERING, "no")]
    {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

fn draining() -> ApiError {
    ApiError::new(ApiErrorCode::Draining, "the server is going away")
}
