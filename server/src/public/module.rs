//! The client for web pages and node, as an ES module that a page of any origin may import.

use std::sync::LazyLock;

use hyper::header::{ACCESS_CONTROL_ALLOW_ORIGIN, HeaderMap, HeaderName, HeaderValue};

use crate::http::{Embedded, Reply};

/// It says nothing of anyone, so pages that embed nothing of other origins (COEP) may have it, too.
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// A page has the client of the server that it is going to connect to.
static MODULE: LazyLock<Embedded> = LazyLock::new(|| {
    Embedded::new("text/javascript; charset=utf-8", include_bytes!("../../client/encke.js"))
});

/// The module, unless the client has it already.
pub(super) fn module(headers: &HeaderMap) -> Reply {
    let mut reply = MODULE.reply(headers);
    let described = reply.headers_mut();
    described.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    described.insert(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("cross-origin"));
    reply
}
