//! Client side of the opening handshake, RFC 6455 section 4.1.

use data_encoding::BASE64;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::transport::{ConnectError, ResponseHead};

/// Section 1.3: suffix that is appended to the key before hashing.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Requests an upgrade to WebSocket at `path` from `host`, with additional header lines. Returns the bytes
/// that the server sent after its response.
pub async fn upgrade<S>(
    stream: &mut S,
    host: &str,
    path: &str,
    headers: &str,
) -> Result<Vec<u8>, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let key = BASE64.encode(&rand::random::<[u8; 16]>());
    stream.write_all(request(host, path, headers, &key).as_bytes()).await?;
    stream.flush().await?;
    let head = ResponseHead::read(stream).await?;
    if head.status != 101 {
        return Err(ConnectError::Refused(head.status));
    }
    check(&head, &key).map_err(ConnectError::Upgrade)?;
    Ok(head.rest)
}

fn request(host: &str, path: &str, headers: &str, key: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{headers}\r\n"
    )
}

/// Returns the length of the request that [`upgrade`] sends.
pub fn request_bytes(host: &str, path: &str, headers: &str) -> usize {
    // A key is 16 bytes in base64.
    request(host, path, headers, &"x".repeat(24)).len()
}

fn check(head: &ResponseHead, key: &str) -> Result<(), &'static str> {
    if !head.has_token("upgrade", "websocket") {
        return Err("the response has no \"Upgrade: websocket\"");
    }
    if !head.has_token("connection", "upgrade") {
        return Err("the response has no \"Connection: Upgrade\"");
    }
    if head.header("sec-websocket-accept") != Some(&accept_of(key)) {
        return Err("Sec-WebSocket-Accept does not match the key");
    }
    let extras = ["sec-websocket-extensions", "sec-websocket-protocol"];
    if extras.into_iter().any(|name| head.header(name).is_some()) {
        return Err("the response has an extension or subprotocol that the client did not offer");
    }
    Ok(())
}

fn accept_of(key: &str) -> String {
    let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key.as_bytes());
    hash.update(GUID.as_bytes());
    BASE64.encode(hash.finish().as_ref())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    const SWITCHING: &str =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n";

    /// Upgrades with a peer that answers with these pieces. `{accept}` stands for the correct hash.
    async fn upgraded(pieces: &[&str]) -> Result<Vec<u8>, ConnectError> {
        let (mut near, mut peer) = duplex(64 * 1024);
        let answer = async {
            let mut request = String::new();
            while !request.ends_with("\r\n\r\n") {
                request.push(peer.read_u8().await.expect("the client sends a request").into());
            }
            assert!(request.starts_with("GET /ws HTTP/1.1\r\nHost: example.test\r\n"), "{request}");
            let (_, key) = request.split_once("Sec-WebSocket-Key: ").expect("the request has a key");
            for piece in pieces {
                let piece = piece.replace("{accept}", &accept_of(&key[..24]));
                peer.write_all(piece.as_bytes()).await.expect("the client reads");
                tokio::task::yield_now().await;
            }
            drop(peer);
        };
        tokio::join!(upgrade(&mut near, "example.test", "/ws", ""), answer).0
    }

    #[tokio::test]
    async fn bytes_after_the_response_are_kept() {
        let example_of_the_rfc = accept_of("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(example_of_the_rfc, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let whole = format!("{SWITCHING}Sec-WebSocket-Accept: {{accept}}\r\n\r\nrest");
        let (head, tail) = whole.split_at(20);
        for pieces in [&[whole.as_str()][..], &[head, tail]] {
            assert_eq!(upgraded(pieces).await.expect("the upgrade succeeds"), b"rest");
        }
    }

    #[tokio::test]
    async fn other_responses_are_failures() {
        let protocol = "Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: x\r\n\r\n";
        for (pieces, why) in [
            (&["HTTP/1.1 503 Service Unavailable\r\n\r\n"][..], "refused with status 503"),
            (&[SWITCHING], "unexpected end of file"),
            (&[SWITCHING, "Sec-WebSocket-Accept: x\r\n\r\n"], "does not match"),
            (&[SWITCHING, "\r\n"], "does not match"),
            (&[SWITCHING, protocol], "not offer"),
            (&["HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"], "Upgrade: websocket"),
            (&[SWITCHING, "Filler: ", &"x".repeat(16 * 1024)], "too long"),
            (&["220 ready for mail\r\n\r\n"], "not HTTP"),
        ] {
            let failure = upgraded(pieces).await.expect_err("the response is invalid").to_string();
            assert!(failure.contains(why), "{failure}");
        }
    }
}
