//! An attack with invalid tokens.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::rc::Rc;

use data_encoding::BASE64URL_NOPAD;
use encke_client::transport::websocket::{Incoming, WebSocket, request_bytes, upgrade};
use encke_client::transport::{ConnectError, Stream};
use encke_core::dialect::json::ServerMessage;

use super::Attacker;

/// Connects with tokens that have random signatures, for ES256, RS256 and HS256 in turn, as fast as the
/// server rejects them.
///
/// The attack costs a connection and some random bytes; verifying a signature costs the server up to a
/// thousand times as much. A server should verify at most one token per connection, and none from an address
/// that has sent many invalid ones. Against a server without keys this attack has no effect.
pub(super) async fn tokens(attacker: Rc<Attacker>, index: u32) {
    let (algorithm, signature_bytes) = match index % 3 {
        0 => ("ES256", 64),
        1 => ("RS256", 256),
        _ => ("HS256", 32),
    };
    loop {
        let headers = format!("Authorization: Bearer {}\r\n", forged(algorithm, signature_bytes));
        let Some(stream) = attacker.connect().await else { continue };
        if let Err(error) = present_token(&attacker, stream, &headers).await {
            attacker.count_response(Err(error));
        }
    }
}

async fn present_token(attacker: &Attacker, mut stream: Stream, headers: &str) -> Result<(), ConnectError> {
    let (host, path) = (attacker.url().authority(), attacker.url().path_with(""));
    attacker.costs.count_sent(request_bytes(host, &path, headers), 1);
    let rest = upgrade(&mut stream, host, &path, headers).await?;
    let mut socket = WebSocket::new(stream, rest);
    let mut on_incoming = |incoming: Incoming<'_>| match incoming {
        // Skip the goaway that tells the client when to retry. The Close frame that follows gives the reason.
        Incoming::Text(text) if is_goaway(&text) => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    match poll_fn(|context| socket.poll_each(context, &mut on_incoming)).await {
        Ok(()) => attacker.costs.count_answer("let_in"),
        Err(end) => attacker.count_end(end),
    }
    Ok(())
}

fn is_goaway(text: &str) -> bool {
    matches!(serde_json::from_str(text), Ok(ServerMessage::Goaway(_)))
}

fn forged(algorithm: &str, signature_bytes: usize) -> String {
    let head = format!(r#"{{"alg":"{algorithm}","typ":"JWT"}}"#);
    let signature: Vec<u8> = std::iter::repeat_with(rand::random).take(signature_bytes).collect();
    let claims = br#"{"sub":"abuse","exp":4102444800,"channels":["**"]}"#;
    [head.as_bytes(), claims, &signature].map(|part| BASE64URL_NOPAD.encode(part)).join(".")
}
