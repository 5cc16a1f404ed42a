use futures_util::StreamExt;
use http_body_util::{BodyExt, StreamBody};
use hyper::Response;
use hyper::body::Frame;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};

use super::call::ApiCall;
use super::run_to_completion::stopping;
use crate::admin::body::ResponseBody;
use crate::admin::live;
use crate::http::ApiError;

/// Header that stops nginx from buffering the stream.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// `GET /api/live`
pub(super) fn watch(call: &ApiCall) -> Result<Response<ResponseBody>, ApiError> {
    let pieces = live::view(&call.operator, &call.context).ok_or_else(stopping)?;
    let body = StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece))));
    let mut response = Response::new(body.boxed_unsync());
    for (name, value) in
        [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store"), (X_ACCEL_BUFFERING, "no")]
    {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}
