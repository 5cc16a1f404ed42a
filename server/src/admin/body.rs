use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::Response;

use crate::http::Reply;

/// Body of a response: a complete [`Reply`], or a stream for a viewer of the dashboard.
pub(super) type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

pub(super) fn full_body(reply: Reply) -> Response<ResponseBody> {
    reply.map(BodyExt::boxed_unsync)
}
