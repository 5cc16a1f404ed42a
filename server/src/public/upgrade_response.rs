//! Response to a WebSocket upgrade, written without hyper.

use hyper::header::{CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use hyper::{Method, Request, Version};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// Capacity for the response and the hello that follows it.
const ROOM: usize = 512;

/// Length of the key in base64.
const KEY_CHARS: usize = 24;
const KEY_BYTES: usize = 16;

/// Returns the serialized response if the request is an upgrade. The checks are the same as tungstenite's,
/// which builds its response from headers, at the cost of five more allocations.
pub(super) fn head<B>(request: &Request<B>) -> Option<Vec<u8>> {
    let text = |name| request.headers().get(name)?.to_str().ok();
    let is_upgrade = request.method() == Method::GET
        && request.version() >= Version::HTTP_11
        && text(CONNECTION)?.split([' ', ',']).any(|option| option.eq_ignore_ascii_case("upgrade"))
        && text(UPGRADE)?.eq_ignore_ascii_case("websocket")
        && request.headers().get(SEC_WEBSOCKET_VERSION)? == "13";
    let key = request.headers().get(SEC_WEBSOCKET_KEY)?.as_bytes();
    if !is_upgrade || !is_key(key) {
        return None;
    }
    let mut head = Vec::with_capacity(ROOM);
    head.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ",
    );
    head.extend_from_slice(derive_accept_key(key).as_bytes());
    head.extend_from_slice(b"\r\n\r\n");
    Some(head)
}

/// Whether the text is base64 of exactly `KEY_BYTES` bytes.
fn is_key(text: &[u8]) -> bool {
    // Two bytes longer, because the decoder expects space for what the text would decode to without padding.
    let mut bytes = [0; KEY_BYTES + 2];
    text.len() == KEY_CHARS && data_encoding::BASE64.decode_mut(text, &mut bytes) == Ok(KEY_BYTES)
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};
    use tokio_tungstenite::tungstenite::handshake::server::{create_response, write_response};

    use super::*;

    /// Values of a header, and whether a valid upgrade may contain them.
    type Values = &'static [(&'static [u8], bool)];

    const KEY: &[u8] = b"dGhlIHNhbXBsZSBub25jZQ==";

    fn request(headers: &[(HeaderName, &[u8])]) -> Request<()> {
        let mut request = Request::new(());
        for (name, value) in headers {
            let value = HeaderValue::from_bytes(value).expect("a value");
            request.headers_mut().append(name.clone(), value);
        }
        request
    }

    /// Returns whether the request is an upgrade, and checks that tungstenite agrees.
    #[track_caller]
    fn is_upgrade(request: &Request<()>) -> bool {
        let theirs = create_response(request).ok().map(|response| {
            let mut written = Vec::new();
            write_response(&mut written, &response).expect("writing to a Vec cannot fail");
            written
        });
        let ours = head(request);
        let text =
            |head: &Option<Vec<u8>>| head.as_ref().map(|head| String::from_utf8_lossy(head).into_owned());
        assert_eq!(text(&ours), text(&theirs), "{request:?}");
        ours.is_some()
    }

    #[test]
    fn same_upgrades_as_tungstenite() {
        let values: [(HeaderName, Values); 4] = [
            (
                CONNECTION,
                &[
                    (b"Upgrade", true),
                    (b"keep-alive, upgrade", true),
                    (b"keep-alive,UPGRADE", true),
                    (b"upgrade close", true),
                    (b"", false),
                    (b"keep-alive", false),
                    (b"upgrades", false),
                    (b"upgrade;", false),
                    (b"up\xffgrade, upgrade", false),
                    (b"\tupgrade", false),
                ],
            ),
            (
                UPGRADE,
                &[
                    (b"websocket", true),
                    (b"WebSocket", true),
                    (b"", false),
                    (b"websocket, h2c", false),
                    (b"h2c", false),
                    (b"websocket\xff", false),
                ],
            ),
            (SEC_WEBSOCKET_VERSION, &[(b"13", true), (b"8", false), (b"13, 8", false), (b"", false)]),
            (
                SEC_WEBSOCKET_KEY,
                &[
                    (KEY, true),
                    (b"AAAAAAAAAAAAAAAAAAAAAA==", true),
                    (b"", false),
                    // The unused trailing bits are not zero.
                    (b"dGhlIHNhbXBsZSBub25jZR==", false),
                    (b"dGhlIHNhbXBsZSBub25jZQ", false),
                    (b"dGhlIHNhbXBsZSBub25jZQ==\xff", false),
                    (b"dGhlIHNhbXBsZSBub25jZQA=", false),
                    (b"dGhlIHNhbXBsZSBub25jZQAA", false),
                    (b"dGhlIHNhbXBs-SBub25jZQ==", false),
                    (b"dGhlIHNh=XBsZSBub25jZQ==", false),
                    (b"========================", false),
                ],
            ),
        ];
        let good = values.each_ref().map(|(name, values)| (name.clone(), values[0].0));
        assert!(is_upgrade(&request(&good)));
        for (at, (name, values)) in values.iter().enumerate() {
            for (value, expected) in *values {
                let mut headers = good.clone();
                headers[at].1 = value;
                assert_eq!(is_upgrade(&request(&headers)), *expected, "{name}: {}", value.escape_ascii());
                // If a header is repeated, its first value is used.
                let again = [&headers[..], &[(name.clone(), good[at].1)]].concat();
                assert_eq!(is_upgrade(&request(&again)), *expected, "{name}: {}", value.escape_ascii());
            }
            let mut without = good.to_vec();
            without.remove(at);
            assert!(!is_upgrade(&request(&without)), "without {name}");
        }
    }

    #[test]
    fn upgrade_requires_get_and_http_1_1() {
        let headers = [
            (CONNECTION, &b"upgrade"[..]),
            (UPGRADE, b"websocket"),
            (SEC_WEBSOCKET_VERSION, b"13"),
            (SEC_WEBSOCKET_KEY, KEY),
        ];
        let mut post = request(&headers);
        *post.method_mut() = Method::POST;
        assert!(!is_upgrade(&post));
        for (version, expected) in
            [(Version::HTTP_09, false), (Version::HTTP_10, false), (Version::HTTP_11, true)]
        {
            let mut request = request(&headers);
            *request.version_mut() = version;
            assert_eq!(is_upgrade(&request), expected, "{version:?}");
        }
    }
}
