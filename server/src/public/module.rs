//! JavaScript client for web pages and Node.js, served as an ES module that a page of any origin may import.

use std::sync::LazyLock;

use hyper::header::{ACCESS_CONTROL_ALLOW_ORIGIN, HeaderMap, HeaderName, HeaderValue};

use crate::http::{EmbeddedFile, Reply};

/// Header that allows the module on pages that may not embed resources of other origins (COEP). The module
/// contains nothing private.
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The module, embedded so that the client version always matches the server that a page connects to.
static MODULE: LazyLock<EmbeddedFile> = LazyLock::new(|| {
    EmbeddedFile::new("text/javascript; charset=utf-8", include_bytes!("../../client/encke.js"))
});

/// Returns the module, or 304 if the client has it already.
pub(super) fn module(headers: &HeaderMap) -> Reply {
    let mut reply = MODULE.reply(headers);
    let described = reply.headers_mut();
    described.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    described.insert(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("cross-origin"));
    reply
}
