use data_encoding::BASE64URL_NOPAD;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use ring::digest::{SHA256, digest};

use super::reply::with;
use super::{Reply, elements};

/// A file embedded in the binary. Clients revalidate their copy on every use, and usually get 304, so the
/// copy always matches the server's version.
#[derive(Debug)]
pub(crate) struct EmbeddedFile {
    content_type: &'static str,
    bytes: &'static [u8],
    /// Entity tag. It depends only on the content, so all servers of one version have the same tag.
    tag: HeaderValue,
}

impl EmbeddedFile {
    pub(crate) fn new(content_type: &'static str, bytes: &'static [u8]) -> Self {
        let tag = BASE64URL_NOPAD.encode(&digest(&SHA256, bytes).as_ref()[..12]);
        let tag = HeaderValue::try_from(format!("\"{tag}\"")).expect("base64 is visible ASCII");
        Self { content_type, bytes, tag }
    }

    /// Returns the file, or 304 if the client has it already. hyper omits the body of a response to HEAD.
    pub(crate) fn reply(&self, headers: &HeaderMap) -> Reply {
        let is_known = headers.get_all(IF_NONE_MATCH).iter().any(|tags| lists_tag(tags, &self.tag));
        let mut reply = if is_known {
            let mut reply = Reply::default();
            *reply.status_mut() = StatusCode::NOT_MODIFIED;
            reply
        } else {
            with(StatusCode::OK, self.content_type, self.bytes)
        };
        reply.headers_mut().insert(ETAG, self.tag.clone());
        reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, no-cache"));
        reply
    }
}

/// Whether a list of tags contains this one (RFC 9110, section 13.1.2). A cache that has compressed the file
/// makes the tag weak.
fn lists_tag(tags: &HeaderValue, tag: &HeaderValue) -> bool {
    elements(tags.as_bytes())
        .any(|listed| listed == b"*" || listed.strip_prefix(b"W/").unwrap_or(listed) == tag.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found_in_lists() {
        let tag = HeaderValue::from_static("\"b\"");
        for tags in ["\"b\"", "W/\"b\"", "\"a\", \"b\"", "\"a\",W/\"b\" , \"c\"", "*"] {
            assert!(lists_tag(&HeaderValue::from_static(tags), &tag), "{tags}");
        }
        for tags in ["", "b", "\"a\"", "\"bb\"", "W/b", "\"b"] {
            assert!(!lists_tag(&HeaderValue::from_static(tags), &tag), "{tags}");
        }
    }

    #[test]
    fn unchanged_file_gets_304() {
        let file = EmbeddedFile::new("text/plain", b"a file");
        let first = file.reply(&HeaderMap::new());
        assert_eq!(first.status(), StatusCode::OK);
        let tag = first.headers()[ETAG].clone();
        let again = file.reply(&HeaderMap::from_iter([(IF_NONE_MATCH, tag.clone())]));
        assert_eq!((again.status(), &again.headers()[ETAG]), (StatusCode::NOT_MODIFIED, &tag));
        let other =
            EmbeddedFile::new("text/plain", b"another").reply(&HeaderMap::from_iter([(IF_NONE_MATCH, tag)]));
        assert_eq!(other.status(), StatusCode::OK);
    }
}
