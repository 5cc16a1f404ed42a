//! Client side of the opening handshake, RFC 6455 section 4.1.

use data_encoding::BASE64;
use sha1::{Digest, Sha1};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::transport::error::{ConnectError, UpgradeError};
use crate::transport::http_head::ResponseHead;

/// Section 1.3: suffix that is appended to the key before hashing.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Requests an upgrade to WebSocket at `path` from `host`, with additional header lines. Returns the bytes
/// that the server sent after its response.
pub(crate) async fn upgrade<S>(
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
pub(crate) fn request_bytes(host: &str, path: &str, headers: &str) -> usize {
    // A key is 16 bytes in base64.
    request(host, path, headers, &"x".repeat(24)).len()
}

fn check(head: &ResponseHead, key: &str) -> Result<(), UpgradeError> {
    if !head.has_token("upgrade", "websocket") {
        return Err(UpgradeError::Upgrade);
    }
    if !head.has_token("connection", "upgrade") {
        return Err(UpgradeError::Connection);
    }
    if head.header("sec-websocket-accept") != Some(&accept_of(key)) {
        return Err(UpgradeError::Accept);
    }
    let unasked = ["sec-websocket-extensions", "sec-websocket-protocol"];
    if unasked.into_iter().any(|name| head.header(name).is_some()) {
        return Err(UpgradeError::NotOffered);
    }
    Ok(())
}

fn accept_of(key: &str) -> String {
    BASE64.encode(&Sha1::new().chain_update(key).chain_update(GUID).finalize())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, DuplexStream, duplex};

    use super::*;
    use crate::transport::error::ResponseHeadError;
    use crate::transport::http_head::MAX_HEAD_BYTES;

    /// Upgrades with a peer that answers with these pieces. `{accept}` stands for the correct hash.
    async fn upgraded(pieces: &[&str]) -> Result<Vec<u8>, ConnectError> {
        let (mut near, far) = duplex(64 * 1024);
        let both =
            async { tokio::join!(upgrade(&mut near, "example.test", "/ws", ""), answer(far, pieces)).0 };
        tokio::time::timeout(Duration::from_secs(10), both).await.expect("the handshake is fast")
    }

    async fn answer(mut peer: DuplexStream, pieces: &[&str]) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            peer.read_buf(&mut request).await.expect("the client sends a request");
        }
        let request = String::from_utf8(request).expect("a request is text");
        assert!(request.starts_with("GET /ws HTTP/1.1\r\nHost: example.test\r\n"), "{request}");
        let key = request
            .lines()
            .find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "))
            .expect("the request has a key");
        for piece in pieces {
            let piece = piece.replace("{accept}", &accept_of(key));
            peer.write_all(piece.as_bytes()).await.expect("the client reads");
            tokio::task::yield_now().await;
        }
    }

    const SWITCHING: &str =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n";

    #[test]
    fn the_accept_key_is_that_of_the_rfc() {
        assert_eq!(accept_of("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[tokio::test]
    async fn bytes_after_the_response_are_kept() {
        let whole = format!("{SWITCHING}Sec-WebSocket-Accept: {{accept}}\r\n\r\nrest");
        assert_eq!(upgraded(&[&whole]).await.expect("the upgrade succeeds"), b"rest");
        let (head, tail) = whole.split_at(20);
        assert_eq!(upgraded(&[head, tail]).await.expect("the upgrade succeeds"), b"rest");
    }

    #[tokio::test]
    async fn other_responses_are_failures() {
        let refused = upgraded(&["HTTP/1.1 503 Service Unavailable\r\n\r\n"]).await;
        assert!(matches!(refused, Err(ConnectError::Refused(503))), "{refused:?}");
        let cut = upgraded(&[SWITCHING]).await;
        assert!(matches!(cut, Err(ConnectError::Io(_))), "{cut:?}");
        for (rest, expected) in [
            ("Sec-WebSocket-Accept: x\r\n\r\n", UpgradeError::Accept),
            ("\r\n", UpgradeError::Accept),
            (
                "Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Extensions: x\r\n\r\n",
                UpgradeError::NotOffered,
            ),
        ] {
            let wrong = upgraded(&[SWITCHING, rest]).await;
            assert!(matches!(wrong, Err(ConnectError::Upgrade(why)) if why == expected), "{wrong:?}");
        }
        let other = upgraded(&["HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"]).await;
        assert!(matches!(other, Err(ConnectError::Upgrade(UpgradeError::Upgrade))), "{other:?}");
        let endless = upgraded(&[SWITCHING, "Filler: ", &"x".repeat(MAX_HEAD_BYTES)]).await;
        assert!(matches!(endless, Err(ConnectError::NotHttp(ResponseHeadError::TooLong))), "{endless:?}");
        let other = upgraded(&["220 ready for mail\r\n\r\n"]).await;
        assert!(matches!(other, Err(ConnectError::NotHttp(ResponseHeadError::Syntax(_)))), "{other:?}");
    }
}
