//! The client's half of the WebSocket handshake.
//!
//! The library's own keeps its 4 KiB read buffer for as long as the connection lives, three times what the rest
//! of an idle connection takes. This one keeps what came after the response, and nothing else.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::client::{Response, generate_request};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::handshake::machine::TryParse;

use crate::failure::Failure;

/// The longest response that is read.
const MAX_RESPONSE_BYTES: usize = 16 * 1024;

/// Asks for an upgrade to WebSocket. Returns what the server sent after its response.
pub(crate) async fn upgrade<S>(stream: &mut S, url: &str) -> Result<Vec<u8>, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (request, key) = generate_request(url.into_client_request()?)?;
    stream.write_all(&request).await?;
    let (response, rest) = read_response(stream).await?;
    if response.status() != 101 {
        return Err(Failure::Refused(response.status().as_u16()));
    }
    let accept = response.headers().get("sec-websocket-accept").map(|accept| accept.as_bytes());
    if accept != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
        return Err(Failure::Upgrade(ProtocolError::SecWebSocketAcceptKeyMismatch.into()));
    }
    Ok(rest)
}

async fn read_response<S: AsyncRead + Unpin>(stream: &mut S) -> Result<(Response, Vec<u8>), Failure> {
    let mut read = Vec::with_capacity(1024);
    while read.len() < MAX_RESPONSE_BYTES {
        if stream.read_buf(&mut read).await? == 0 {
            return Err(Failure::Connect(io::ErrorKind::UnexpectedEof.into()));
        }
        if let Some((length, response)) = Response::try_parse(&read)? {
            return Ok((response, read[length..].to_vec()));
        }
    }
    Err(Failure::Upgrade(ProtocolError::HandshakeIncomplete.into()))
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};

    use super::*;

    /// Upgrades against a peer that answers with these pieces. `{accept}` stands for the right key.
    async fn upgraded(pieces: &[&str]) -> Result<Vec<u8>, Failure> {
        let (mut near, far) = duplex(64 * 1024);
        let (result, ()) = tokio::join!(upgrade(&mut near, "ws://example.test/ws"), answer(far, pieces));
        result
    }

    async fn answer(mut peer: DuplexStream, pieces: &[&str]) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            peer.read_buf(&mut request).await.expect("the client asks");
        }
        let request = String::from_utf8(request).expect("a request is text");
        let key =
            request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).expect("it has a key");
        for piece in pieces {
            let piece = piece.replace("{accept}", &derive_accept_key(key.as_bytes()));
            peer.write_all(piece.as_bytes()).await.expect("the client listens");
            tokio::task::yield_now().await;
        }
    }

    const SWITCHING: &str =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";

    #[tokio::test]
    async fn what_follows_the_response_is_not_lost() {
        let whole = format!("{SWITCHING}Sec-WebSocket-Accept: {{accept}}\r\n\r\nrest");
        assert_eq!(upgraded(&[&whole]).await.expect("it upgrades"), b"rest");
        let (head, tail) = whole.split_at(20);
        assert_eq!(upgraded(&[head, tail]).await.expect("it upgrades"), b"rest");
    }

    #[tokio::test]
    async fn everything_else_is_a_failure() {
        let refused = upgraded(&["HTTP/1.1 503 Service Unavailable\r\n\r\n"]).await;
        assert!(matches!(refused, Err(Failure::Refused(503))), "{refused:?}");
        let cut = upgraded(&[SWITCHING]).await;
        assert!(matches!(cut, Err(Failure::Connect(_))), "{cut:?}");
        for wrong in ["Sec-WebSocket-Accept: x\r\n\r\n", "\r\n"] {
            let wrong = upgraded(&[SWITCHING, wrong]).await;
            assert!(matches!(wrong, Err(Failure::Upgrade(_))), "{wrong:?}");
        }
        let endless = upgraded(&[SWITCHING, "Filler: ", &"x".repeat(MAX_RESPONSE_BYTES)]).await;
        assert!(matches!(endless, Err(Failure::Upgrade(_))), "{endless:?}");
        let other = upgraded(&["220 ready for mail\r\n\r\n"]).await;
        assert!(matches!(other, Err(Failure::Upgrade(_))), "{other:?}");
    }
}
