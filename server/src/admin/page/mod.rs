//! The dashboard's files, which are embedded in the binary. They are served without a key, because they
//! contain no data: the page loads its data from the API.

mod files;
mod policy;

use hyper::header::{
    CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};

use super::context::Context;
use crate::http::{ApiError, EmbeddedFile, Reply};

const CROSS_ORIGIN_OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// `GET /`
pub(super) fn index(headers: &HeaderMap, context: &Context) -> Reply {
    guarded(files::find(files::INDEX).expect("a test finds it"), headers, context)
}

/// `GET /dashboard/{file}`
pub(super) fn file(name: &str, headers: &HeaderMap, context: &Context) -> Result<Reply, ApiError> {
    let file = files::find(name).filter(|_| name != files::INDEX);
    let file = file.ok_or_else(|| ApiError::not_found(format!("no such file: {name}")))?;
    Ok(guarded(file, headers, context))
}

/// `GET /docs`
pub(super) fn documents(headers: &HeaderMap, context: &Context) -> Reply {
    guarded(files::find_document(files::DOCUMENT_INDEX).expect("a test finds it"), headers, context)
}

/// `GET /docs/{part}/{page}`. The name has both.
pub(super) fn document(name: &str, headers: &HeaderMap, context: &Context) -> Result<Reply, ApiError> {
    let page = files::find_document(name);
    let page = page.ok_or_else(|| ApiError::not_found(format!("no such document: {name}")))?;
    Ok(guarded(page, headers, context))
}

fn guarded(file: &EmbeddedFile, headers: &HeaderMap, context: &Context) -> Reply {
    let mut reply = file.reply(headers);
    let described = reply.headers_mut();
    described.insert(CONTENT_SECURITY_POLICY, policy::content_security_policy(headers, &context.public));
    described.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    described.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    described.insert(CROSS_ORIGIN_OPENER_POLICY, HeaderValue::from_static("same-origin"));
    reply
}
