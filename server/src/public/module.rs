//! The client for web pages and node, as an ES module that a page of any origin may import.

use std::sync::LazyLock;

use data_encoding::BASE64URL_NOPAD;
use hyper::StatusCode;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH,
};
use ring::digest::{SHA256, digest};

use crate::http::Reply;
use crate::http::reply::with;

const MODULE: &[u8] = include_bytes!("../../client/encke.js");

/// It says nothing of anyone, so pages that embed nothing of other origins (COEP) may have it, too.
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Changes with the module, and with nothing else: all servers of one version have the same.
static TAG: LazyLock<HeaderValue> = LazyLock::new(|| {
    let tag = BASE64URL_NOPAD.encode(&digest(&SHA256, MODULE).as_ref()[..12]);
    HeaderValue::try_from(format!("\"{tag}\"")).expect("base64 is visible ASCII")
});

/// The module, unless the client has it already. hyper leaves out the body of an answer to HEAD.
pub(super) fn module(headers: &HeaderMap) -> Reply {
    let is_known = headers.get_all(IF_NONE_MATCH).iter().any(|tags| names(tags, &TAG));
    let mut reply = if is_known {
        let mut reply = Reply::default();
        *reply.status_mut() = StatusCode::NOT_MODIFIED;
        reply
    } else {
        with(StatusCode::OK, "text/javascript; charset=utf-8", MODULE)
    };
    let described = reply.headers_mut();
    described.insert(ETAG, TAG.clone());
    // A page asks each time, mostly for 304: so it has the client of the server that it is going to connect to.
    described.insert(CACHE_CONTROL, HeaderValue::from_static("public, no-cache"));
    described.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    described.insert(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("cross-origin"));
    reply
}

/// Whether a list of tags has this one (RFC 9110, section 13.1.2). A cache that has compressed the module calls the tag weak.
fn names(tags: &HeaderValue, tag: &HeaderValue) -> bool {
    tags.as_bytes().split(|byte| *byte == b',').any(|listed| {
        let listed = listed.trim_ascii();
        listed == b"*" || listed.strip_prefix(b"W/").unwrap_or(listed) == tag.as_bytes()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found_in_lists() {
        let tag = HeaderValue::from_static("\"b\"");
        for tags in ["\"b\"", "W/\"b\"", "\"a\", \"b\"", "\"a\",W/\"b\" , \"c\"", "*"] {
            assert!(names(&HeaderValue::from_static(tags), &tag), "{tags}");
        }
        for tags in ["", "b", "\"a\"", "\"bb\"", "W/b", "\"b"] {
            assert!(!names(&HeaderValue::from_static(tags), &tag), "{tags}");
        }
    }
}
