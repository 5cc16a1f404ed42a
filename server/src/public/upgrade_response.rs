//! Response to a WebSocket upgrade.

use std::io::Write;

use hyper::header::{CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE};
use hyper::{Method, Request, Version};
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use tokio_tungstenite::tungstenite::error::ProtocolError;

use crate::http::elements;

/// Capacity for the response and the hello that follows it.
const ROOM: usize = 512;

/// Name of the `json` dialect as a WebSocket subprotocol.
pub(super) const SUBPROTOCOL: &str = "encke.v1";

/// Length of the key in base64.
const KEY_CHARS: usize = 24;
const KEY_BYTES: usize = 16;

/// Appended to the key before hashing (RFC 6455, section 1.3).
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Returns the value of `Sec-WebSocket-Accept` if the request is an upgrade. The checks are the same as
/// tungstenite's, except that `Upgrade` may list other protocols, too.
pub(super) fn accept<B>(request: &Request<B>) -> Result<String, ProtocolError> {
    let text = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if request.method() != Method::GET {
        return Err(ProtocolError::WrongHttpMethod);
    }
    if request.version() < Version::HTTP_11 {
        return Err(ProtocolError::WrongHttpVersion);
    }
    if !text(CONNECTION).split([' ', ',']).any(|option| option.eq_ignore_ascii_case("upgrade")) {
        return Err(ProtocolError::MissingConnectionUpgradeHeader);
    }
    if !elements(text(UPGRADE).as_bytes()).any(|protocol| protocol.eq_ignore_ascii_case(b"websocket")) {
        return Err(ProtocolError::MissingUpgradeWebSocketHeader);
    }
    if text(SEC_WEBSOCKET_VERSION) != "13" {
        return Err(ProtocolError::MissingSecWebSocketVersionHeader);
    }
    let key = request.headers().get(SEC_WEBSOCKET_KEY).ok_or(ProtocolError::MissingSecWebSocketKey)?;
    if !is_key(key.as_bytes()) {
        return Err(ProtocolError::InvalidSecWebSocketKey);
    }
    let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key.as_bytes());
    hash.update(KEY_SUFFIX);
    Ok(data_encoding::BASE64.encode(hash.finish().as_ref()))
}

/// Returns the serialized response if the request is an upgrade. Without hyper, the response needs five fewer
/// allocations.
pub(super) fn head<B>(request: &Request<B>) -> Option<Vec<u8>> {
    let accept = accept(request).ok()?;
    let mut head = Vec::with_capacity(ROOM);
    head.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ",
    );
    head.extend_from_slice(accept.as_bytes());
    if offers_subprotocol(request) {
        write!(head, "\r\n{SEC_WEBSOCKET_PROTOCOL}: {SUBPROTOCOL}").expect("writing to a Vec cannot fail");
    }
    head.extend_from_slice(b"\r\n\r\n");
    Some(head)
}

/// Whether the client offers [`SUBPROTOCOL`]. A browser fails the connection if the server selects none of the
/// subprotocols that the page offers.
pub(super) fn offers_subprotocol<B>(request: &Request<B>) -> bool {
    let offers = request.headers().get_all(SEC_WEBSOCKET_PROTOCOL);
    offers.iter().flat_map(|names| elements(names.as_bytes())).any(|name| name == SUBPROTOCOL.as_bytes())
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
    use tokio_tungstenite::tungstenite::Error;
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
        let theirs = create_response(request).map(|response| {
            let mut written = Vec::new();
            write_response(&mut written, &response).expect("writing to a Vec cannot fail");
            String::from_utf8(written).expect("text")
        });
        let ours =
            accept(request).map(|_| String::from_utf8(head(request).expect("a response")).expect("text"));
        let ours = ours.map_err(Error::from);
        let text = |result: &Result<String, Error>| result.as_ref().map_err(ToString::to_string).cloned();
        assert_eq!(text(&ours), text(&theirs), "{request:?}");
        assert_eq!(head(request).is_some(), ours.is_ok());
        ours.is_ok()
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
    fn one_of_several_protocols_may_be_selected() {
        let head = |upgrade: &'static [u8], offers: &[&'static [u8]]| {
            let mut headers = vec![
                (CONNECTION, &b"upgrade"[..]),
                (UPGRADE, upgrade),
                (SEC_WEBSOCKET_VERSION, b"13"),
                (SEC_WEBSOCKET_KEY, KEY),
            ];
            headers.extend(offers.iter().map(|offer| (SEC_WEBSOCKET_PROTOCOL, *offer)));
            head(&request(&headers)).map(|head| String::from_utf8(head).expect("text"))
        };
        let plain = head(b"websocket", &[]).expect("an upgrade");
        assert_eq!(head(b"h2c, WebSocket", &[b"x", b"encke.v2,y"]), Some(plain.clone()));
        assert_eq!(head(b"h2c,websocket2", &[]), None);
        let selected = plain.replace("\r\n\r\n", "\r\nsec-websocket-protocol: encke.v1\r\n\r\n");
        for offers in [&[&b"encke.v1"[..]][..], &[b"x, encke.v1"], &[b"x", b"encke.v1"]] {
            assert_eq!(head(b"websocket", offers), Some(selected.clone()), "{offers:?}");
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
